// [proxy] and its tables, of which any file may add keys. Tests: DaemonTablesTests, AskingTests.

import Bytes

extension ProxySettings {
  static let longestContact = 200
}

/// [proxy] as read so far.
struct ProxyDraft {
  private(set) var settings = ProxySettings()
  private(set) var limits = Limits()
  private(set) var timeouts = Timeouts()
  /// Where to listen, for checks that involve several keys; empty: the default.
  private var listen: [(address: ListenAddress, setting: Setting)] = []
  private var saysCredentials = false
  private var hasWithheldCredentials = false

  /// nil: this user may not read them.
  var knownCredentials: [ProxyCredential]? { hasWithheldCredentials ? nil : settings.credentials }

  /// Adds the keys of one file.
  mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in reading.once(table, besides: ["limits", "timeouts"]).settings {
      switch setting.key {
      case "listen": readListen(setting, by: reading)
      case "workers": readWorkers(setting, by: reading)
      case "name": readProxyName(setting, by: reading)
      case "default": reading.set(&settings.defaultAction, reading.choice(setting, ProxySettings.DefaultAction.self))
      case "allow_remote": settings.allowRemote = reading.boolean(setting) ?? true
      case "credentials": readCredentials(setting, by: reading)
      case "deny_addresses": reading.set(&settings.denyAddresses, AddressSet.read(setting, by: reading))
      case "contact": readContact(setting, by: reading)
      case "state": settings.state = reading.string(setting).flatMap { reading.path(setting, $0) }
      case "limits": reading.table(setting).map { limits.read(reading.once($0), by: reading) }
      case "timeouts": reading.table(setting).map { timeouts.read(reading.once($0), by: reading) }
      default: reading.unread(setting, of: .proxy)
      }
    }
  }

  private mutating func readWorkers(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.value.content {
    case .string("auto"): settings.workers = nil
    case .string(let text):
      reading.error(
        setting,
        "expected \"auto\" or an integer from 1 to \(Bounds.workers.upperBound), found \(text.quoted)")
    case .integer: settings.workers = reading.integer(setting, in: Bounds.workers)
    default: reading.expected("\"auto\" or an integer from 1 to \(Bounds.workers.upperBound)", setting)
    }
  }

  private mutating func readProxyName(_ setting: Setting, by reading: ConfigurationReading) {
    guard let name = reading.string(setting) else { return }
    guard FieldSyntax.isToken(name), name.utf8.count <= Bounds.longestProxyName else {
      reading.error(
        setting,
        "expected a token (RFC 9110, 5.6.2) of 1 to \(Bounds.longestProxyName) letters, digits and "
          + "!#$%&'*+-.^_`|~, found \(name.quoted)")
      return
    }
    settings.name = name
  }

  /// Clients are shown it as a line of text.
  private mutating func readContact(_ setting: Setting, by reading: ConfigurationReading) {
    guard let text = reading.string(setting) else { return }
    let longest = ProxySettings.longestContact
    guard (1...longest).contains(text.utf8.count), !text.unicodeScalars.contains(where: \.isUnprintable) else {
      return reading.error(setting, "expected a text of 1 to \(longest) bytes without control characters")
    }
    settings.contact = text
  }

  // MARK: listen

  private mutating func readListen(_ setting: Setting, by reading: ConfigurationReading) {
    guard let texts = reading.strings(setting) else { return }
    if case .array(let values) = setting.value.content, values.isEmpty {
      reading.error(setting, "expected at least one address, such as \"127.0.0.1:3128\"")
    }
    if texts.count > Bounds.mostListenAddresses {
      reading.error(setting, "expected at most \(Bounds.mostListenAddresses) addresses, found \(texts.count)")
    }
    listen = texts.compactMap { text, element in
      ListenAddress.read(element, text, ports: Bounds.listenPorts, defaultPort: nil, by: reading).map { ($0, element) }
    }
    for (index, entry) in listen.enumerated() where entry.address.port != 0 {
      guard listen[..<index].contains(where: { $0.address == entry.address }) else { continue }
      reading.error(entry.setting, "\(entry.address) stands in the list twice")
    }
    settings.listen = listen.map(\.address)
  }

  /// Listening for other machines requires two settings: `allow_remote` and `credentials`. They may be in different
  /// files, so this is checked when all have been read.
  func checkRemoteListening(by reading: ConfigurationReading) {
    for (address, setting) in listen where !address.address.isLoopback {
      var missing: [String] = []
      if !settings.allowRemote { missing.append("'allow_remote = true'") }
      if !saysCredentials { missing.append("'credentials'") }
      if missing.isEmpty { continue }
      reading.error(
        setting,
        "\(address) takes connections from other machines; that needs "
          + "\(missing.joined(separator: " and ")) in [proxy]")
    }
  }

  /// Clients, scrapers and browsers cannot share an address: only one of the sockets could listen there.
  func checkListenAddresses(
    besides adminAddresses: [(address: ListenAddress, setting: Setting)], by reading: ConfigurationReading
  ) {
    var taken = listen.map { (address: $0.address, name: "'listen' in [proxy]") }
    for (address, setting) in adminAddresses {
      if let other = taken.first(where: { $0.address.collides(with: address) }) {
        reading.error(setting, "\(address) is taken: \(other.name) has \(other.address)")
      } else if listen.isEmpty, settings.listen.contains(where: { $0.collides(with: address) }) {
        // systemd may pass other sockets.
        reading.warning(
          setting, "\(address) is where clients are served, unless 'listen' in [proxy] or systemd says otherwise")
      }
      taken.append((address, "'\(setting.key)' in [admin]"))
    }
  }

  // MARK: credentials

  private mutating func readCredentials(_ setting: Setting, by reading: ConfigurationReading) {
    saysCredentials = true
    guard let bytes = reading.secret(setting) else { return }
    if reading.isWithheld(setting) {
      hasWithheldCredentials = true
      settings.credentials = [.withheld]
      return
    }
    var users: Set<[UInt8]> = []
    let lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    for (index, raw) in lines.enumerated() {
      let line = Array(raw.last == 0x0d ? raw.dropLast() : raw)
      if line.isEmpty { continue }
      if let fault = Self.credentialFault(line) {
        // The message gives the line number, not the line: it may be just a password.
        reading.error(setting, "line \(index + 1) of the credentials \(fault)")
        continue
      }
      if !users.insert(Array(line.prefix { $0 != 0x3a })).inserted {
        reading.warning(setting, "line \(index + 1) of the credentials names a user again; either password is taken")
      }
      settings.credentials.append(ProxyCredential(userAndPassword: line))
    }
    if settings.credentials.isEmpty, lines.allSatisfy({ $0.isEmpty || $0 == [0x0d] }) {
      reading.error(setting, "expected lines of user:password, found only empty ones")
    }
  }

  private static func credentialFault(_ line: [UInt8]) -> String? {
    guard let colon = line.firstIndex(of: 0x3a) else { return "has no ':'; expected user:password" }
    if colon == 0 { return "has no user before ':'; expected user:password" }
    if line.contains(where: { $0 < 0x20 || $0 == 0x7f }) { return "holds a control character" }
    return nil
  }
}
