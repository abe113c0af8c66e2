// Fuzzes what operators' files hold: certificates, pins, keys, revocation lists and bundles of anchors. No file may crash
// their readers; what is read says the same when it is read again; and what a file holds may be shown as a chain.
//
// Run: make fuzz. The first byte of the input chooses the reader.

import Security

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzPinFiles_main")
public func fuzzPinFilesMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzPinFiles)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// 2026-12-01T00:00:00Z
private let now: Int64 = 1_796_083_200

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPinFiles(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 0 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  switch data[0] % 5 {
  case 0: readCertificates(bytes)
  case 1: readPin(bytes)
  case 2: readIdentity(bytes)
  case 3: readLists(bytes)
  default: readAnchors(bytes)
  }
  return 0
}

private func readCertificates(_ bytes: [UInt8]) {
  switch Certificate.read(bytes) {
  case .failure(let fault): expectWords(fault)
  case .success(let certificates):
    if certificates.isEmpty { fatalError("no certificate, and no fault") }
    for certificate in certificates {
      guard case .success([certificate]) = Certificate.read(certificate.der) else {
        fatalError("read again, it differs")
      }
      expectPrintable(certificate.subject + certificate.issuer + certificate.serialNumber)
      for name in certificate.names { expectPrintable(name) }
    }
    evaluate(certificates)
  }
}

/// The first as a leaf, all as what a server shows, each as an anchor and as a pin.
private func evaluate(_ certificates: [Certificate]) {
  guard case .success(let chain) = PresentedChain.decode(certificates.map(\.der)) else { return }
  let anchors = TrustAnchors(certificates, origin: "fuzz")
  for mode in SSLPinningMode.allCases {
    for allowsInvalid in [false, true] {
      var settings = SecurityPolicy.Settings()
      settings.allowInvalidCertificates = allowsInvalid
      settings.pinSet = PinSet(name: "fuzz")
      settings.pinSet?.mode = mode
      settings.pinSet?.certificates = certificates
      for identity in [ReferenceIdentity.name("a.example"), .address([127, 0, 0, 1])] {
        let verdict = SecurityPolicy(settings).evaluate(chain, for: identity, systemAnchors: anchors, at: now)
        if case .failure(let failure) = verdict { expectPrintable(failure.detail.filter { $0 != "…" }) }
      }
    }
  }
}

private func readPin(_ bytes: [UInt8]) {
  guard let pin = PublicKeyPin.parse(String(decoding: bytes, as: UTF8.self)) else { return }
  if PublicKeyPin.parse(pin.description) != pin { fatalError("\(pin) is not read as itself") }
}

/// The certificates, a form feed, the key.
private func readIdentity(_ bytes: [UInt8]) {
  let parts = bytes.split(separator: 0x0c, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
  switch ClientIdentity.read(certificates: parts[0], key: parts.count > 1 ? parts[1] : []) {
  case .failure(let fault): expectWords(fault)
  case .success(let identity):
    let again = ClientIdentity.read(certificates: identity.certificates[0].der, key: identity.key)
    guard case .success = again else { fatalError("a key that was read is not read again") }
  }
}

private func readLists(_ bytes: [UInt8]) {
  switch Revocation.readList(bytes) {
  case .failure(let fault): expectWords(fault)
  case .success(let lists):
    var settings = SecurityPolicy.Settings()
    settings.revocation = .crl(lists)
    if SecurityPolicy(settings).digest.count != 32 { fatalError("no digest") }
    for list in lists {
      guard case .success([list]) = Revocation.readList(list) else { fatalError("read again, it differs") }
    }
  }
}

private func readAnchors(_ bytes: [UInt8]) {
  switch TrustAnchors.read(pem: bytes, origin: "fuzz") {
  case .failure(let fault): expectWords(fault)
  case .success(let anchors):
    if anchors.count == 0 || anchors.certificatesDER.count != anchors.count { fatalError("anchors got lost") }
  }
}

private func expectWords(_ fault: CertificateFault) {
  if fault.description.isEmpty { fatalError("a fault without words") }
  expectPrintable(fault.description.filter { $0 != "…" })
}

private func expectPrintable(_ text: String) {
  if text.utf8.contains(where: { !(0x20..<0x7f).contains($0) }) { fatalError("not printable: \(text)") }
}
