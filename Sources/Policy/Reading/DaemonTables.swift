// [proxy.limits], [dns], [log] and [admin]: the tables of the daemon that need little. Tests: DaemonTablesTests.

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

extension Limits {
  mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    let errorsBefore = reading.errorCount
    for setting in table.settings {
      switch setting.key {
      case "connections": reading.set(&connections, reading.integer(setting, in: Bounds.connections))
      case "header_bytes": reading.set(&headerBytes, Self.size(setting, in: Bounds.headerBytes, by: reading))
      case "headers": reading.set(&headers, reading.integer(setting, in: Bounds.headers))
      case "stream_resets": reading.set(&streamResets, reading.integer(setting, in: Bounds.streamResets))
      case "streams": reading.set(&streams, reading.integer(setting, in: Bounds.streams))
      case "idle_per_host": reading.set(&idlePerHost, reading.integer(setting, in: Bounds.idlePerHost))
      case "connections_per_host":
        reading.set(&connectionsPerHost, reading.integer(setting, in: Bounds.connectionsPerHost))
      case "share": reading.set(&share, reading.fraction(setting, in: Bounds.share, Bounds.shareText))
      default: readContentLimit(setting, by: reading)
      }
    }
    if reading.errorCount == errorsBefore { checkHeldBodies(table, by: reading) }
  }

  private mutating func readContentLimit(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "buffered_body": reading.set(&bufferedBodyBytes, Self.size(setting, in: Bounds.bufferedBody, by: reading))
    case "held_bodies": reading.set(&heldBodiesBytes, Self.size(setting, in: Bounds.heldBodies, by: reading))
    case "json_depth": reading.set(&jsonDepth, reading.integer(setting, in: Bounds.jsonDepth))
    case "image_pixels": reading.set(&imagePixels, reading.integer(setting, in: Bounds.imagePixels))
    default: reading.unread(setting, of: .limits)
    }
  }

  private static func size(_ setting: Setting, in range: ClosedRange<Int64>, by reading: ConfigurationReading) -> Int? {
    reading.quantity(setting, .size, in: range).map { Int($0) }
  }

  /// The limit for all bodies must not be less than that for one.
  private func checkHeldBodies(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    guard heldBodiesBytes < bufferedBodyBytes else { return }
    let held = table.settings.first { $0.key == "held_bodies" }
    let buffered = table.settings.first { $0.key == "buffered_body" }
    let heldText = "\"\(Quantity.size.text(Int64(heldBodiesBytes)))\""
    let bufferedText = "\"\(Quantity.size.text(Int64(bufferedBodyBytes)))\""
    if let held {
      let place = buffered == nil ? " when it is not set" : ""
      reading.error(held, "\(heldText) is below 'buffered_body', which is \(bufferedText)\(place)")
    } else if let buffered {
      reading.error(buffered, "\(bufferedText) is above 'held_bodies', which is \(heldText) when it is not set")
    }
  }
}

extension NameServices {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> NameServices {
    var services = NameServices()
    for setting in table.settings {
      switch setting.key {
      case "servers": reading.set(&services.servers, servers(of: setting, by: reading))
      case "timeout":
        reading.set(&services.timeoutMilliseconds, reading.quantity(setting, .duration, in: Bounds.duration))
      case "cache":
        reading.set(&services.cacheMilliseconds, reading.quantity(setting, .duration, in: Bounds.durationOrZero))
      default: reading.unread(setting, of: .dns)
      }
    }
    return services
  }

  private static func servers(of setting: Setting, by reading: ConfigurationReading) -> [ListenAddress]? {
    guard let texts = reading.strings(setting) else { return nil }
    if texts.count > Bounds.mostNameServers {
      reading.error(setting, "expected at most \(Bounds.mostNameServers) name servers, found \(texts.count)")
    }
    let servers = texts.compactMap { text, element in
      ListenAddress.read(element, text, ports: Bounds.ports, defaultPort: 53, by: reading)
        .map { (value: $0, setting: element) }
    }
    reading.warnOfRepetition(servers) { "\($0)" }
    return servers.map(\.value)
  }
}

extension LogSettings {
  /// Adds the keys of one file.
  mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in reading.once(table).settings {
      switch setting.key {
      case "format": reading.set(&format, reading.choice(setting, LogSettings.Format.self))
      case "level": reading.set(&level, reading.choice(setting, LogSettings.Level.self))
      case "access": reading.set(&access, reading.boolean(setting))
      case "who": reading.set(&who, reading.boolean(setting))
      default: reading.unread(setting, of: .log)
      }
    }
  }
}

/// [admin] as read from the file.
struct AdminDraft {
  private(set) var settings = AdminSettings()
  /// The addresses in it, which nothing else may listen on.
  private(set) var addresses: [(address: ListenAddress, setting: Setting)] = []

  /// Longest path of a socket in bytes (unix(7): sun_path, without its final zero).
  private static let longestSocketPath = 107

  mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in table.settings {
      switch setting.key {
      case "socket":
        guard let text = reading.string(setting), let path = reading.path(setting, text) else { continue }
        guard path.utf8.count <= Self.longestSocketPath else {
          reading.error(
            setting, "expected a path of at most \(Self.longestSocketPath) bytes, found one of \(path.utf8.count)")
          continue
        }
        settings.socket = path
      case "metrics": readMetricsAddress(setting, by: reading)
      case "operators": settings.operators = NamedUser.numbers(setting, by: reading)
      case "web": readWebAddress(setting, by: reading)
      default: reading.unread(setting, of: .admin)
      }
    }
  }

  private mutating func readMetricsAddress(_ setting: Setting, by reading: ConfigurationReading) {
    guard let text = reading.string(setting),
      let address = ListenAddress.read(setting, text, ports: Bounds.listenPorts, defaultPort: nil, by: reading)
    else { return }
    settings.metrics = address
    addresses.append((address, setting))
    if address.address.isLoopback { return }
    reading.warning(
      setting, "\(address) shows the names of rules and their counts to other machines, without credentials")
  }

  /// Browsers send unencrypted requests to the dashboard, and anyone who reads them could take over the session.
  private mutating func readWebAddress(_ setting: Setting, by reading: ConfigurationReading) {
    guard let text = reading.string(setting),
      let address = ListenAddress.read(setting, text, ports: Bounds.listenPorts, defaultPort: nil, by: reading)
    else { return }
    guard address.address.isLoopback else {
      return reading.error(
        setting,
        "expected an address of the loopback interface, such as 127.0.0.1:3129, found \(address): the dashboard has no "
          + "encryption; from another machine use ssh -L")
    }
    settings.web = address
    addresses.append((address, setting))
  }
}
