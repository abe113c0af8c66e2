// The settings: every key of every table, with its type, its default, and one sentence. This is the source of the known
// names, of suggestions for unknown ones, and of `sallyport schema` and `sallyport help KEY`. The files that read the
// tables define how each key is read and checked beyond its type; sallyport.toml(5) describes it in full.
//
// Both take the ranges of numbers, durations and sizes from `Bounds`, or from the type that has such a value.
// SettingsTextTests and test_schema.py compare this table with what is read.

import Bytes

/// The type of a key.
indirect enum SettingKind: Sendable {
  case boolean
  case integer(ClosedRange<Int>)
  case number(ClosedRange<Double>)
  case text
  case word([String])
  /// A text such as "10s". The range is in milliseconds.
  case duration(ClosedRange<Int64>)
  /// A text such as "64KiB". The range is in bytes.
  case size(ClosedRange<Int64>)
  /// A date of TOML.
  case date
  /// A text, or a table that says where it is stored.
  case secret
  case list(SettingKind)
  case oneOf([SettingKind])
  /// Only `false`.
  case never
  case any
  case table(TableSchema)
  /// An array of tables.
  case tables(TableSchema)
  /// Tables by names that the operator chooses.
  case named(TableSchema)
  /// Values by names that the operator chooses.
  case map(SettingKind)
}

extension SettingKind {
  /// The range of a duration or a size, as in a file: `100ms to 10m`.
  var range: String? {
    switch self {
    case .duration(let range): Quantity.duration.text(range)
    case .size(let range): Quantity.size.text(range)
    default: nil
    }
  }
}

/// A key of a table.
struct KnownSetting: Sendable {
  let name: String
  let kind: SettingKind
  /// As in a file, or in words; nil: there is no default.
  let standard: String?
  let sentence: String

  init(_ name: String, _ kind: SettingKind, standard: String? = nil, sentence: String) {
    self.name = name
    self.kind = kind
    self.standard = standard
    self.sentence = sentence
  }
}

/// A table of the configuration.
struct TableSchema: Sendable {
  /// As in a file: `[proxy.limits]`.
  let title: String
  let settings: [KnownSetting]

  init(_ title: String, _ settings: [KnownSetting]) {
    self.title = title
    self.settings = settings
  }

  var names: [String] { settings.map(\.name) }

  /// The table from which rules inherit what this one does not set; nil: there is none.
  var inherited: String? {
    let isPart = Self.defaults.names.contains { title.hasPrefix("[rule.\($0)]") || title.hasPrefix("[rule.\($0).") }
    return isPart ? "[defaults." + title.dropFirst("[rule.".count) : nil
  }

  /// A rule has all of it from one place: half a table would mean something else.
  var isTakenWhole: Bool {
    [Self.authorization, .throttle, .answer, .clientCertificate].contains { $0.title == title }
  }
}

extension TableSchema {
  /// The tables of a rule, whose keys are often misplaced in the rule itself.
  static let ofRule: [(name: String, schema: TableSchema)] = [
    ("timeouts", .ruleTimeouts), ("security", .security), ("request", .request), ("response", .response),
    ("cache", .ruleCache), ("ask", .ask),
  ]

  /// Every table once.
  static let all: [TableSchema] = [
    .root, .expect, .proxy, .limits, .timeouts, .ruleTimeouts, .dns, .log, .admin, .trust, .authority, .cache, .history,
    .ruleCache, .ask, .defaults, .reachability, .rule, .security, .clientCertificate, .pins, .request, .queryStyle,
    .throttle, .headers, .authorization, .response, .answer, .violation, .route, .routeCredentials,
  ]

  static let root = TableSchema(
    "the top level",
    [
      KnownSetting("include", .list(.text), sentence: "Files to read after this one: paths or shell patterns."),
      KnownSetting("proxy", .table(.proxy), sentence: "Where the daemon listens, and what applies to every request."),
      KnownSetting("dns", .table(.dns), sentence: "How host names are looked up."),
      KnownSetting("trust", .table(.trust), sentence: "The trust anchors for upstream certificates."),
      KnownSetting(
        "authority", .table(.authority), sentence: "The local certificate authority for intercepted tunnels."),
      KnownSetting("reachability", .table(.reachability), sentence: "What kinds of links the machine has."),
      KnownSetting("log", .table(.log), sentence: "What is logged, and in which format."),
      KnownSetting("admin", .table(.admin), sentence: "The admin socket, and who may use it."),
      KnownSetting("cache", .table(.cache), sentence: "Where answers are stored, and how much."),
      KnownSetting("history", .table(.history), sentence: "The file that records exchanges and decisions."),
      KnownSetting("defaults", .table(.defaults), sentence: "Settings that rules inherit."),
      KnownSetting("pins", .named(.pins), sentence: "Pin sets, by name."),
      KnownSetting("routes", .named(.route), sentence: "Routes, by name."),
      KnownSetting("rule", .tables(.rule), sentence: "The rules, in the order in which they are tried."),
      KnownSetting(
        "expect", .tables(.expect),
        sentence: "Requests and the expected decisions; `sallyport test` checks them."),
    ])

  static let expect = TableSchema(
    "[[expect]]",
    [
      KnownSetting("name", .text, sentence: "A sentence that is printed if the expectation fails, 200 bytes at most."),
      KnownSetting("request", .text, sentence: "Method and URL, such as \"POST https://pay.example.com/v2/charge\"."),
      KnownSetting(
        "absolute", .boolean, standard: "false",
        sentence: "true: the program sends an https:// URL to the proxy, without CONNECT."),
      KnownSetting(
        "user", .oneOf([.text, .integer(0...4_294_967_295)]),
        sentence: "The local user who sends the request, by name or number."),
      KnownSetting("unit", .text, sentence: "The systemd unit or slice that sends the request."),
      KnownSetting("client", .text, sentence: "The address from which the program connects."),
      KnownSetting(
        "proxy_user", .text, sentence: "The name in 'credentials' of [proxy] that the program authenticates with."),
      KnownSetting("program", .text, sentence: "The path of the executable that sends the request."),
      KnownSetting(
        "link", .word(["wired", "wifi", "wwan", "unknown", "not-reachable"]), standard: "\"unknown\"",
        sentence: "The kind of link of the default route."),
      KnownSetting("verdict", .word(["allow", "deny", "ask"]), sentence: "The expected decision."),
      KnownSetting("rule", .oneOf([.text, .never]), sentence: "The rule that decides; false: no rule matches."),
      KnownSetting(
        "connect", .word(["tunnel", "verify", "intercept", "deny"]), sentence: "How the tunnel is treated."),
      KnownSetting(
        "route", .oneOf([.text, .list(.text)]),
        sentence: "The route that is tried first, or the list of all routes."),
      KnownSetting(
        "header", .map(.oneOf([.text, .boolean])),
        sentence: "Fields of the request to the origin: a value, true for any value, false for no such field."),
    ])

  static let proxy = TableSchema(
    "[proxy]",
    [
      KnownSetting(
        "listen", .list(.text), standard: "[\"127.0.0.1:3128\", \"[::1]:3128\"]",
        sentence: "Addresses with ports, not names; 64 at most."),
      KnownSetting(
        "workers", .oneOf([.integer(Bounds.workers), .word(["auto"])]), standard: "\"auto\"",
        sentence: "The number of event loops; \"auto\" is one for each core."),
      KnownSetting(
        "name", .text, standard: "\"sallyport\"",
        sentence: "The name of the proxy in Via and Proxy-Status, 64 characters at most."),
      KnownSetting(
        "default", .word(["allow", "deny"]), standard: "\"allow\"",
        sentence: "What happens to a request that no rule matches."),
      KnownSetting("allow_remote", .boolean, standard: "false", sentence: "Whether other machines may connect."),
      KnownSetting("credentials", .secret, sentence: "Who may use the proxy: lines of user:password."),
      KnownSetting(
        "deny_addresses", .list(.text), standard: "[\"link-local\", \"multicast\", \"unspecified\"]",
        sentence: "Addresses that the proxy never connects to."),
      KnownSetting("limits", .table(.limits), sentence: "Limits on what clients and upstreams may use."),
      KnownSetting("timeouts", .table(.timeouts), sentence: "How long the daemon waits for what."),
      KnownSetting("contact", .text, sentence: "Whom a refused user should ask, 200 bytes at most."),
      KnownSetting("state", .text, sentence: "The directory in which temporary rules survive a restart."),
    ])

  static let limits = TableSchema(
    "[proxy.limits]",
    [
      KnownSetting(
        "connections", .integer(Bounds.connections), standard: "10000", sentence: "Open client connections."),
      KnownSetting(
        "header_bytes", .size(Bounds.headerBytes), standard: "\"64KiB\"",
        sentence: "Bytes in the head of a request or response."),
      KnownSetting("headers", .integer(Bounds.headers), standard: "128", sentence: "Fields in a head."),
      KnownSetting(
        "buffered_body", .size(Bounds.bufferedBody), standard: "\"1MiB\"",
        sentence: "How much of one body is held to check or rewrite it."),
      KnownSetting(
        "idle_per_host", .integer(Bounds.idlePerHost), standard: "64",
        sentence: "Idle connections that are kept for each upstream."),
      KnownSetting(
        "streams", .integer(Bounds.streams), standard: "128",
        sentence: "Requests that one HTTP/2 connection of a client may have open at once."),
      KnownSetting(
        "stream_resets", .integer(Bounds.streamResets), standard: "200",
        sentence: "Requests that an HTTP/2 client may reset in ten seconds."),
      KnownSetting(
        "held_bodies", .size(Bounds.heldBodies), standard: "\"64MiB\"",
        sentence: "Memory for all bodies that are held at once."),
      KnownSetting(
        "json_depth", .integer(Bounds.jsonDepth), standard: "512",
        sentence: "How deep arrays and objects of a JSON body may nest."),
      KnownSetting(
        "image_pixels", .integer(Bounds.imagePixels), standard: "100_000_000",
        sentence: "The largest image that is accepted, as width times height."),
      KnownSetting(
        "connections_per_host", .integer(Bounds.connectionsPerHost), standard: "0",
        sentence: "Connections to one host at a time; 0 means no limit."),
      KnownSetting(
        "share", .number(Bounds.share), standard: "0.25",
        sentence: "The part of a limit that one client may use while others wait."),
    ])

  static let timeouts = TableSchema(
    "[proxy.timeouts]",
    [
      KnownSetting(
        "client_header", .duration(Bounds.duration), standard: "\"10s\"",
        sentence: "From the first byte of a request to the end of its head."),
      KnownSetting(
        "client_idle", .duration(Bounds.duration), standard: "\"5m\"",
        sentence: "Between two requests on one connection of a client."),
      KnownSetting(
        "connect", .duration(Bounds.duration), standard: "\"10s\"", sentence: "Until an upstream accepts a connection."),
      KnownSetting(
        "tls_handshake", .duration(Bounds.duration), standard: "\"10s\"", sentence: "For one TLS handshake."),
      KnownSetting(
        "response_header", .duration(Bounds.duration), standard: "\"60s\"",
        sentence: "From the end of the request to the head of the response."),
      KnownSetting(
        "body_stall", .duration(Bounds.duration), standard: "\"60s\"",
        sentence: "Without a byte in either direction during a body."),
      KnownSetting(
        "upstream_idle", .duration(Bounds.duration), standard: "\"60s\"",
        sentence: "How long an idle upstream connection is kept."),
      KnownSetting(
        "tunnel_idle", .duration(Bounds.duration), standard: "\"1h\"",
        sentence: "Without a byte in either direction in a tunnel."
      ),
      KnownSetting(
        "drain", .duration(Bounds.duration), standard: "\"30s\"",
        sentence: "How long requests under way may continue when the daemon stops."),
    ])

  static let dns = TableSchema(
    "[dns]",
    [
      KnownSetting(
        "servers", .list(.text), standard: "[]",
        sentence: "Name servers; if empty, /etc/hosts and those of /etc/resolv.conf are used."),
      KnownSetting(
        "timeout", .duration(Bounds.duration), standard: "\"5s\"", sentence: "For one look-up, with all its attempts."),
      KnownSetting(
        "cache", .duration(Bounds.durationOrZero), standard: "\"60s\"", sentence: "How long an answer is kept at most."),
    ])

  static let log = TableSchema(
    "[log]",
    [
      KnownSetting(
        "format", .word(["auto", "journal", "text", "json"]), standard: "\"auto\"", sentence: "The format of the log."),
      KnownSetting(
        "level", .word(["error", "warning", "info", "debug"]), standard: "\"info\"",
        sentence: "The least severe messages that are logged. It does not affect the lines of requests."),
      KnownSetting("access", .boolean, standard: "true", sentence: "One line for each request or tunnel."),
      KnownSetting(
        "who", .boolean, standard: "true",
        sentence: "Each line names the user, the unit and the program of its client."),
    ])

  static let admin = TableSchema(
    "[admin]",
    [
      KnownSetting(
        "socket", .text, standard: "\"/run/sallyport/admin.sock\"",
        sentence: "The path of the admin socket, 107 bytes at most."),
      KnownSetting("metrics", .text, sentence: "An address with a port that serves GET /metrics for Prometheus."),
      KnownSetting(
        "operators", .list(.oneOf([.text, .integer(0...4_294_967_295)])), standard: "[]",
        sentence: "Users who may also act through the socket: reload, drain, allow, cancel, purge."),
      KnownSetting("web", .text, sentence: "A loopback address with a port that serves the dashboard to browsers."),
    ])

  static let trust = TableSchema(
    "[trust]",
    [
      KnownSetting(
        "anchors", .text, standard: "\"system\"",
        sentence: "The trust anchors: \"system\", a file or a directory."),
      KnownSetting(
        "profile", .word(["public", "private"]),
        standard: "\"public\" for the system's anchors, \"private\" for others",
        sentence: "What certificates must satisfy beyond the checks of OpenSSL."),
    ])

  static let authority = TableSchema(
    "[authority]",
    [
      KnownSetting(
        "directory", .text, standard: "\"/var/lib/sallyport/authority\"",
        sentence: "The directory with the files of the authority."),
      KnownSetting("key", .secret, sentence: "Its private key, if that is not kept in authority.key."),
    ])

  static let cache = TableSchema(
    "[cache]",
    [
      KnownSetting("directory", .text, sentence: "A directory to keep answers on disk as well."),
      KnownSetting(
        "memory", .size(CacheStorage.memoryBounds), standard: "\"64MiB\"",
        sentence: "How much memory stored answers may use."),
      KnownSetting(
        "disk", .size(CacheStorage.memoryBounds), standard: "\"2GiB\"",
        sentence: "How much disk space stored answers may use."),
      KnownSetting(
        "purge_to", .number(CacheStorage.purgeBounds), standard: "0.6",
        sentence: "The fraction of its size to which a full store is purged."),
      KnownSetting(
        "object", .size(CacheStorage.objectBounds), standard: "\"1GiB\"", sentence: "The longest answer that is stored."
      ),
      KnownSetting(
        "targets", .list(.text), standard: "[]",
        sentence: "Fields that override Cache-Control for this cache (RFC 9213)."),
    ])

  static let history = TableSchema(
    "[history]",
    [
      KnownSetting(
        "file", .text, standard: "\"/var/lib/sallyport/history.db\"",
        sentence: "The path of the file, an SQLite database."),
      KnownSetting(
        "keep", .duration(HistorySettings.keepBounds), standard: "\"30d\"",
        sentence: "How long an exchange stays in the history."
      ),
      KnownSetting(
        "size", .size(HistorySettings.sizeBounds), standard: "\"512MiB\"", sentence: "The largest size of the file."),
    ])

  static let defaults = TableSchema(
    "[defaults]",
    [
      KnownSetting("security", .table(.security), sentence: "What rules inherit in [rule.security]."),
      KnownSetting("request", .table(.request), sentence: "What rules inherit in [rule.request]."),
      KnownSetting("response", .table(.response), sentence: "What rules inherit in [rule.response]."),
    ])

  static let reachability = TableSchema(
    "[reachability]",
    [
      KnownSetting(
        "interfaces", .map(.word(["wired", "wifi", "wwan"])),
        sentence: "The kind of link of each network device, by name.")
    ])

  static let pins = TableSchema(
    "[pins.NAME]",
    [
      KnownSetting(
        "mode", .word(["public-key", "certificate", "none"]), standard: "\"public-key\"",
        sentence: "Whether public keys or whole certificates are pinned."),
      KnownSetting(
        "spki", .list(.text), sentence: "SHA-256 of each key: sha256/ and base64, or 64 hexadecimal digits."),
      KnownSetting(
        "certificates", .list(.text), sentence: "Certificates, PEM or DER: files, patterns, or directories."),
      KnownSetting("expires", .date, sentence: "The last day on which the set applies, in UTC, without quotes."),
      KnownSetting(
        "on_expiry", .word(["fail", "report"]), standard: "\"fail\"", sentence: "What happens after that day."),
      KnownSetting(
        "enforce", .boolean, standard: "true",
        sentence: "false: a chain without a pinned key is allowed, logged and counted."),
    ])

  static let secret = TableSchema(
    "a secret",
    [
      KnownSetting("file", .text, sentence: "A file that contains the secret."),
      KnownSetting("credential", .text, sentence: "The name of a systemd credential (LoadCredential=NAME:PATH)."),
      KnownSetting("env", .text, sentence: "An environment variable that contains the secret."),
    ])

  static let route = TableSchema(
    "[routes.NAME]",
    [
      KnownSetting(
        "via", .text, sentence: "Required: \"direct\", or the URL of a parent proxy, http://, https:// or socks5://."),
      KnownSetting("credentials", .table(.routeCredentials), sentence: "The credentials for the parent proxy."),
      KnownSetting(
        "protocols", .list(.word(HTTPProtocol.allCases.map(\.rawValue))), standard: HTTPProtocol.standardList,
        sentence: "The protocols that an https:// parent is offered, in this order."),
      KnownSetting(
        "when", .list(.word(["wired", "wifi", "wwan", "unknown", "not-reachable"])),
        sentence: "Used only while the parent, or else the destination, is reached over a link of these kinds."),
      KnownSetting("interface", .text, sentence: "The network device for outgoing connections."),
      KnownSetting(
        "unreachable", .word(["fail", "wait"]), standard: "\"fail\"",
        sentence: "What happens to requests while no route of the rule can be used."),
      KnownSetting(
        "wait", .duration(Route.waitBounds), standard: "\"30s\"", sentence: "How long a request is held at most."),
      KnownSetting("security", .table(.security), sentence: "What the certificate of an https:// parent must satisfy."),
    ])

  static let routeCredentials = TableSchema(
    "[routes.NAME.credentials]",
    [
      KnownSetting(
        "scheme", .word(["basic", "digest", "negotiate"]), standard: "\"basic\"", sentence: "The authentication scheme."
      ),
      KnownSetting("username", .text, sentence: "The name of the user."),
      KnownSetting("password", .secret, sentence: "The password."),
      KnownSetting(
        "keytab", .oneOf([.text, .secret]), sentence: "The keytab with the keys of the proxy's Kerberos principal."),
      KnownSetting(
        "principal", .text, standard: "the first of the keytab",
        sentence: "The principal in the keytab to use, such as proxy@EXAMPLE.ORG."),
    ])
}
