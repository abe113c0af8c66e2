// The names of every table, so that a name that is not read is answered for what it is, and with the one that was meant.
// What is read of each key stands in the files that read the tables.

/// A table of the configuration by its names.
struct TableSchema: Sendable {
  let names: [String]

  init(_ names: [String]) { self.names = names }
}

extension TableSchema {
  static let root = TableSchema([
    "include", "proxy", "dns", "trust", "authority", "reachability", "log", "admin", "cache", "history", "defaults",
    "pins",
    "routes",
    "rule", "expect",
  ])
  static let expect = TableSchema([
    "name", "request", "absolute", "user", "unit", "link", "verdict", "rule", "connect", "route", "header",
  ])
  static let proxy = TableSchema([
    "listen", "workers", "name", "default", "allow_remote", "credentials", "deny_addresses", "limits",
    "timeouts", "contact", "state",
  ])
  static let limits = TableSchema([
    "connections", "header_bytes", "headers", "buffered_body", "idle_per_host", "streams", "stream_resets",
    "held_bodies", "json_depth",
    "image_pixels", "connections_per_host", "share",
  ])
  static let timeouts = TableSchema([
    "client_header", "client_idle", "connect", "tls_handshake", "response_header", "body_stall", "upstream_idle",
    "tunnel_idle", "drain",
  ])
  static let ruleTimeouts = TableSchema([
    "connect", "tls_handshake", "response_header", "body_stall", "upstream_idle", "tunnel_idle",
  ])
  static let dns = TableSchema(["servers", "timeout", "cache"])
  static let log = TableSchema(["format", "level", "access", "who"])
  static let admin = TableSchema(["socket", "metrics", "operators", "web"])
  static let trust = TableSchema(["anchors", "profile"])
  static let authority = TableSchema(["directory", "key"])
  static let cache = TableSchema(["directory", "memory", "disk", "purge_to", "object", "targets"])
  static let history = TableSchema(["file", "keep", "size"])
  static let ruleCache = TableSchema(["share", "fresh_for", "stale_if_error", "offline", "collapse"])
  static let ask = TableSchema(["wait", "remember"])
  static let defaults = TableSchema(["security", "request", "response"])
  static let reachability = TableSchema(["interfaces"])
  static let rule = TableSchema([
    "name", "hosts", "ports", "methods", "paths", "schemes", "users", "units", "when", "action", "reason", "enforce",
    "connect", "tunnel_sni", "upgrade", "upgrades", "protocols", "redirects", "target", "route", "deny_addresses",
    "timeouts",
    "security",
    "request", "response", "cache", "ask",
  ])
  /// The tables of a rule, whose keys are often written in the rule itself.
  static let ofRule: [(name: String, schema: TableSchema)] = [
    ("timeouts", .ruleTimeouts), ("security", .security), ("request", .request), ("response", .response),
    ("cache", .ruleCache), ("ask", .ask),
  ]
  static let security = TableSchema([
    "pins", "allow_invalid_certificates", "validates_domain_name", "anchors", "profile", "min_tls", "max_tls",
    "ciphers", "server_name", "client_certificate", "revocation", "crl_file",
  ])
  static let clientCertificate = TableSchema(["certificate", "key"])
  static let pins = TableSchema(["mode", "spki", "certificates", "expires", "on_expiry", "enforce"])
  static let request = TableSchema([
    "serializer", "parameters", "parameters_in_uri", "query_style", "encoding", "encode_path", "transcode",
    "on_conflict", "headers",
    "user_agent", "accept_language", "authorization", "timeout", "allows_cellular_access", "cookies",
    "buffer_uploads", "service_type",
    "throttle", "cache_policy", "resume",
  ])
  static let queryStyle = TableSchema(["arrays", "booleans", "space"])
  static let throttle = TableSchema(["packet", "delay", "rate", "download", "when"])
  static let headers = TableSchema(["default", "set", "remove"])
  static let authorization = TableSchema(["scheme", "username", "password"])
  static let secret = TableSchema(["file", "credential", "env"])
  static let response = TableSchema([
    "serializer", "acceptable_status", "acceptable_content_types", "remove_nulls", "on_violation", "oversize",
    "malformed", "parts", "json", "answer",
  ])
  static let answer = TableSchema(["file", "type", "when"])
  static let violation = TableSchema(["status", "content_type", "body"])
  static let route = TableSchema(["via", "credentials", "when", "interface", "unreachable", "wait", "security"])
  static let routeCredentials = TableSchema(["scheme", "username", "password", "keytab", "principal"])
}
