// Addresses in the configuration: with a port in `listen` and `servers`, as sets in `deny_addresses`.

import Bytes

extension ListenAddress {
  /// `127.0.0.1:3128` or `[::1]:3128`. Without `defaultPort` the port is required.
  static func read(
    _ setting: Setting, _ text: String, ports: ClosedRange<Int>, defaultPort: UInt16?, by reading: ConfigurationReading
  ) -> ListenAddress? {
    let (host, port) = splitPort(text)
    guard let address = IPAddress(host) else {
      reading.error(setting, expectation(text, host))
      return nil
    }
    if let port {
      guard let number = Int(port), String(number) == port, ports.contains(number) else {
        reading.error(
          setting, "expected a port from \(ports.lowerBound) to \(ports.upperBound), found \(port.quoted)")
        return nil
      }
      return ListenAddress(address: address, port: UInt16(number))
    }
    if let defaultPort { return ListenAddress(address: address, port: defaultPort) }
    let example = ListenAddress(address: address, port: 3128)
    reading.error(setting, "\(text.quoted) has no port; write \"\(example)\"")
    return nil
  }

  private static func expectation(_ text: String, _ host: String) -> String {
    let examples = "such as \"127.0.0.1:3128\" or \"[::1]:3128\""
    if text.hasPrefix(":"), !text.dropFirst().contains(":") {
      return "\(text.quoted) has no address; write \"127.0.0.1\(text)\", which only this machine reaches"
    }
    let isName = host.utf8.contains { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7a } && !host.contains(":")
    if isName {
      return "expected an address, \(examples), found the name \(host.quoted); a name is not looked up here"
    }
    return "expected an address, \(examples), found \(text.quoted)"
  }

  /// The text before and after the last colon; the port of an IPv6 address follows brackets.
  private static func splitPort(_ text: String) -> (host: String, port: String?) {
    if text.hasPrefix("["), let bracket = text.lastIndex(of: "]") {
      let rest = text[text.index(after: bracket)...]
      guard rest.first == ":" else { return (text, nil) }
      return (String(text[...bracket]), String(rest.dropFirst()))
    }
    guard let colon = text.lastIndex(of: ":"), text.firstIndex(of: ":") == colon else { return (text, nil) }
    return (String(text[..<colon]), String(text[text.index(after: colon)...]))
  }

}

extension AddressSet {
  /// The classes and blocks of `deny_addresses`.
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> AddressSet? {
    guard let texts = reading.strings(setting) else { return nil }
    var set = AddressSet()
    for (text, element) in texts where !set.insert(text) {
      reading.error(element, AddressBlockText.fault(text) ?? expectation(text))
    }
    reading.warnOfRepetition(texts.map { ($0.text, $0.setting) }) { $0.quoted }
    return set
  }

  private static func expectation(_ text: String) -> String {
    let classes = AddressSet.named.map(\.name)
    return "expected \(classes.alternativesInTOML), an address or a CIDR block, found \(text.quoted)"
      + Suggestion.question(text, among: classes)
  }
}

/// CIDR blocks as operators write them.
enum AddressBlockText {
  /// What is wrong with a text that looks like a block; nil if it does not.
  static func fault(_ text: String) -> String? {
    guard let slash = text.firstIndex(of: "/"), let address = IPAddress(String(text[..<slash])) else {
      return nil
    }
    let digits = String(text[text.index(after: slash)...])
    guard let length = Int(digits), String(length) == digits, (0...address.width).contains(length) else {
      return "expected a prefix length from 0 to \(address.width) behind '/', found \(digits.quoted)"
    }
    let masked = AddressBlock.masked(address, length)
    if masked == address { return nil }
    return "\(text.quoted) has bits behind the first \(length); did you mean '\(masked)/\(length)'?"
  }
}
