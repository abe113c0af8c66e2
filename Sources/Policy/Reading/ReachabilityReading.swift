// [reachability.interfaces], and names of network devices in all tables. Tests: ReachabilityReadingTests.

import Reachability

/// The kinds of link that can be configured: only the kernel can report that there is no link, or an unknown one.
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

  /// Names that the kernel allows for a device (dev_valid_name), without control characters.
  static func isValid(_ name: String) -> Bool {
    (1...longest).contains(name.utf8.count) && name != "." && name != ".."
      && !name.unicodeScalars.contains { $0 == "/" || $0 == ":" || $0.properties.isWhitespace || $0.isUnprintable }
  }
}

extension ReachabilitySettings {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> ReachabilitySettings {
    var reachability = ReachabilitySettings()
    for setting in table.settings {
      switch setting.key {
      case "interfaces": reachability.interfaces = reading.table(setting).map { interfaces($0, by: reading) } ?? [:]
      default: reading.unread(setting, of: .reachability)
      }
    }
    return reachability
  }

  private static func interfaces(
    _ table: ConfigurationTable, by reading: ConfigurationReading
  ) -> [String: ReachabilityStatus] {
    var interfaces: [String: ReachabilityStatus] = [:]
    for setting in table.settings {
      if !InterfaceName.isValid(setting.key) {
        let text = "[\(setting.table)]: expected \(InterfaceName.expectation), found \(setting.key.quoted)"
        reading.report(.error, setting.source, position: setting.keyBegin, message: text)
      }
      // `eth0.5 = …` is a table in TOML.
      if case .table(let entries) = setting.value.content, let entry = entries.first {
        let name = "\(setting.key).\(entry.key)"
        reading.expected("a string", setting, advice: "a name with a dot in it stands between quotes: \"\(name)\"")
      } else if let kind = reading.choice(setting, LinkKind.self) {
        interfaces[setting.key] = kind.status
      }
    }
    return interfaces
  }
}

extension InterfaceName {
  /// A device that packets must use. It need not exist yet.
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let name = reading.string(setting) else { return nil }
    if isValid(name) { return name }
    reading.error(setting, "expected \(expectation), found \(name.quoted)")
    return nil
  }
}
