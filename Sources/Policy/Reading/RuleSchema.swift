// The settings of a rule and of its tables. See ConfigurationSchema.swift.

import Serialization

extension TableSchema {
  /// As [proxy.timeouts] has them.
  static let ruleTimeouts = TableSchema(
    "[rule.timeouts]",
    TableSchema.timeouts.settings.filter { row in Timeout.ofRule.contains { $0.rawValue == row.name } }
      .map { KnownSetting($0.name, $0.kind, standard: "that of [proxy.timeouts]", $0.sentence) })

  static let ruleCache = TableSchema(
    "[rule.cache]",
    [
      KnownSetting("share", .word(["machine", "user", "unit"]), standard: "\"machine\"", "Who gets a stored answer."),
      KnownSetting(
        "fresh_for", .duration(Bounds.durationOrZero), standard: "as the origin says",
        "How long an answer is fresh, in place of the word of the origin."),
      KnownSetting(
        "stale_if_error", .duration(Bounds.durationOrZero), standard: "as the origin says",
        "How long a stale answer is used where the origin fails."),
      KnownSetting(
        "offline", .duration(Bounds.durationOrZero), standard: "\"0s\"",
        "How old an answer may be that is used where the destination cannot be reached."),
      KnownSetting(
        "collapse", .word(["auto", "always", "never"]), standard: "\"auto\"",
        "Whether equal requests at one time share a fetch."),
    ])

  static let ask = TableSchema(
    "[rule.ask]",
    [
      KnownSetting(
        "wait", .duration(Bounds.askWait), standard: "\"30s\"", "How long a request waits for an answer of an operator."
      ),
      KnownSetting(
        "remember", .duration(Bounds.durationOrZero), standard: "\"10m\"",
        "How long an answer holds for the same question."),
    ])

  static let rule = TableSchema(
    "[[rule]]",
    [
      KnownSetting(
        "name", .text,
        "Required and unique: 1 to 64 letters, digits, dots, underscores, colons and hyphens.")
    ] + Rule.Conditions.kinds.map { $0.setting } + [
      KnownSetting(
        "action", .word(["allow", "deny", "ask"]), standard: "\"allow\"",
        "What is done with a request that matches."),
      KnownSetting("reason", .text, "Shown to a client that is denied, 512 bytes at most."),
      KnownSetting(
        "enforce", .boolean, standard: "true",
        "false: nothing of the rule blocks; what it would have done is logged."),
      KnownSetting(
        "log", .boolean, standard: "true",
        "false: its requests leave no line in the log; metrics and the history have them."),
      KnownSetting(
        "connect", .word(["tunnel", "verify", "intercept", "deny"]),
        standard: "\"verify\" where the rule pins, else \"tunnel\"",
        "What is done with a CONNECT."),
      KnownSetting(
        "tunnel_sni", .word(["match", "any"]),
        "What is asked of the server name with which a plain tunnel begins."),
      KnownSetting("upgrade", .boolean, standard: "false", "true: requests for http:// are sent over TLS."),
      KnownSetting(
        "upgrades", .list(.text), standard: "any but HTTP itself",
        "The protocols that a request may ask for with Upgrade."),
      KnownSetting(
        "protocols", .list(.word(["h2", "http/1.1"])), standard: "[\"h2\", \"http/1.1\"]",
        "What the origin is spoken to by over TLS."),
      KnownSetting(
        "redirects", .word(["pass", "same-host", "same-scheme", "deny"]), standard: "\"pass\"",
        "What answers may lead the program to."),
      KnownSetting("target", .text, "The base URL to which requests of the rule go."),
      KnownSetting(
        "route", .list(.text), standard: "[\"direct\"]",
        "The ways out, in the order in which they are tried; 16 at most."),
      KnownSetting(
        "deny_addresses", .list(.text), standard: "that of [proxy]",
        "Addresses that are never connected to."),
      KnownSetting("timeouts", .table(.ruleTimeouts), "How long the daemon waits, for this rule."),
      KnownSetting("security", .table(.security), "Which certificates and versions of TLS are accepted."),
      KnownSetting("request", .table(.request), "What is done to a request before it leaves."),
      KnownSetting("response", .table(.response), "What an answer is held to."),
      KnownSetting("cache", .table(.ruleCache), "Answers of this rule are stored."),
      KnownSetting("ask", .table(.ask), "How an operator is asked."),
    ])

  static let security = TableSchema(
    "[rule.security]",
    [
      KnownSetting("pins", .text, "The name of a [pins.NAME]."),
      KnownSetting(
        "allow_invalid_certificates", .boolean, standard: "false",
        "true: the chain need not lead to an anchor, nor be valid in time."),
      KnownSetting("validates_domain_name", .boolean, standard: "true", "false: the certificate may be for any name."),
      KnownSetting(
        "anchors", .text, standard: "that of [trust]",
        "Whose signature makes a certificate trusted, for this rule."),
      KnownSetting(
        "profile", .word(["public", "private"]), standard: "that of [trust]",
        "What certificates are held to beyond what OpenSSL asks."),
      KnownSetting("min_tls", .word(["1.0", "1.1", "1.2", "1.3"]), standard: "\"1.2\"", "The least version of TLS."),
      KnownSetting("max_tls", .word(["1.0", "1.1", "1.2", "1.3"]), standard: "\"1.3\"", "The highest version of TLS."),
      KnownSetting("ciphers", .text, standard: "those of OpenSSL", "A cipher string as in openssl-ciphers(1)."),
      KnownSetting(
        "server_name", .text, standard: "the host of the request",
        "Sent to the server and looked for in its certificate."),
      KnownSetting(
        "client_certificate", .table(.clientCertificate),
        "What is shown to a server that asks for a certificate."),
      KnownSetting(
        "revocation", .word(["none", "staple", "crl"]), standard: "\"none\"",
        "How a revoked certificate is known."),
      KnownSetting("crl_file", .text, "Revocation lists, PEM or DER."),
    ])

  static let clientCertificate = TableSchema(
    "[rule.security.client_certificate]",
    [
      KnownSetting("certificate", .text, "The certificate, with the rest of its chain, in PEM."),
      KnownSetting("key", .secret, "Its private key, in PEM."),
    ])

  static let request = TableSchema(
    "[rule.request]",
    [
      KnownSetting(
        "serializer", .word(["http", "json", "plist"]), standard: "\"http\"",
        "How parameters and bodies are written."),
      KnownSetting("parameters", .map(.any), "Added to each request."),
      KnownSetting(
        "parameters_in_uri", .list(.text), standard: "[\"GET\", \"HEAD\", \"DELETE\"]",
        "The methods whose parameters go into the query."),
      KnownSetting("query_style", .table(.queryStyle), "How parameters are written into queries and forms."),
      KnownSetting("encoding", .text, standard: "\"utf-8\"", "The encoding of parameters in queries and forms."),
      KnownSetting(
        "encode_path", .boolean, standard: "false",
        "true: bytes above 0x7F in the path are percent-encoded."),
      KnownSetting(
        "transcode", .boolean, standard: "false",
        "true: the serializer writes a form body again."),
      KnownSetting(
        "on_conflict", .word(["reject", "pass"]), standard: "\"reject\"",
        "What happens to a body that cannot be merged or rewritten."),
      KnownSetting("headers", .table(.headers), "Fields that are written or taken out."),
      KnownSetting("user_agent", .text, "Replaces the User-Agent of the client."),
      KnownSetting("accept_language", .list(.text), "Replaces the Accept-Language of the client; six at most."),
      KnownSetting("authorization", .table(.authorization), "How the origin is shown user name and password."),
      KnownSetting("timeout", .duration(Bounds.duration), "The whole exchange; of a tunnel, until it is open."),
      KnownSetting(
        "allows_cellular_access", .boolean, standard: "true",
        "false: 503 while the destination is reached by a cellular link."),
      KnownSetting("cookies", .boolean, standard: "true", "false: Cookie and Set-Cookie are taken out."),
      KnownSetting(
        "buffer_uploads", .boolean, standard: "false",
        "true: a body of unknown length is taken whole and leaves with its length."),
      KnownSetting(
        "service_type", .word(["default", "background", "video", "voice", "responsive"]), standard: "\"default\"",
        "How the bytes are marked on the way out (DSCP)."),
      KnownSetting("throttle", .table(.throttle), "The pace of what moves either way."),
      KnownSetting(
        "cache_policy",
        .word([
          "use-protocol", "reload-ignoring-cache", "return-cache-else-load", "return-cache-dont-load",
          "reload-revalidating",
        ]), standard: "\"use-protocol\"",
        "When a stored answer is used, by the names of NSURLRequest."),
      KnownSetting(
        "resume", .boolean, standard: "false",
        "true: a download that breaks off at the origin is gone on with."),
    ])

  static let queryStyle = TableSchema(
    "[rule.request.query_style]",
    [
      KnownSetting(
        "arrays", .word(["brackets", "repeat", "indices", "comma"]), standard: "\"brackets\"",
        "How an array is written."),
      KnownSetting("booleans", .word(["1/0", "true/false"]), standard: "\"1/0\"", "How true and false are written."),
      KnownSetting("space", .word(["%20", "+"]), standard: "\"%20\"", "How a space is written."),
    ])

  static let throttle = TableSchema(
    "[rule.request.throttle]",
    [
      KnownSetting("packet", .size(Bounds.throttlePacket), "After so many bytes nothing is sent for `delay`."),
      KnownSetting("delay", .duration(Bounds.throttleDelay), "How long nothing is sent then."),
      KnownSetting("rate", .size(Bounds.throttleRate), "Bytes a second, instead of packet and delay."),
      KnownSetting("download", .size(Bounds.throttleRate), "Bytes a second towards the client."),
      KnownSetting(
        "when", .list(.word(["wired", "wifi", "wwan", "unknown", "not-reachable"])),
        "Only while the destination is reached by a link of these kinds."),
    ])

  static let headers = TableSchema(
    "[rule.request.headers]",
    [
      KnownSetting(
        "default", .map(.oneOf([.text, .secret])),
        "Fields that are written only if the client sent none of that name."),
      KnownSetting(
        "set", .map(.oneOf([.text, .secret])),
        "Fields that are written in place of whatever the client sent."),
      KnownSetting("remove", .list(.text), "Fields that are taken out."),
    ])

  static let authorization = TableSchema(
    "[rule.request.authorization]",
    [
      KnownSetting("scheme", .word(["basic", "digest"]), standard: "\"basic\"", "How they are shown."),
      KnownSetting("username", .text, "The name of the user."),
      KnownSetting("password", .secret, "The password."),
    ])

  static let response = TableSchema(
    "[rule.response]",
    [
      KnownSetting(
        "serializer",
        .oneOf([
          .word(["http", "json", "xml", "plist", "image"]), .list(.word(["http", "json", "xml", "plist", "image"])),
        ]), standard: "\"http\"",
        "What a body is held to; of a list, the first that accepts a response decides."),
      KnownSetting(
        "acceptable_status", .list(.oneOf([.integer(StatusRanges.legal), .text])), standard: "[\"200-299\"]",
        "Codes such as 404 or \"404\", and ranges."),
      KnownSetting(
        "acceptable_content_types", .list(.text), standard: "those of the serializer",
        "Types such as \"application/json\", \"image/*\" and \"+json\"."),
      KnownSetting(
        "remove_nulls", .boolean, standard: "false",
        "true: keys and elements of JSON that are null are taken out."),
      KnownSetting("on_violation", .table(.violation), "What becomes of a response that is not acceptable."),
      KnownSetting(
        "oversize", .word(["reject", "annotate"]), standard: "\"annotate\"",
        "What becomes of a body above buffered_body, which is not looked at."),
      KnownSetting(
        "malformed", .word(["mend", "reject"]), standard: "\"mend\"",
        "What becomes of a head that breaks the grammar and can be read in one way only."),
      KnownSetting("parts", .word(["pass", "judge"]), standard: "\"pass\"", "What a 206 is held to."),
      KnownSetting("json", .word(["any", "container"]), standard: "\"any\"", "What JSON may be on its outside."),
      KnownSetting("answer", .table(.answer), "What the client gets where the origin fails."),
    ])

  static let answer = TableSchema(
    "[rule.response.answer]",
    [
      KnownSetting("file", .text, "A file that the client gets where the origin fails."),
      KnownSetting("type", .text, "Its Content-Type, such as \"text/html; charset=utf-8\"."),
      KnownSetting("when", .list(.word(["unreachable", "5xx", "violation"])), "When it is sent."),
    ])

  static let violation = TableSchema(
    "[rule.response.on_violation]",
    [
      KnownSetting(
        "status", .word(["reject", "annotate"]), standard: "\"annotate\"",
        "A status that is not acceptable."),
      KnownSetting(
        "content_type", .word(["reject", "annotate"]), standard: "\"reject\"",
        "A type that is not acceptable."),
      KnownSetting(
        "body", .word(["reject", "annotate"]), standard: "\"reject\"",
        "A body that is malformed, or cannot be decoded."),
    ])
}
