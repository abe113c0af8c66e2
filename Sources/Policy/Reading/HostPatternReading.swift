// Host patterns as operators write them → `HostPattern`, with advice on common mistakes: URLs, ports, wildcards in the
// middle, blocks with host bits. Names in other scripts become A-labels here, at load time, so matching compares bytes.
// Tests: HostPatternReadingTests.

import Bytes
import CIDN2

/// Why a text is not a host pattern, with a suggestion.
public struct HostPatternFault: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String
}

extension HostPattern {
  /// Reads `a.example`, `*.a.example`, `**.a.example`, `*`, an address, or a CIDR block.
  public static func parse(_ text: String) -> Result<HostPattern, HostPatternFault> {
    do {
      return .success(try pattern(text))
    } catch {
      return .failure(error)
    }
  }

  private static func pattern(_ text: String) throws(HostPatternFault) -> HostPattern {
    if text == "*" { return .any }
    if let fault = shapeFault(text) { throw HostPatternFault(description: fault) }
    if let block = AddressBlock(text) { return .block(block.unmapped) }
    if let fault = AddressBlockText.fault(text) { throw HostPatternFault(description: fault) }
    if let fault = urlFault(text) ?? portFault(text) { throw HostPatternFault(description: fault) }
    if text.hasPrefix("**.") { return .atOrBelow(try name(below: text.dropFirst(3), of: text)) }
    if text.hasPrefix("*.") { return .oneLabelBelow(try name(below: text.dropFirst(2), of: text)) }
    let host = try canonical(text, of: text)
    if let address = host.address, let block = AddressBlock(address: address, length: address.width) {
      return .block(block.unmapped)
    }
    return .name(host.bytes.span.string)
  }

  // MARK: What people write instead

  private static func shapeFault(_ text: String) -> String? {
    if text.isEmpty { return "expected \(HostFault.empty.expectation)" }
    if text.unicodeScalars.contains(where: { $0.isUnprintable || $0.properties.isWhitespace }) {
      return "\(text.quoted) holds white space or a control character"
    }
    if text.hasPrefix(".") { return "\(text.quoted) begins with a dot; did you mean '**\(text)'?" }
    return wildcardFault(text)
  }

  private static func wildcardFault(_ text: String) -> String? {
    let rest =
      text.hasPrefix("**.") ? text.dropFirst(3) : text.hasPrefix("*.") ? text.dropFirst(2) : text[...]
    guard rest.utf8.contains(0x2a) else { return nil }
    return "\(text.quoted) has a wildcard in a place where none may stand; "
      + "write '*', '*.a.example' (one label more) or '**.a.example' (the name and all below it)"
  }

  private static func urlFault(_ text: String) -> String? {
    var rest = text[...]
    if let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") {
      rest = text[colon...].dropFirst(3)
    }
    let isURL = rest.startIndex != text.startIndex
    guard isURL || rest.utf8.contains(0x2f) else { return nil }
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let host = authority.lastIndex(of: "@").map { authority[$0...].dropFirst() } ?? authority
    let bare = withoutPort(host) ?? String(host)
    let what = isURL ? "is a URL" : "holds a path"
    if bare.isEmpty { return "\(text.quoted) \(what); write the host alone" }
    return "\(text.quoted) \(what); write '\(bare)': schemes, ports and paths have keys of their own"
  }

  private static func portFault(_ text: String) -> String? {
    guard let host = withoutPort(text[...]) else { return nil }
    let port = text.dropFirst(host.count + 1)
    return "\(text.quoted) holds a port; write '\(host)' here and ports = [\(port)]"
  }

  /// The host of `host:port`, or nil if there is no port.
  private static func withoutPort(_ text: Substring) -> String? {
    guard let colon = text.lastIndex(of: ":") else { return nil }
    let port = text[text.index(after: colon)...]
    let host = text[..<colon]
    guard !port.isEmpty, port.utf8.allSatisfy(\.isASCIIDigit), !host.isEmpty else { return nil }
    return host.utf8.contains(0x3a) && !host.hasSuffix("]") ? nil : String(host)
  }

  // MARK: Names

  private static func name(below rest: Substring, of text: String) throws(HostPatternFault) -> String {
    let host = try canonical(String(rest), of: text)
    guard host.address == nil else {
      throw HostPatternFault(
        description:
          "\(text.quoted) has a wildcard before an address; write a CIDR block, such as '10.0.0.0/8'")
    }
    return host.bytes.span.string
  }

  private static func canonical(_ name: String, of text: String) throws(HostPatternFault) -> CanonicalHost {
    let ascii: String
    switch InternationalName.asciiForm(of: name) {
    case .success(let form): ascii = form
    case .failure(let fault):
      throw HostPatternFault(description: "\(text.quoted) is no internationalized host name: \(fault)")
    }
    var host = CanonicalHost()
    if let fault = host.set(Array(ascii.utf8).span) {
      throw HostPatternFault(description: "expected \(fault.expectation), found \(text.quoted)")
    }
    return host
  }
}

/// Names in any script.
public enum InternationalName {
  /// The name with A-labels (UTS #46, non-transitional; IDNA 2008). An ASCII name is returned unchanged.
  public static func asciiForm(of name: String) -> Result<String, HostPatternFault> {
    if name.utf8.allSatisfy({ $0 < 0x80 }) { return .success(name) }
    if name.utf8.contains(0) { return .failure(HostPatternFault(description: "it holds a NUL")) }
    var output: UnsafeMutablePointer<UInt8>? = nil
    let flags = Int32(IDN2_NFC_INPUT.rawValue | IDN2_NONTRANSITIONAL.rawValue)
    let status = unsafe Array(name.utf8 + [0]).withUnsafeBufferPointer {
      unsafe idn2_lookup_u8($0.baseAddress, &output, flags)
    }
    guard status == IDN2_OK.rawValue, let output = unsafe output else {
      return unsafe .failure(HostPatternFault(description: String(cString: idn2_strerror(status))))
    }
    defer { unsafe idn2_free(output) }
    return unsafe .success(String(cString: output))
  }
}
