// Fuzzes the check of images. No body may crash it or take long; a fault says something printable about a byte of the
// body; an image that is accepted has at least one pixel, and is accepted again.
//
// Run: make fuzz. CRCs keep a fuzzer out of a PNG: those of the input are made right, and it is checked a second time.

import Bytes
import Images

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzImages_main")
public func fuzzImagesMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzImages)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzImages(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data, count: count))
  check(bytes)
  if let mended = withRightCRCs(bytes) { check(mended) }
  return 0
}

private func check(_ bytes: [UInt8]) {
  // As an operator has it; none at all, where products overflow; and none allowed.
  let usual = ImageCheck.check(bytes.span, maximumPixels: 100_000_000)
  let unlimited = ImageCheck.check(bytes.span, maximumPixels: .max)
  let nothing = ImageCheck.check(bytes.span, maximumPixels: 0)
  for fault in [usual, unlimited, nothing] { expectSound(fault, bytes.count) }
  if usual == nil, unlimited != nil { fatalError("a higher limit refuses what a lower one accepts") }
  if nothing == nil { fatalError("an image without pixels") }
  if usual != ImageCheck.check(bytes.span, maximumPixels: 100_000_000) { fatalError("checked again, it differs") }
}

private func expectSound(_ fault: ContentFault?, _ count: Int) {
  guard let fault else { return }
  if fault.reason.isEmpty || fault.offset < 0 || fault.offset > count { fatalError("a fault of nothing: \(fault)") }
  if fault.sentence.utf8.contains(where: { !(0x20..<0x7f).contains($0) }) { fatalError("not printable: \(fault)") }
}

/// The bytes with the CRC of every chunk of the first PNG made right, be it the body or in an icon; nil without a PNG.
private func withRightCRCs(_ bytes: [UInt8]) -> [UInt8]? {
  let signature: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
  guard let start = bytes.indices.first(where: { bytes[$0...].starts(with: signature) }) else { return nil }
  var mended = bytes
  var at = start + signature.count
  while at + 12 <= bytes.count {
    let length = bytes[at..<at + 4].reduce(0) { $0 << 8 | Int($1) }
    guard length <= bytes.count - at - 12 else { break }
    let end = at + 8 + length
    let crc = crc(bytes[at + 4..<end])
    for index in 0..<4 { mended[end + index] = UInt8(truncatingIfNeeded: crc >> (24 - 8 * index)) }
    at = end + 4
  }
  return mended
}

/// CRC-32 of ISO 3309, a bit at a time (PNG, annex D).
private func crc(_ bytes: ArraySlice<UInt8>) -> UInt32 {
  var remainder: UInt32 = ~0
  for byte in bytes {
    remainder ^= UInt32(byte)
    for _ in 0..<8 { remainder = remainder & 1 == 1 ? remainder >> 1 ^ 0xedb8_8320 : remainder >> 1 }
  }
  return ~remainder
}
