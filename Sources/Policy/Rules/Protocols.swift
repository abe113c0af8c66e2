// `protocols` of a rule: the protocols for its origins. Tests: ProtocolsTests.

import Bytes

extension HTTPProtocol {
  /// In the order in which they are offered. An empty list would leave no way to the origin.
  static func readList(_ setting: Setting, by reading: ConfigurationReading) -> [HTTPProtocol]? {
    guard let texts = reading.strings(setting) else { return nil }
    let known = allCases.map(\.rawValue).alternativesInTOML
    var protocols: [HTTPProtocol] = []
    for (text, element) in texts {
      guard let named = HTTPProtocol(rawValue: text) else {
        reading.error(element, "expected \(known), found \(text.quoted)")
        continue
      }
      if !protocols.contains(named) { protocols.append(named) }
    }
    if texts.isEmpty {
      reading.error(setting, "expected at least one, \(known), found an empty array")
    }
    reading.warnOfRepetition(texts.map { ($0.text, $0.setting) }) { $0.quoted }
    return protocols.isEmpty ? nil : protocols
  }
}
