// `protocols` of a rule: the protocols for its origins. Tests: ProtocolsTests.

import Bytes

extension ConfigurationReading {
  /// In the order in which they are offered. An empty list would leave no way to the origin.
  func protocols(_ setting: Setting) -> [HTTPProtocol]? {
    guard let texts = strings(setting) else { return nil }
    var protocols: [HTTPProtocol] = []
    for (text, element) in texts {
      guard let named = HTTPProtocol(rawValue: text) else {
        error(element, "expected \"h2\" or \"http/1.1\", found \(text.quoted)")
        continue
      }
      if !protocols.contains(named) { protocols.append(named) }
    }
    if texts.isEmpty { error(setting, "expected \"h2\", \"http/1.1\" or both, found an empty array") }
    warnOfRepetition(texts.map { ($0.text, $0.setting) }) { $0.quoted }
    return protocols.isEmpty ? nil : protocols
  }
}
