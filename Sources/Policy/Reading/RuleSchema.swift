// The settings of a rule and of its tables. See ConfigurationSchema.swift.

import Bytes
import Serialization

extension TableSchema {
  /// As [proxy.timeouts] has them.
  static let ruleTimeouts = TableSchema(
    "[rule.timeouts]",
    TableSchema.timeouts.settings.filter { row in Timeout.ofRule.contains { $0.rawValue == row.name } }
      .map { KnownSetting($0.name, $0.kind, standard: "that of [proxy.timeouts]", sentence: $0.sentence) })

  static let ruleCache = TableSchema(
    "[rule.cache]",
    [
      KnownSetting(
        "share", .word(["machine", "user", "unit"]), standard: "\"machine\"",
        sentence: "Who may be given a stored answer."),
      KnownSetting(
        "fresh_for", .duration(Bounds.durationOrZero), standard: "as the origin says",
        sentence: "How long an answer is fresh, whatever the origin says."),
      KnownSetting(
        "stale_if_error", .duration(Bounds.durationOrZero), standard: "as the origin says",
        sentence: "How long a stale answer is used if the origin fails."),
      KnownSetting(
        "offline", .duration(Bounds.durationOrZero), standard: "\"0s\"",
        sentence: "How old an answer may be to be used when the destination cannot be reached."),
      KnownSetting(
        "collapse", .word(["auto", "always", "never"]), standard: "\"auto\"",
        sentence: "Whether equal requests at the same time share one fetch."),
    ])

  static let ask = TableSchema(
    "[rule.ask]",
    [
      KnownSetting(
        "wait", .duration(AskTerms.waitBounds), standard: "\"30s\"",
        sentence: "How long a request waits for an operator's answer."
      ),
      KnownSetting(
        "remember", .duration(Bounds.durationOrZero), standard: "\"10m\"",
        sentence: "How long the answer applies to the same question."),
    ])

  static let rule = TableSchema(
    "[[rule]]",
    [
      KnownSetting(
        "name", .text,
        sentence: "Required and unique: 1 to 64 letters, digits, dots, underscores, colons and hyphens.")
    ] + Rule.Conditions.kinds.map { $0.setting } + [
      KnownSetting(
        "action", .word(["allow", "deny", "ask"]), standard: "\"allow\"",
        sentence: "What happens to a request that matches."),
      KnownSetting("reason", .text, sentence: "Shown to a client that is denied, 512 bytes at most."),
      KnownSetting(
        "enforce", .boolean, standard: "true",
        sentence: "false: the rule blocks nothing; the log says what it would have blocked."),
      KnownSetting(
        "log", .boolean, standard: "true",
        sentence: "false: its requests are not logged; metrics and history still count them."),
      KnownSetting(
        "connect", .word(["tunnel", "verify", "intercept", "deny"]),
        standard: "\"verify\" where the rule pins, else \"tunnel\"",
        sentence: "How a CONNECT tunnel is treated."),
      KnownSetting(
        "tunnel_sni", .word(["match", "any"]),
        sentence: "Whether the server name in the ClientHello of a plain tunnel must match the host."),
      KnownSetting("upgrade", .boolean, standard: "false", sentence: "true: http:// requests are sent over TLS."),
      KnownSetting(
        "upgrades", .list(.text), standard: "any but HTTP itself",
        sentence: "The protocols that requests may ask for with Upgrade."),
      KnownSetting(
        "protocols", .list(.word(HTTPProtocol.allCases.map(\.rawValue))), standard: HTTPProtocol.standardList,
        sentence: "The protocols that are offered to the origin over TLS."),
      KnownSetting(
        "redirects", .word(["pass", "same-host", "same-scheme", "deny"]), standard: "\"pass\"",
        sentence: "Which redirects are passed to the program."),
      KnownSetting("target", .text, sentence: "The base URL that requests of this rule are sent to."),
      KnownSetting(
        "route", .list(.text), standard: "[\"direct\"]",
        sentence: "Names of routes, in the order in which they are tried; 16 at most."),
      KnownSetting(
        "deny_addresses", .list(.text), standard: "that of [proxy]",
        sentence: "Addresses that the proxy never connects to."),
      KnownSetting("timeouts", .table(.ruleTimeouts), sentence: "Timeouts for requests of this rule."),
      KnownSetting("security", .table(.security), sentence: "Which certificates and TLS versions are accepted."),
      KnownSetting("request", .table(.request), sentence: "How requests are changed before they are sent."),
      KnownSetting("response", .table(.response), sentence: "What responses must satisfy."),
      KnownSetting("cache", .table(.ruleCache), sentence: "Answers to requests of this rule are stored."),
      KnownSetting("ask", .table(.ask), sentence: "How an operator is asked."),
    ])

  static let security = TableSchema(
    "[rule.security]",
    [
      KnownSetting("pins", .text, sentence: "The name of a pin set, [pins.NAME]."),
      KnownSetting(
        "allow_invalid_certificates", .boolean, standard: "false",
        sentence: "true: the chain need not lead to a trust anchor, and may have expired."),
      KnownSetting(
        "validates_domain_name", .boolean, standard: "true", sentence: "false: the certificate may be for any name."),
      KnownSetting(
        "anchors", .text, standard: "that of [trust]",
        sentence: "The trust anchors for this rule."),
      KnownSetting(
        "profile", .word(["public", "private"]), standard: "that of [trust]",
        sentence: "What certificates must satisfy beyond the checks of OpenSSL."),
      KnownSetting(
        "min_tls", .word(["1.0", "1.1", "1.2", "1.3"]), standard: "\"1.2\"",
        sentence: "The lowest version of TLS that is accepted."),
      KnownSetting(
        "max_tls", .word(["1.0", "1.1", "1.2", "1.3"]), standard: "\"1.3\"",
        sentence: "The highest version of TLS that is offered."),
      KnownSetting(
        "ciphers", .text, standard: "those of OpenSSL", sentence: "A cipher string as in openssl-ciphers(1)."),
      KnownSetting(
        "server_name", .text, standard: "the host of the request",
        sentence: "The name that is sent to the server and expected in its certificate."),
      KnownSetting(
        "client_certificate", .table(.clientCertificate),
        sentence: "The certificate for servers that ask for one."),
      KnownSetting(
        "revocation", .word(["none", "staple", "crl"]), standard: "\"none\"",
        sentence: "How revoked certificates are detected."),
      KnownSetting("crl_file", .text, sentence: "A file of revocation lists, PEM or DER."),
    ])

  static let clientCertificate = TableSchema(
    "[rule.security.client_certificate]",
    [
      KnownSetting("certificate", .text, sentence: "The certificate, with the rest of its chain, in PEM."),
      KnownSetting("key", .secret, sentence: "Its private key, in PEM."),
    ])

  static let request = TableSchema(
    "[rule.request]",
    [
      KnownSetting(
        "serializer", .word(["http", "json", "plist"]), standard: "\"http\"",
        sentence: "The format in which parameters and bodies are written."),
      KnownSetting("parameters", .map(.any), sentence: "Parameters that are added to each request."),
      KnownSetting(
        "parameters_in_uri", .list(.text), standard: "[\"GET\", \"HEAD\", \"DELETE\"]",
        sentence: "The methods whose parameters go into the query."),
      KnownSetting("query_style", .table(.queryStyle), sentence: "How parameters are written into queries and forms."),
      KnownSetting(
        "encoding", .text, standard: "\"utf-8\"", sentence: "The encoding of parameters in queries and forms."),
      KnownSetting(
        "encode_path", .boolean, standard: "false",
        sentence: "true: bytes above 0x7F in the path are percent-encoded."),
      KnownSetting(
        "transcode", .boolean, standard: "false",
        sentence: "true: form bodies are rewritten in the format of the serializer."),
      KnownSetting(
        "on_conflict", .word(["reject", "pass"]), standard: "\"reject\"",
        sentence: "What happens to a body that cannot be merged or rewritten."),
      KnownSetting("headers", .table(.headers), sentence: "Header fields to write or remove."),
      KnownSetting("user_agent", .text, sentence: "Replaces the User-Agent of the client."),
      KnownSetting(
        "accept_language", .list(.text), sentence: "Replaces the Accept-Language of the client; six at most."),
      KnownSetting("authorization", .table(.authorization), sentence: "The credentials for the origin."),
      KnownSetting(
        "timeout", .duration(Bounds.duration),
        sentence: "Limits the whole exchange, or for a tunnel, the time until it is open."),
      KnownSetting(
        "allows_cellular_access", .boolean, standard: "true",
        sentence: "false: requests get 503 while the destination is reached over a cellular link."),
      KnownSetting("cookies", .boolean, standard: "true", sentence: "false: Cookie and Set-Cookie are removed."),
      KnownSetting(
        "buffer_uploads", .boolean, standard: "false",
        sentence: "true: a body of unknown length is collected, and sent with its length."),
      KnownSetting(
        "service_type", .word(["default", "background", "video", "voice", "responsive"]), standard: "\"default\"",
        sentence: "How the packets to the upstream are marked (DSCP)."),
      KnownSetting("throttle", .table(.throttle), sentence: "Limits the rate of uploads and downloads."),
      KnownSetting(
        "cache_policy",
        .word([
          "use-protocol", "reload-ignoring-cache", "return-cache-else-load", "return-cache-dont-load",
          "reload-revalidating",
        ]), standard: "\"use-protocol\"",
        sentence: "When a stored answer is used; the names are those of NSURLRequest."),
      KnownSetting(
        "resume", .boolean, standard: "false",
        sentence: "true: a download that the origin breaks off is resumed."),
    ])

  static let queryStyle = TableSchema(
    "[rule.request.query_style]",
    [
      KnownSetting(
        "arrays", .word(["brackets", "repeat", "indices", "comma"]), standard: "\"brackets\"",
        sentence: "How an array is written."),
      KnownSetting(
        "booleans", .word(["1/0", "true/false"]), standard: "\"1/0\"", sentence: "How true and false are written."),
      KnownSetting("space", .word(["%20", "+"]), standard: "\"%20\"", sentence: "How a space is written."),
    ])

  static let throttle = TableSchema(
    "[rule.request.throttle]",
    [
      KnownSetting("packet", .size(Throttle.packetBounds), sentence: "How many bytes are sent before each pause."),
      KnownSetting("delay", .duration(Throttle.delayBounds), sentence: "How long each pause lasts."),
      KnownSetting(
        "rate", .size(Throttle.rateBounds), sentence: "Bytes per second of an upload, instead of packet and delay."),
      KnownSetting("download", .size(Throttle.rateBounds), sentence: "Bytes per second of a download."),
      KnownSetting(
        "when", .list(.word(["wired", "wifi", "wwan", "unknown", "not-reachable"])),
        sentence: "Applies only while the destination is reached over a link of these kinds."),
    ])

  static let headers = TableSchema(
    "[rule.request.headers]",
    [
      KnownSetting(
        "default", .map(.oneOf([.text, .secret])),
        sentence: "Fields that are added if the client sent none of that name."),
      KnownSetting(
        "set", .map(.oneOf([.text, .secret])),
        sentence: "Fields that replace those of the client."),
      KnownSetting("remove", .list(.text), sentence: "Names of fields to remove."),
    ])

  static let authorization = TableSchema(
    "[rule.request.authorization]",
    [
      KnownSetting(
        "scheme", .word(["basic", "digest"]), standard: "\"basic\"", sentence: "The authentication scheme."),
      KnownSetting("username", .text, sentence: "The name of the user."),
      KnownSetting("password", .secret, sentence: "The password."),
    ])

  static let response = TableSchema(
    "[rule.response]",
    [
      KnownSetting(
        "serializer",
        .oneOf([
          .word(["http", "json", "xml", "plist", "image"]), .list(.word(["http", "json", "xml", "plist", "image"])),
        ]), standard: "\"http\"",
        sentence: "The format that bodies must have; in a list, the first that accepts a response decides."),
      KnownSetting(
        "acceptable_status", .list(.oneOf([.integer(StatusRanges.legal), .text])), standard: "[\"200-299\"]",
        sentence: "Status codes such as 404 or \"404\", and ranges such as \"200-299\"."),
      KnownSetting(
        "acceptable_content_types", .list(.text), standard: "those of the serializer",
        sentence: "Media types such as \"application/json\", \"image/*\" and \"+json\"."),
      KnownSetting(
        "remove_nulls", .boolean, standard: "false",
        sentence: "true: null members and elements are removed from JSON."),
      KnownSetting("on_violation", .table(.violation), sentence: "What happens to a response that is not acceptable."),
      KnownSetting(
        "oversize", .word(["reject", "annotate"]), standard: "\"annotate\"",
        sentence: "What happens to a body that exceeds buffered_body, and so is not checked."),
      KnownSetting(
        "malformed", .word(["mend", "reject"]), standard: "\"mend\"",
        sentence: "What happens to a malformed head that all clients read alike."),
      KnownSetting(
        "parts", .word(["pass", "judge"]), standard: "\"pass\"",
        sentence: "Whether responses to range requests (206) are checked."),
      KnownSetting(
        "json", .word(["any", "container"]), standard: "\"any\"",
        sentence: "Whether JSON must be an object or an array."),
      KnownSetting("answer", .table(.answer), sentence: "The answer that the client gets if the origin fails."),
    ])

  static let answer = TableSchema(
    "[rule.response.answer]",
    [
      KnownSetting("file", .text, sentence: "A file with the content of that answer."),
      KnownSetting("type", .text, sentence: "Its Content-Type, such as \"text/html; charset=utf-8\"."),
      KnownSetting(
        "when", .list(.word(["unreachable", "5xx", "violation"])), sentence: "The failures for which it is sent."),
    ])

  static let violation = TableSchema(
    "[rule.response.on_violation]",
    [
      KnownSetting(
        "status", .word(["reject", "annotate"]), standard: "\"annotate\"",
        sentence: "What happens if the status is not acceptable."),
      KnownSetting(
        "content_type", .word(["reject", "annotate"]), standard: "\"reject\"",
        sentence: "What happens if the media type is not acceptable."),
      KnownSetting(
        "body", .word(["reject", "annotate"]), standard: "\"reject\"",
        sentence: "What happens if the body is malformed or cannot be decoded."),
    ])
}
