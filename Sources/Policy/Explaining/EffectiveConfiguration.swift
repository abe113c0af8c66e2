// `sallyport config`: the effective configuration, every key with its location or "default".
//
// Values in files come from their TOML trees, so nothing that was read is left out. All other values come from the
// resulting policy, so there is no second list of defaults that could disagree. The daemon's tables are printed whole.
// Rules, routes, pins and [defaults] are printed only with what they set: `explain` shows what a rule inherits. Paths
// are printed as absolute paths, because the output is a single file in another place.
// Tests: EffectiveConfigurationTests, test_config_command.py.

import Bytes

/// A configuration file as a tree.
struct SourceDocument {
  let source: SourceText
  let root: TOMLValue
}

/// The effective configuration.
public struct EffectiveConfiguration: Sendable {
  /// A key with its value, as TOML and as JSON.
  struct Line: Sendable {
    /// With dots if it is in a table of a table: `headers.set.X-Client`.
    let key: String
    /// nil: the key has no value and no default.
    let value: TOMLValue.Content?
    /// nil: the default.
    let location: SourceLocation?
  }

  struct Table: Sendable {
    /// `proxy.limits`, `rule.request`, `pins.payments`
    let title: String
    /// Starts an element of an array of tables.
    let isElement: Bool
    /// The name of the rule, or of the expectation, that it belongs to.
    let owner: String?
    /// nil: no file contains it.
    let location: SourceLocation?
    var lines: [Line]
  }

  private(set) var tables: [Table] = []
  let main: String?

  /// `directory`: the base of relative paths.
  init(_ documents: [SourceDocument], _ configuration: Configuration, main: String?, directory: String) {
    self.main = main
    let files = documents.map { FileTree($0, directory) }
    for (title, schema) in Self.daemonTables {
      let found = files.compactMap { $0.table(title) }
      if title == "cache", found.isEmpty { continue }
      let standard = Standard(configuration).values(of: title)
      var lines: [Line] = []
      for key in schema.names where title != "proxy" || !["limits", "timeouts"].contains(key) {
        let said = found.flatMap { $0.lines(of: key) }
        lines += said.isEmpty ? [Line(key: key, value: standard[key], location: nil)] : said
      }
      tables.append(
        Table(title: title, isElement: false, owner: nil, location: found.first?.location, lines: lines))
    }
    for file in files {
      if let interfaces = file.table("reachability") { add(interfaces, "reachability", owner: nil) }
      for name in TableSchema.defaults.names {
        if let table = file.table("defaults.\(name)") { add(table, "defaults.\(name)", owner: nil) }
      }
    }
    for family in ["routes", "pins"] {
      for file in files {
        for (name, table) in file.members(of: family) { add(table, "\(family).\(name.asTOMLKey)", owner: nil) }
      }
    }
    for family in ["rule", "expect"] {
      for file in files { for table in file.elements(of: family) { addElement(table, family) } }
    }
  }

  /// The tables that are printed whole, in the order of the schema.
  private static let daemonTables: [(title: String, schema: TableSchema)] = [
    ("proxy", .proxy), ("proxy.limits", .limits), ("proxy.timeouts", .timeouts), ("dns", .dns), ("trust", .trust),
    ("authority", .authority), ("log", .log), ("admin", .admin), ("cache", .cache),
  ]

  private mutating func add(_ table: FileTable, _ title: String, owner: String?, isElement: Bool = false) {
    // A table within a route or a rule has its own heading.
    let parts = table.entries.filter { Self.headed.contains($0.key) && $0.value.isTable }
    let own = table.without(parts.map(\.key))
    tables.append(
      Table(title: title, isElement: isElement, owner: owner, location: table.location, lines: own.lines))
    for part in parts {
      if let inner = table.table(part.key) { add(inner, "\(title).\(part.key)", owner: owner) }
    }
  }

  private static let headed: Set<String> = ["timeouts", "security", "request", "response", "cache"]

  private mutating func addElement(_ table: FileTable, _ family: String) {
    var owner: String? = nil
    for entry in table.entries where entry.key == "name" {
      if case .string(let name) = entry.value.content { owner = name }
    }
    add(table, family, owner: owner, isElement: true)
  }
}

// MARK: What the files say

extension TOMLValue {
  fileprivate var isTable: Bool { if case .table = content { true } else { false } }
}

/// The root of a file.
private struct FileTree {
  let root: FileTable

  init(_ document: SourceDocument, _ directory: String) {
    var entries: [TOMLEntry] = []
    if case .table(let found) = document.root.content { entries = found }
    root = FileTable(
      source: document.source, directory: directory, begin: document.root.begin, entries: entries, mask: .nothing)
  }

  /// `proxy.limits`
  func table(_ path: String) -> FileTable? {
    path.split(separator: ".").reduce(Optional(root)) { table, key in table?.table(String(key)) }
  }

  func members(of family: String) -> [(String, FileTable)] {
    guard let table = root.table(family) else { return [] }
    return table.entries.compactMap { entry in table.table(entry.key).map { (entry.key, $0) } }
  }

  func elements(of family: String) -> [FileTable] {
    guard let entry = root.entries.first(where: { $0.key == family }), case .array(let values) = entry.value.content
    else { return [] }
    return values.compactMap { root.table($0, family) }
  }
}

/// A table of a file, with its secrets masked.
private struct FileTable {
  let source: SourceText
  let directory: String
  let begin: TOMLPosition
  let entries: [TOMLEntry]
  let mask: Mask

  var location: SourceLocation { source.location(begin) }

  func without(_ keys: [String]) -> FileTable {
    FileTable(
      source: source, directory: directory, begin: begin, entries: entries.filter { !keys.contains($0.key) }, mask: mask
    )
  }

  func table(_ key: String) -> FileTable? {
    entries.first { $0.key == key }.flatMap { table($0.value, key) }
  }

  func table(_ value: TOMLValue, _ key: String) -> FileTable? {
    guard case .table(let entries) = value.content else { return nil }
    return FileTable(
      source: source, directory: directory, begin: value.begin, entries: entries, mask: mask.inside(key))
  }

  /// Every key, those of inner tables with dots. A table that is empty or refers to a secret counts as a value.
  var lines: [EffectiveConfiguration.Line] { entries.flatMap { lines(of: $0) } }

  func lines(of key: String) -> [EffectiveConfiguration.Line] {
    entries.filter { $0.key == key }.flatMap { lines(of: $0) }
  }

  private func lines(of entry: TOMLEntry) -> [EffectiveConfiguration.Line] {
    if let inner = table(entry.key), !inner.entries.isEmpty, !inner.isReference {
      return inner.lines.map {
        EffectiveConfiguration.Line(key: "\(entry.key.asTOMLKey).\($0.key)", value: $0.value, location: $0.location)
      }
    }
    return [
      EffectiveConfiguration.Line(
        key: entry.key.asTOMLKey, value: shown(entry.value, entry.key, mask: mask),
        location: source.location(entry.keyBegin))
    ]
  }

  private var isReference: Bool { entries.count == 1 && TableSchema.secret.names.contains(entries[0].key) }

  private func shown(_ value: TOMLValue, _ key: String, mask: Mask) -> TOMLValue.Content {
    switch value.content {
    case .string(let text):
      if mask.hides(key, text) { return .string(key == "credentials" ? Mask.credentials : Mask.word) }
      return .string(isPath(text, of: key, mask) ? absolute(text) : text)
    case .array(let values):
      return .array(values.map { TOMLValue(content: shown($0, key, mask: mask), begin: $0.begin, end: $0.end) })
    case .table(let entries):
      // A table with only one of these keys refers to a secret, wherever a value is allowed.
      let isReference = entries.count == 1 && TableSchema.secret.names.contains(entries[0].key)
      let inner = isReference ? .secret : mask.inside(key)
      return .table(
        entries.map { entry in
          TOMLEntry(
            key: entry.key, keyBegin: entry.keyBegin,
            value: TOMLValue(
              content: shown(entry.value, entry.key, mask: inner), begin: entry.value.begin, end: entry.value.end))
        })
    case .boolean: return value.content
    default: return mask.hides(key, "") ? .string(Mask.word) : value.content
    }
  }

  /// Keys whose value is a file path, everywhere except among header fields and parameters.
  private static let pathKeys: Set<String> = [
    "file", "anchors", "certificates", "certificate", "crl_file", "directory", "socket", "keytab",
  ]

  private func isPath(_ text: String, of key: String, _ mask: Mask) -> Bool {
    Self.pathKeys.contains(key) && !mask.isOfPrograms && !(key == "anchors" && text == "system")
      && !text.hasPrefix("-----BEGIN")
  }

  private func absolute(_ text: String) -> String {
    ConfigurationPath.join(
      directory, ConfigurationPath.join(ConfigurationPath.directory(of: source.name), text))
  }
}

/// What is masked in a table, by the keys on the way to it. As in `explain`: values of header fields, except those that
/// never carry a secret, and everything under names that suggest secrets.
private enum Mask {
  case nothing
  /// Header fields by name.
  case fields
  /// Parameters by name.
  case parameters
  /// Everything except the words that say how and where.
  case secret

  static let word = "hidden"
  /// A masked value that [proxy] credentials accept.
  static let credentials = "hidden:hidden"
  private static let plain: Set<String> = [
    "scheme", "username", "keytab", "principal", "certificate", "file", "credential", "env", "remove",
  ]

  /// Names there belong to the programs and their servers, not to the configuration.
  var isOfPrograms: Bool {
    switch self {
    case .fields, .parameters: true
    case .nothing, .secret: false
    }
  }

  func inside(_ key: String) -> Mask {
    switch (self, key) {
    case (.nothing, "set"), (.nothing, "default"), (.nothing, "header"): .fields
    case (.nothing, "parameters"): .parameters
    case (.fields, _): .secret
    case (.parameters, _), (.nothing, _): SecretWords.covers(key) ? .secret : self
    case (.secret, _): .secret
    }
  }

  func hides(_ key: String, _ text: String) -> Bool {
    if SecretWords.coversURL(text) { return true }
    switch self {
    case .nothing: return !Self.plain.contains(key) && SecretWords.covers(key)
    case .fields: return !Explanation.Field.isHarmless(key)
    case .parameters: return SecretWords.covers(key)
    case .secret: return !Self.plain.contains(key)
    }
  }
}

// MARK: What they leave open

/// The values that apply if no file sets anything, by key.
private struct Standard {
  let configuration: Configuration

  init(_ configuration: Configuration) { self.configuration = configuration }

  func values(of table: String) -> [String: TOMLValue.Content] {
    switch table {
    case "proxy": proxy
    case "proxy.limits": limits
    case "proxy.timeouts":
      Dictionary(
        uniqueKeysWithValues: Timeout.allCases.map { ($0.rawValue, duration(configuration.timeouts[$0])) })
    case "dns":
      [
        "servers": strings(configuration.dns.servers.map(\.description)),
        "timeout": duration(configuration.dns.timeoutMilliseconds),
        "cache": duration(configuration.dns.cacheMilliseconds),
      ]
    case "trust":
      [
        "anchors": .string("system"),
        "profile": .string((configuration.trustProfile ?? configuration.trust.profile).rawValue),
      ]
    case "authority": ["directory": .string(configuration.authority.directory)]
    case "log":
      [
        "format": .string(configuration.log.format.rawValue), "level": .string(configuration.log.level.rawValue),
        "access": .boolean(configuration.log.access), "who": .boolean(configuration.log.who),
      ]
    case "admin": ["socket": .string(configuration.admin.socket)]
    case "cache": configuration.cache.map(cache) ?? [:]
    default: [:]
    }
  }

  private var proxy: [String: TOMLValue.Content] {
    let proxy = configuration.proxy
    return [
      "listen": strings(proxy.listen.map(\.description)),
      "workers": proxy.workers.map { .integer(Int64($0)) } ?? .string("auto"), "name": .string(proxy.name),
      "default": .string(proxy.defaultAction.rawValue), "allow_remote": .boolean(proxy.allowRemote),
      "deny_addresses": strings(ProxySettings.deniedByDefault),
    ]
  }

  private var limits: [String: TOMLValue.Content] {
    let limits = configuration.limits
    return [
      "connections": integer(limits.connections), "header_bytes": size(limits.headerBytes),
      "headers": integer(limits.headers), "buffered_body": size(limits.bufferedBodyBytes),
      "idle_per_host": integer(limits.idlePerHost), "held_bodies": size(limits.heldBodiesBytes),
      "json_depth": integer(limits.jsonDepth), "image_pixels": integer(limits.imagePixels),
      "connections_per_host": integer(limits.connectionsPerHost), "streams": integer(limits.streams),
      "stream_resets": integer(limits.streamResets), "share": .float(limits.share),
    ]
  }

  private func cache(_ cache: CacheStorage) -> [String: TOMLValue.Content] {
    [
      "memory": size(cache.memoryBytes), "disk": size(cache.diskBytes), "purge_to": .float(cache.purgeTo),
      "object": size(cache.objectBytes), "targets": strings(cache.targets),
    ]
  }

  private func integer(_ value: Int) -> TOMLValue.Content { .integer(Int64(value)) }
  private func size(_ bytes: Int) -> TOMLValue.Content { .string(Quantity.size.text(Int64(bytes))) }
  private func duration(_ milliseconds: Int64) -> TOMLValue.Content { .string(Quantity.duration.text(milliseconds)) }

  private func strings(_ texts: [String]) -> TOMLValue.Content {
    let nowhere = TOMLPosition(line: 0, column: 0)
    return .array(texts.map { TOMLValue(content: .string($0), begin: nowhere, end: nowhere) })
  }
}

// MARK: As text

extension EffectiveConfiguration: CustomStringConvertible {
  /// Columns before the comments with the location of a key.
  private static let commentColumn = 48

  /// Valid TOML; ends with a newline.
  public var description: String {
    var text =
      "# \(main.map { "\($0.printable), and the files it includes," } ?? "The built-in defaults") as in force. "
    text += "Behind each key: where it stands, or \"default\". Secrets are hidden.\n"
    for table in tables {
      text += "\n" + Self.line(table.isElement ? "[[\(table.title)]]" : "[\(table.title)]", table.location)
      for line in table.lines {
        if let value = line.value {
          text += Self.line("\(line.key) = \(value.inTOML)", line.location, isKey: true)
        } else {
          text += "# \(line.key) is not set\n"
        }
      }
    }
    return text
  }

  private static func line(_ text: String, _ location: SourceLocation?, isKey: Bool = false) -> String {
    guard let comment = location.map({ "# \("\($0)".printable)" }) ?? (isKey ? "# default" : nil) else {
      return text + "\n"
    }
    let gap = max(1, commentColumn - text.unicodeScalars.count)
    return text + String(repeating: " ", count: gap) + comment + "\n"
  }

  /// One object: `settings`, an array with an object for each key; `file` and `line` are null for a default.
  public var json: String {
    let settings = tables.flatMap { table in
      table.lines.map { line in
        JSONText.object([
          ("table", .string(table.title)), ("name", table.owner.map(JSONText.string) ?? .null),
          ("key", .string(line.key)), ("value", line.value?.json ?? .null),
          ("file", line.location.map { .string($0.file) } ?? .null),
          ("line", line.location.map { .number($0.line) } ?? .null),
        ])
      }
    }
    return JSONText.object([("file", main.map(JSONText.string) ?? .null), ("settings", .array(settings))]).text + "\n"
  }
}
