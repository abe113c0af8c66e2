// Fuzzes property lists, of XML and binary: no body may crash the check or a merge, both say the same of it, and what
// was merged is a property list that holds the parameters, and stays as it is when they are merged again.
//
// Run: make fuzz. The first byte of the input chooses the charset.

import Bytes
import Serialization

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzPropertyLists_main")
public func fuzzPropertyListsMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzPropertyLists)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private let charsets: [[UInt8]?] = [nil] + ["utf-8", "iso-8859-1", "utf-16"].map { Array($0.utf8) }

/// What a list has rarely, and what it often has. Made anew each time: LeakSanitizer does not see what a global's indirect
/// cases point to.
private var parameters: [ParameterEntry] {
  [
    ParameterEntry(key: Array("fuzz é<&>\r😀".utf8), value: .string(Array("value ü<&>\r\n😀".utf8))),
    ParameterEntry(key: [0x61], value: .integer(-5_000_000_000)),
    ParameterEntry(
      key: [],
      value: .dictionary([
        ParameterEntry(key: [0x62], value: .array([.real(1.5), .boolean(true), .array([]), .dictionary([])]))
      ])),
  ]
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPropertyLists(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let body = UnsafeBufferPointer(start: data + 1, count: count - 1)
  let charset = charsets[Int(data[0]) % charsets.count]
  let isBinary = body.starts(with: Array("bplist".utf8))
  let fault = PropertyListCheck.check(body.span, charset: charset)
  if let fault { expectWords(fault, body.count) }
  if !isBinary, fault == nil, let inXML = XMLCheck.check(body.span, charset: charset) {
    fatalError("a property list that is no XML: \(inXML.sentence)")
  }
  let parameters = parameters
  var merged = ByteBuffer()
  let outcome = PropertyListMerging.merge(parameters, into: body.span, charset: charset, to: &merged)
  switch (outcome, fault) {
  case (.merged, nil): expect(parameters, in: merged, charset, isBinary ? .binary : .xml)
  case (.notADictionary(let kind), nil):
    if kind == .dictionary || !merged.isEmpty { fatalError("\(kind), with \(merged.count) bytes") }
  case (.invalid(let seen), let fault?):
    if seen != fault || !merged.isEmpty { fatalError("\(seen.sentence), but \(fault.sentence)") }
  default: fatalError("\(outcome), but \(fault?.sentence ?? "no fault")")
  }
  return 0
}

private func expectWords(_ fault: ContentFault, _ count: Int) {
  if fault.reason.isEmpty || fault.reason.utf8.contains(where: { !(0x20..<0x7f).contains($0) }) {
    fatalError("not printable: \(fault.reason)")
  }
  if !(0...count).contains(fault.offset) { fatalError("byte \(fault.offset) of \(count)") }
}

private enum Format {
  case xml
  case binary
}

private func expect(
  _ parameters: [ParameterEntry], in merged: borrowing ByteBuffer, _ charset: [UInt8]?, _ format: Format
) {
  if let fault = PropertyListCheck.check(merged.bytes, charset: charset) { fatalError("merged: \(fault.sentence)") }
  var again = ByteBuffer()
  if PropertyListMerging.merge(parameters, into: merged.bytes, charset: charset, to: &again) != .merged {
    fatalError("what was merged takes no parameter")
  }
  switch format {
  case .xml:
    if !again.bytes.equals(merged.bytes) { fatalError("merged again, it differs") }
    // Whatever else it is: without the zeros of UTF-16 it holds the elements.
    let text = merged.bytes.array.filter { $0 != 0 }
    expect(text, "<integer>-5000000000</integer>")
    expect(text, "<real>1.5</real>")
  case .binary:
    if again.count != merged.count { fatalError("merged again, it differs") }
    expectMember(merged.bytes.array, key: [0x51, 0x61], value: [0x13, 0xff, 0xff, 0xff, 0xfe, 0xd5, 0xfa, 0x0e, 0])
  }
}

private func expect(_ text: [UInt8], _ part: String) {
  let part = Array(part.utf8)
  let isThere = text.indices.contains { text[$0...].starts(with: part) }
  if !isThere { fatalError("no \(String(decoding: part, as: UTF8.self))") }
}

/// Looks for a member of the root, as the format says and no more: what was merged is right in all else.
private func expectMember(_ bytes: [UInt8], key: [UInt8], value: [UInt8]) {
  func number(_ at: Int, _ size: Int) -> Int { bytes[at..<at + size].reduce(0) { $0 << 8 | Int($1) } }
  let trailer = bytes.count - 32
  let (offsetBytes, referenceBytes) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
  let table = number(trailer + 24, 8)
  func object(_ at: Int) -> ArraySlice<UInt8> {
    bytes[number(table + number(at, referenceBytes) * offsetBytes, offsetBytes)...]
  }
  var at = number(table + number(trailer + 16, 8) * offsetBytes, offsetBytes)
  var count = Int(bytes[at] & 0xf)
  at += 1
  if count == 0xf {
    let size = 1 << Int(bytes[at] & 0xf)
    count = number(at + 1, size)
    at += 1 + size
  }
  let wide = [0x61, 0] + key.dropFirst()
  for position in 0..<count {
    let found = object(at + position * referenceBytes)
    guard found.starts(with: key) || found.starts(with: wide) else { continue }
    if !object(at + (count + position) * referenceBytes).starts(with: value) { fatalError("another value") }
    return
  }
  fatalError("no such member")
}
