// [proxy], [proxy.limits], [dns] and [log]: the tables of the main file, one function each.
// Tests: DaemonTablesTests.

import Bytes

/// Ranges for the numbers of these tables: wide enough for any machine, narrow enough to notice a slip.
enum Bounds {
  static let workers = 1...1024
  static let connections = 1...1_000_000
  /// Smallest: 1 KiB is just enough for a browser's head. Largest: this much is held for each connection.
  static let headerBytes: ClosedRange<Int64> = 1 << 10...1 << 20
  static let headers = 1...10_000
  /// Smallest: less is too small for an API response. Largest: a whole photograph, and still a part of a machine's
  /// memory.
  static let bufferedBody: ClosedRange<Int64> = 1 << 10...256 << 20
  static let heldBodies: ClosedRange<Int64> = 1 << 10...64 << 30
  /// Largest: the deepest that a widely used parser accepts (Go's). Most stop at 512 or 1000, and deeper bodies are
  /// attacks.
  static let jsonDepth = 1...10_000
  /// Largest: two hundred times the maximum of JPEG.
  static let imagePixels = 1...1_000_000_000_000
  static let idlePerHost = 0...10_000
  /// Fewer than a web page needs would make it slower than HTTP/1.1.
  static let streams = 8...10_000
  static let streamResets = 10...1_000_000
  /// Smallest: a hundred clients at once get theirs. 1: no client has to give anything back.
  static let share = 0.01...1.0
  static let shareText = "a number from 0.01 to 1"
  static let connectionsPerHost = 0...1_000_000
  /// Up to a year: longer than any uptime.
  static let duration: ClosedRange<Int64> = 1...365 * 86_400_000
  static let durationOrZero: ClosedRange<Int64> = 0...365 * 86_400_000
  static let ports = 1...65_535
  static let listenPorts = 0...65_535
  static let mostListenAddresses = 64
  static let mostNameServers = 16
  static let longestProxyName = 64
}

extension ConfigurationReading {
  // MARK: [proxy]

  func readProxy(_ table: ConfigurationTable) {
    for setting in once(table, besides: ["limits", "timeouts"]).settings {
      switch setting.key {
      case "listen": readListen(setting)
      case "workers": readWorkers(setting)
      case "name": readProxyName(setting)
      case "default":
        configuration.proxy.defaultAction =
          choice(setting, ProxySettings.DefaultAction.self) ?? configuration.proxy.defaultAction
      case "allow_remote": configuration.proxy.allowRemote = boolean(setting) ?? true
      case "credentials": readCredentials(setting)
      case "deny_addresses":
        configuration.proxy.denyAddresses = addressSet(setting) ?? configuration.proxy.denyAddresses
      case "contact": readContact(setting)
      case "state": readState(setting)
      case "limits": self.table(setting).map { readLimits(once($0)) }
      case "timeouts": self.table(setting).map { readTimeouts(once($0)) }
      default: unread(setting, of: .proxy)
      }
    }
  }

  private func readListen(_ setting: Setting) {
    guard let texts = strings(setting) else { return }
    if case .array(let values) = setting.value.content, values.isEmpty {
      error(setting, "expected at least one address, such as \"127.0.0.1:3128\"")
    }
    if texts.count > Bounds.mostListenAddresses {
      error(setting, "expected at most \(Bounds.mostListenAddresses) addresses, found \(texts.count)")
    }
    listen = texts.compactMap { text, element in
      socketAddress(element, text, ports: Bounds.listenPorts, defaultPort: nil).map { ($0, element) }
    }
    for (index, entry) in listen.enumerated() where entry.address.port != 0 {
      guard listen[..<index].contains(where: { $0.address == entry.address }) else { continue }
      error(entry.setting, "\(entry.address) stands in the list twice")
    }
    configuration.proxy.listen = listen.map(\.address)
  }

  /// Listening for other machines requires two settings: `allow_remote` and `credentials`. They may be in different
  /// files, so this is checked when all have been read.
  func checkRemoteListening() {
    for (address, setting) in listen where !address.address.isLoopback {
      var missing: [String] = []
      if !configuration.proxy.allowRemote { missing.append("'allow_remote = true'") }
      if !saysCredentials { missing.append("'credentials'") }
      if missing.isEmpty { continue }
      error(
        setting,
        "\(address) takes connections from other machines; that needs "
          + "\(missing.joined(separator: " and ")) in [proxy]")
    }
  }

  /// Clients, scrapers and browsers cannot share an address: only one of the sockets could listen there.
  func checkListenAddresses() {
    var taken = listen.map { (address: $0.address, name: "'listen' in [proxy]") }
    for (address, setting) in adminAddresses {
      if let other = taken.first(where: { $0.address.collides(with: address) }) {
        error(setting, "\(address) is taken: \(other.name) has \(other.address)")
      } else if listen.isEmpty, configuration.proxy.listen.contains(where: { $0.collides(with: address) }) {
        // systemd may pass other sockets.
        warning(setting, "\(address) is where clients are served, unless 'listen' in [proxy] or systemd says otherwise")
      }
      taken.append((address, "'\(setting.key)' in [admin]"))
    }
  }

  private func readWorkers(_ setting: Setting) {
    switch setting.value.content {
    case .string("auto"): configuration.proxy.workers = nil
    case .string(let text):
      error(
        setting,
        "expected \"auto\" or an integer from 1 to \(Bounds.workers.upperBound), found \(text.quoted)")
    case .integer: configuration.proxy.workers = integer(setting, in: Bounds.workers)
    default: expected("\"auto\" or an integer from 1 to \(Bounds.workers.upperBound)", setting)
    }
  }

  private func readProxyName(_ setting: Setting) {
    guard let name = string(setting) else { return }
    guard FieldSyntax.isToken(name), name.utf8.count <= Bounds.longestProxyName else {
      error(
        setting,
        "expected a token (RFC 9110, 5.6.2) of 1 to \(Bounds.longestProxyName) letters, digits and "
          + "!#$%&'*+-.^_`|~, found \(name.quoted)")
      return
    }
    configuration.proxy.name = name
  }

  // MARK: credentials

  private func readCredentials(_ setting: Setting) {
    saysCredentials = true
    guard let bytes = secret(setting) else { return }
    if isWithheld(setting) {
      hasWithheldCredentials = true
      configuration.proxy.credentials = [.withheld]
      return
    }
    var users: Set<[UInt8]> = []
    let lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    for (index, raw) in lines.enumerated() {
      let line = Array(raw.last == 0x0d ? raw.dropLast() : raw)
      if line.isEmpty { continue }
      if let fault = Self.credentialFault(line) {
        // The message gives the line number, not the line: it may be just a password.
        error(setting, "line \(index + 1) of the credentials \(fault)")
        continue
      }
      if !users.insert(Array(line.prefix { $0 != 0x3a })).inserted {
        warning(setting, "line \(index + 1) of the credentials names a user again; either password is taken")
      }
      configuration.proxy.credentials.append(ProxyCredential(userAndPassword: line))
    }
    if configuration.proxy.credentials.isEmpty, lines.allSatisfy({ $0.isEmpty || $0 == [0x0d] }) {
      error(setting, "expected lines of user:password, found only empty ones")
    }
  }

  private static func credentialFault(_ line: [UInt8]) -> String? {
    guard let colon = line.firstIndex(of: 0x3a) else { return "has no ':'; expected user:password" }
    if colon == 0 { return "has no user before ':'; expected user:password" }
    if line.contains(where: { $0 < 0x20 || $0 == 0x7f }) { return "holds a control character" }
    return nil
  }

  // MARK: [proxy.limits]

  private func readLimits(_ table: ConfigurationTable) {
    let errorsBefore = errorCount
    for setting in table.settings {
      switch setting.key {
      case "connections": set(&configuration.limits.connections, integer(setting, in: Bounds.connections))
      case "header_bytes": set(&configuration.limits.headerBytes, size(setting, in: Bounds.headerBytes))
      case "headers": set(&configuration.limits.headers, integer(setting, in: Bounds.headers))
      case "stream_resets": set(&configuration.limits.streamResets, integer(setting, in: Bounds.streamResets))
      case "streams": set(&configuration.limits.streams, integer(setting, in: Bounds.streams))
      case "idle_per_host": set(&configuration.limits.idlePerHost, integer(setting, in: Bounds.idlePerHost))
      case "connections_per_host":
        set(&configuration.limits.connectionsPerHost, integer(setting, in: Bounds.connectionsPerHost))
      case "share": set(&configuration.limits.share, fraction(setting, in: Bounds.share, Bounds.shareText))
      default: readContentLimit(setting)
      }
    }
    if errorCount == errorsBefore { checkHeldBodies(table) }
  }

  /// `text`: what is expected.
  func fraction(_ setting: Setting, in range: ClosedRange<Double>, _ text: String) -> Double? {
    let value: Double
    switch setting.value.content {
    case .float(let number): value = number
    case .integer(let number): value = Double(number)
    default:
      expected(text, setting)
      return nil
    }
    if range.contains(value) { return value }
    error(setting, "expected \(text), found \(value)")
    return nil
  }

  private func readContentLimit(_ setting: Setting) {
    switch setting.key {
    case "buffered_body": set(&configuration.limits.bufferedBodyBytes, size(setting, in: Bounds.bufferedBody))
    case "held_bodies": set(&configuration.limits.heldBodiesBytes, size(setting, in: Bounds.heldBodies))
    case "json_depth": set(&configuration.limits.jsonDepth, integer(setting, in: Bounds.jsonDepth))
    case "image_pixels": set(&configuration.limits.imagePixels, integer(setting, in: Bounds.imagePixels))
    default: unread(setting, of: .limits)
    }
  }

  private func size(_ setting: Setting, in range: ClosedRange<Int64>) -> Int? {
    quantity(setting, .size, in: range).map { Int($0) }
  }

  /// The limit for all bodies must not be less than that for one.
  private func checkHeldBodies(_ table: ConfigurationTable) {
    let limits = configuration.limits
    guard limits.heldBodiesBytes < limits.bufferedBodyBytes else { return }
    let held = table.settings.first { $0.key == "held_bodies" }
    let buffered = table.settings.first { $0.key == "buffered_body" }
    let heldText = "\"\(Quantity.size.text(Int64(limits.heldBodiesBytes)))\""
    let bufferedText = "\"\(Quantity.size.text(Int64(limits.bufferedBodyBytes)))\""
    if let held {
      let place = buffered == nil ? " when it is not set" : ""
      error(held, "\(heldText) is below 'buffered_body', which is \(bufferedText)\(place)")
    } else if let buffered {
      error(buffered, "\(bufferedText) is above 'held_bodies', which is \(heldText) when it is not set")
    }
  }

  // MARK: [dns] and [log]

  func readNameServices(_ table: ConfigurationTable) {
    for setting in table.settings {
      switch setting.key {
      case "servers": readNameServers(setting)
      case "timeout":
        set(&configuration.dns.timeoutMilliseconds, quantity(setting, .duration, in: Bounds.duration))
      case "cache":
        set(&configuration.dns.cacheMilliseconds, quantity(setting, .duration, in: Bounds.durationOrZero))
      default: unread(setting, of: .dns)
      }
    }
  }

  private func readNameServers(_ setting: Setting) {
    guard let texts = strings(setting) else { return }
    if texts.count > Bounds.mostNameServers {
      error(setting, "expected at most \(Bounds.mostNameServers) name servers, found \(texts.count)")
    }
    let servers = texts.compactMap { text, element in
      socketAddress(element, text, ports: Bounds.ports, defaultPort: 53).map { (value: $0, setting: element) }
    }
    warnOfRepetition(servers) { "\($0)" }
    configuration.dns.servers = servers.map(\.value)
  }

  func readLog(_ table: ConfigurationTable) {
    for setting in once(table).settings {
      switch setting.key {
      case "format": set(&configuration.log.format, choice(setting, LogSettings.Format.self))
      case "level": set(&configuration.log.level, choice(setting, LogSettings.Level.self))
      case "access": set(&configuration.log.access, boolean(setting))
      case "who": set(&configuration.log.who, boolean(setting))
      default: unread(setting, of: .log)
      }
    }
  }

  /// Longest path of a socket in bytes (unix(7): sun_path, without its final zero).
  private static let longestSocketPath = 107

  func readAdmin(_ table: ConfigurationTable) {
    for setting in table.settings {
      switch setting.key {
      case "socket":
        guard let text = string(setting), let path = path(setting, text) else { continue }
        guard path.utf8.count <= Self.longestSocketPath else {
          error(setting, "expected a path of at most \(Self.longestSocketPath) bytes, found one of \(path.utf8.count)")
          continue
        }
        configuration.admin.socket = path
      case "metrics": readMetricsAddress(setting)
      case "operators": configuration.admin.operators = userList(setting)
      case "web": readWebAddress(setting)
      default: unread(setting, of: .admin)
      }
    }
  }

  private func readMetricsAddress(_ setting: Setting) {
    guard let text = string(setting),
      let address = socketAddress(setting, text, ports: Bounds.listenPorts, defaultPort: nil)
    else { return }
    configuration.admin.metrics = address
    adminAddresses.append((address, setting))
    if address.address.isLoopback { return }
    warning(setting, "\(address) shows the names of rules and their counts to other machines, without credentials")
  }

  /// Browsers send unencrypted requests to the dashboard, and anyone who reads them could take over the session.
  private func readWebAddress(_ setting: Setting) {
    guard let text = string(setting),
      let address = socketAddress(setting, text, ports: Bounds.listenPorts, defaultPort: nil)
    else { return }
    guard address.address.isLoopback else {
      return error(
        setting,
        "expected an address of the loopback interface, such as 127.0.0.1:3129, found \(address): the dashboard has no "
          + "encryption; from another machine use ssh -L")
    }
    configuration.admin.web = address
    adminAddresses.append((address, setting))
  }

  /// Stores the value if it was read; leaves the default after an error.
  func set<Value>(_ field: inout Value, _ value: Value?) {
    if let value { field = value }
  }
}
