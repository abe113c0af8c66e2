// [reachability.interfaces], and names of network devices wherever they stand. Tests: ReachabilityReadingTests.

import Reachability

/// What a link can be said to be: that there is none, or that it is not known, is for the kernel to say.
private enum LinkKind: String, CaseIterable {
  case wwan, wifi, wired

  var status: ReachabilityStatus {
    switch self {
    case .wwan: .wwan
    case .wifi: .wifi
    case .wired: .wired
    }
  }
}

/// Names of network devices.
enum InterfaceName {
  /// In bytes: IFNAMSIZ without its final zero.
  static let longest = 15

  static let expectation = "the name of a network device, 1 to \(longest) bytes without '/', ':' and white space"

  /// What the kernel lets a device be called (dev_valid_name), and no control characters besides.
  static func isValid(_ name: String) -> Bool {
    (1...longest).contains(name.utf8.count) && name != "." && name != ".."
      && !name.unicodeScalars.contains { $0 == "/" || $0 == ":" || $0.properties.isWhitespace || $0.isUnprintable }
  }
}

extension ConfigurationReading {
  func readReachability(_ table: ConfigurationTable) {
    for setting in table.settings {
      switch setting.key {
      case "interfaces": self.table(setting).map(readInterfaces)
      default: unread(setting, of: .reachability)
      }
    }
  }

  private func readInterfaces(_ table: ConfigurationTable) {
    for setting in table.settings {
      if !InterfaceName.isValid(setting.key) {
        let text = "[\(setting.table)]: expected \(InterfaceName.expectation), found \(setting.key.quoted)"
        report(.error, setting.source, setting.keyBegin, text)
      }
      // `eth0.5 = …` is a table to TOML.
      if case .table(let entries) = setting.value.content, let entry = entries.first {
        let name = "\(setting.key).\(entry.key)"
        expected("a string", setting, advice: "a name with a dot in it stands between quotes: \"\(name)\"")
      } else if let kind = choice(setting, LinkKind.self) {
        configuration.reachability.interfaces[setting.key] = kind.status
      }
    }
  }

  /// A device that packets are to leave by. It need not be there yet.
  func interface(_ setting: Setting) -> String? {
    guard let name = string(setting) else { return nil }
    if InterfaceName.isValid(name) { return name }
    error(setting, "expected \(InterfaceName.expectation), found \(name.quoted)")
    return nil
  }
}
