// What the proxy says for itself: every kind of problem, in both forms, held against the grammars of RFC 9110, RFC 9457
// and RFC 9209, and that no secret is ever in it.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct ProblemTests {
  private struct Answer {
    let head: StrictHead
    let body: [UInt8]
    let status: Int
    let reason: String
  }

  private static func answer(
    _ problem: Problem, rule: String? = nil, text: Bool = false, isHead: Bool = false, closes: Bool = false
  ) throws -> Answer {
    var out = ByteBuffer()
    ProblemWriter(
      problem: problem, rule: rule, reference: Reference(value: 0x2a_bcde),
      proxyName: Array("sallyport".utf8),
      form: text ? .text : .json, isHead: isHead, closes: closes
    ).write(to: &out, date: Array("Sun, 06 Nov 1994 08:49:37 GMT".utf8).span)
    let bytes = out.array
    let end = try #require(StrictGrammar.endOfHead(bytes, from: 0))
    let head = try #require(StrictGrammar.head(Array(bytes.prefix(end))), "\(shown(bytes))")
    let line = String(decoding: head.startLine, as: UTF8.self)
    #expect(line.hasPrefix("HTTP/1.1 "))
    return Answer(
      head: head, body: Array(bytes.dropFirst(end)), status: Int(line.dropFirst(9).prefix(3)) ?? 0,
      reason: String(line.dropFirst(13)))
  }

  private static let rules = [
    nil, "r", "payments", "a.b:c-d_e", String(repeating: "long", count: 16), "été", "a b\"c\\d", "\u{1f600}",
    String(repeating: "ü", count: 40),
  ]

  private static let details = [
    "A sentence.", "", "with \"quotes\" and \\ backslash", "bücher.example", "line\nbreak\r\u{0}\u{7f}\t",
    String(repeating: "x", count: 5000),
  ]

  @Test(arguments: Problem.Kind.allCases) func everyProblemIsAWholeResponse(kind: Problem.Kind) throws {
    for rule in Self.rules {
      for detail in Self.details {
        for text in [false, true] {
          for closes in [false, true] {
            let problem = Problem(kind, detail)
            let answer = try Self.answer(problem, rule: rule, text: text, closes: closes)
            #expect(answer.status == kind.status)
            #expect(answer.head.values("content-length") == ["\(answer.body.count)"])
            #expect(answer.head.values("connection") == (closes ? ["close"] : []))
            #expect(answer.head.values("date") == ["Sun, 06 Nov 1994 08:49:37 GMT"])
            #expect(answer.head.values("cache-control") == ["no-store"])
            let bare = try Self.answer(problem, rule: rule, text: text, isHead: true, closes: closes)
            #expect(bare.head == answer.head)
            #expect(bare.body == [])
          }
        }
      }
    }
  }

  @Test(arguments: Problem.Kind.allCases) func theReasonIsAMarkThatClientsShow(kind: Problem.Kind) throws {
    for rule in Self.rules {
      let reason = try Self.answer(Problem(kind, "x"), rule: rule).reason
      #expect(reason.utf8.count <= 60, "\(reason)")
      #expect(reason.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f }, "\(reason)")
      #expect(reason.hasPrefix("\(kind.token)"), "\(reason)")
      #expect(reason.hasSuffix(" ref=02NF6Y"), "\(reason)")
      #expect(reason.contains(" rule=") == (rule != nil), "\(reason)")
      #expect(reason.split(separator: " ").count == (rule == nil ? 2 : 3), "\(reason)")
    }
    let plain = try Self.answer(Problem(kind, "x"), rule: "payments").reason
    #expect(plain == "\(kind.token) rule=payments ref=02NF6Y")
  }

  @Test func theReasonTakesAsMuchOfARuleAsThereIsRoomFor() throws {
    let long = String(repeating: "r", count: 64)
    let longest = try Self.answer(Problem(.responseHeadTooLarge, "x"), rule: long).reason
    #expect(longest.utf8.count == 60)
    #expect(longest == "response-head-too-large rule=\(long.prefix(20)) ref=02NF6Y")
  }

  @Test(arguments: Problem.Kind.allCases) func theBodyIsAProblemDocument(kind: Problem.Kind) throws {
    for rule in Self.rules {
      for detail in Self.details {
        let answer = try Self.answer(Problem(kind, detail), rule: rule)
        #expect(answer.head.values("content-type") == ["application/problem+json"])
        let document = try #require(StrictJSON.parse(answer.body), "\(shown(answer.body))")
        #expect(document["type"] == .string("urn:sallyport:problem:\(kind.token)"))
        #expect(document["title"] == .string("\(kind.title)"))
        #expect(document["status"] == .number("\(kind.status)"))
        #expect(document["detail"] == .string(detail))
        #expect(document["rule"] == rule.map { .string($0) })
        #expect(document["error"] == .string("\(kind.errorType)"))
        #expect(document["nsurlError"] == .number("\(kind.row.nsurlError)"))
        #expect(document["ref"] == .string("02NF6Y"))
      }
    }
  }

  @Test func theBodyIsTextWhereThatIsPreferred() throws {
    let answer = try Self.answer(Problem(.denied, "Bücher are denied."), rule: "books", text: true)
    #expect(answer.head.values("content-type") == ["text/plain; charset=utf-8"])
    #expect(
      String(decoding: answer.body, as: UTF8.self)
        == "The policy denies this request.\nBücher are denied.\nrule: books\nref: 02NF6Y\n")
    let bare = try Self.answer(Problem(.loop, "It came back."), text: true)
    #expect(
      String(decoding: bare.body, as: UTF8.self)
        == "The request came back to the proxy.\nIt came back.\nref: 02NF6Y\n")
  }

  /// RFC 8941: an Item with Parameters, of Tokens and Strings.
  @Test(arguments: Problem.Kind.allCases) func proxyStatusIsAStructuredField(kind: Problem.Kind) throws {
    for rule in Self.rules {
      for detail in Self.details {
        let answer = try Self.answer(Problem(kind, detail), rule: rule)
        let values = answer.head.values("proxy-status")
        #expect(values.count == 1)
        let parameters = try #require(Self.parameters(values.first ?? ""), "\(values)")
        var expected = [("error", "\(kind.errorType)"), ("details", Self.ascii(detail))]
        if let rule { expected.append(("rule", Self.ascii(rule))) }
        #expect(parameters.elementsEqual(expected) { $0 == $1 }, "\(parameters)")
      }
    }
  }

  private static func ascii(_ text: String) -> String {
    String(decoding: text.utf8.map { $0 >= 0x20 && $0 < 0x7f ? $0 : 0x3f }, as: UTF8.self)
  }

  /// The parameters behind the token "sallyport"; nil where the field is malformed.
  private static func parameters(_ field: String) -> [(String, String)]? {
    var rest = Substring(field)
    guard rest.hasPrefix("sallyport") else { return nil }
    rest = rest.dropFirst(9)
    var parameters: [(String, String)] = []
    while !rest.isEmpty {
      guard rest.hasPrefix("; "), let equals = rest.firstIndex(of: "=") else { return nil }
      let key = String(rest[..<equals].dropFirst(2))
      rest = rest[equals...].dropFirst()
      var value = ""
      if rest.first == "\"" {
        rest = rest.dropFirst()
        while let character = rest.first, character != "\"" {
          rest = rest.dropFirst()
          guard character == "\\" else {
            value.append(character)
            continue
          }
          guard let escaped = rest.first, escaped == "\"" || escaped == "\\" else { return nil }
          value.append(escaped)
          rest = rest.dropFirst()
        }
        guard rest.first == "\"" else { return nil }
        rest = rest.dropFirst()
      } else {
        value = String(rest.prefix { $0 != ";" })
        rest = rest.dropFirst(value.count)
        guard StrictGrammar.isToken(Array(value.utf8)) else { return nil }
      }
      parameters.append((key, value))
    }
    return parameters
  }

  /// RFC 9209, 2.3: the types that are registered.
  @Test func everyErrorTypeIsRegistered() {
    let registered: Set<String> = [
      "dns_timeout", "dns_error", "destination_not_found", "destination_unavailable",
      "destination_ip_prohibited",
      "destination_ip_unroutable", "connection_refused", "connection_terminated", "connection_timeout",
      "connection_read_timeout", "connection_write_timeout", "connection_limit_reached", "tls_protocol_error",
      "tls_certificate_error", "tls_alert_received", "http_request_error", "http_request_denied",
      "http_response_incomplete", "http_response_header_section_size", "http_response_header_size",
      "http_response_body_size", "http_response_trailer_section_size", "http_response_trailer_size",
      "http_response_transfer_coding", "http_response_content_coding", "http_response_timeout",
      "http_upgrade_failed",
      "http_protocol_error", "proxy_internal_response", "proxy_internal_error", "proxy_configuration_error",
      "proxy_loop_detected",
    ]
    for kind in Problem.Kind.allCases { #expect(registered.contains("\(kind.errorType)"), "\(kind)") }
  }

  /// How each way in which TLS, and what it brings, or a route goes wrong is told: status, token, type and code are what programs
  /// go by, so that none changes unnoticed.
  static let told: [(kind: Problem.Kind, status: Int, token: String, errorType: String, nsurlError: Int)] = [
    (.shuttingDown, 503, "shutting-down", "proxy_internal_error", -1004),
    (.cancelled, 403, "cancelled", "http_request_denied", -999),
    (.hostBusy, 503, "host-busy", "connection_limit_reached", -1001),
    (.clientNotIdentified, 503, "client-not-identified", "proxy_internal_response", -1001),
    (.notReachable, 503, "not-reachable", "destination_ip_unroutable", -1009),
    (.cellularNotAllowed, 503, "cellular-not-allowed", "http_request_denied", -1020),
    (.parentRefused, 502, "parent-refused", "destination_unavailable", -1004),
    (.parentAuthentication, 502, "parent-authentication", "proxy_configuration_error", -1013),
    (.parentFailed, 502, "parent-failed", "http_protocol_error", -1011),
    (.notStored, 504, "not-stored", "proxy_internal_response", -2000),
    (.misdirected, 421, "misdirected", "http_request_error", -1000),
    (.protocolNotOffered, 502, "protocol-not-offered", "http_protocol_error", -1011),
    (.interceptionFailed, 502, "interception-failed", "proxy_configuration_error", -1200),
    (.tlsFailed, 502, "tls-failed", "tls_protocol_error", -1200),
    (.tlsAlert, 502, "tls-alert", "tls_alert_received", -1200),
    (.tlsTimeout, 504, "tls-timeout", "connection_timeout", -1001),
    (.certificateUntrusted, 502, "certificate-untrusted", "tls_certificate_error", -1202),
    (.certificateExpired, 502, "certificate-expired", "tls_certificate_error", -1201),
    (.certificateNotYetValid, 502, "certificate-not-yet-valid", "tls_certificate_error", -1204),
    (.certificateNameMismatch, 502, "certificate-name-mismatch", "tls_certificate_error", -1202),
    (.certificateRevoked, 502, "certificate-revoked", "tls_certificate_error", -1202),
    (.revocationUnknown, 502, "revocation-unknown", "tls_certificate_error", -1202),
    (.pinMismatch, 502, "pin-mismatch", "tls_certificate_error", -1202),
    (.pinsExpired, 502, "pins-expired", "tls_certificate_error", -1202),
  ]

  @Test(arguments: told.indices) func whatGoesWrongOnTheWayIsToldTheSameWay(index: Int) throws {
    let row = Self.told[index]
    let answer = try Self.answer(Problem(row.kind, "x"))
    #expect(answer.status == row.status)
    #expect(answer.reason == "\(row.token) ref=02NF6Y")
    let document = try #require(StrictJSON.parse(answer.body))
    #expect(document["type"] == .string("urn:sallyport:problem:\(row.token)"))
    #expect(document["error"] == .string(row.errorType))
    #expect(document["nsurlError"] == .number("\(row.nsurlError)"))
    #expect(answer.head.values("retry-after") == (row.status == 503 ? ["10"] : []))
  }

  /// RFC 9209, 2.1.4: an Integer.
  @Test func theStatusOfAParentIsTold() throws {
    for kind in [Problem.Kind.parentRefused, .parentAuthentication] {
      for status in [407, 100, 999] {
        let problem = UpstreamFailure(kind, "It said no.", receivedStatus: status).problem
        for text in [false, true] {
          let answer = try Self.answer(problem, rule: "r", text: text)
          let field = try #require(answer.head.values("proxy-status").first)
          #expect(
            field
              == "sallyport; error=\(kind.errorType); received-status=\(status); details=\"It said no.\"; rule=\"r\"")
          #expect(answer.status == 502)
        }
      }
      let silent = try Self.answer(UpstreamFailure(kind, "It said no.").problem)
      #expect(silent.head.values("proxy-status").allSatisfy { !$0.contains("received-status") })
    }
  }

  @Test func everyProblemHasATokenAndATitleOfItsOwn() {
    let tokens = Problem.Kind.allCases.map { "\($0.token)" }
    #expect(Set(tokens).count == tokens.count)
    #expect(Set(Problem.Kind.allCases.map { "\($0.title)" }).count == tokens.count)
    for token in tokens { #expect(StrictGrammar.isToken(Array(token.utf8))) }
  }

  @Test func whoIsAskedForCredentialsIsToldHow() throws {
    for kind in Problem.Kind.allCases {
      let head = try Self.answer(Problem(kind, "x")).head
      let expected = kind == .authenticationRequired ? ["Basic realm=\"sallyport\", charset=\"UTF-8\""] : []
      #expect(head.values("proxy-authenticate") == expected)
      #expect(head.values("retry-after").count == (kind.status == 503 ? 1 : 0))
    }
  }

  // MARK: Whole conversations

  @Test func aClientThatPrefersTextGetsText() {
    play(
      .client(head("GET http://169.254.1.1/ HTTP/1.1", "Host: a", "Accept: text/plain, */*;q=0.5")),
      comparing: .everything,
      gives: #"""
        < HTTP/1.1 403 address-denied ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: text/plain; charset=utf-8
        < Content-Length: 141
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=destination_ip_prohibited; details="169.254.1.1 is in
             169.254.0.0/16, which deny_addresses lists."
        <
        < content: The policy denies the address of this host.\n169.254.1.1 is in 169.254.0.0/16, which
             deny_addresses lists.\nreason: address-denied\nref: REF001\n
        end (403 address-denied): client keep
        """#
    )
  }

  @Test func anAnswerToHEADHasNoBody() {
    play(
      .client(
        head("HEAD http://169.254.1.1/ HTTP/1.1", "Host: a")
          + head("HEAD https://a.example/ HTTP/1.1", "Host: a")),
      .failed(.certificateExpired, "It was good until yesterday."),
      comparing: .everything,
      gives: #"""
        < HTTP/1.1 403 address-denied ref=REF001
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 283
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=destination_ip_prohibited; details="169.254.1.1 is in
             169.254.0.0/16, which deny_addresses lists."
        <
        end (403 address-denied): client keep
        connect a.example:443 under TLS
        < HTTP/1.1 502 certificate-expired ref=REF002
        < Date: Sun, 06 Nov 1994 08:49:37 GMT
        < Content-Type: application/problem+json
        < Content-Length: 222
        < Cache-Control: no-store
        < Proxy-Status: sallyport; error=tls_certificate_error; details="It was good until yesterday."
        <
        end (502 certificate-expired): client keep
        """#)
  }

  /// One play for each way to get an answer of the proxy, with secrets wherever a request or a rule can hold one.
  @Test func noSecretIsInAnAnswer() {
    let policy = policy(
      """
      [proxy]
      credentials = "kiosk:s3cret"
      [proxy.limits]
      header_bytes = "2KiB"
      [[rule]]
      name = "shut"
      hosts = ["shut.example"]
      action = "deny"
      [rule.request]
      authorization = { username = "u", password = "s3cret" }
      [[rule]]
      name = "read"
      hosts = ["read.example"]
      connect = "intercept"
      [rule.request]
      headers.set = { X-Token = "s3cret" }
      [[rule]]
      name = "all"
      [rule.request]
      timeout = "1h"
      headers.set = { X-Token = "s3cret" }
      authorization = { username = "u", password = "s3cret" }
      """)
    func request(_ line: String, _ more: String = "", credentials: String = "a2lvc2s6czNjcmV0") -> String {
      "\(line)\r\nHost: a\r\nProxy-Authorization: Basic \(credentials)\r\nAuthorization: Bearer s3cret\r\n"
        + "Cookie: id=s3cret\r\nX-Api-Key: s3cret\r\n\(more)\r\n"
    }
    let good = request("GET http://a.example/p?token=s3cret HTTP/1.1")
    let tunnel = request("CONNECT read.example:443 HTTP/1.1")
    let post = request(
      "POST http://a.example/p?token=s3cret HTTP/1.1", "Transfer-Encoding: chunked\r\n")
    let plays: [[Happening]] = [
      [.client(request("GET http://shut.example/?s3cret HTTP/1.1"))],
      [.client(request("GET http://a.example/?s3cret HTTP/1.1", credentials: "a2lvc2s6czNjcmV0eA=="))],
      [
        .client(request("GET https://a.example/?s3cret HTTP/1.1")),
        .failed(.pinMismatch, "a.example port 443 shows another key."),
      ],
      [.client(tunnel), .client(request("GET /?s3cret HTTP/1.1"))],
      [
        .client(tunnel),
        .client(request("GET /?s3cret HTTP/1.1").replacing("Host: a\r\n", with: "Host: read.example\r\n")),
        .failed(.certificateUntrusted, "read.example port 443 shows no chain to an anchor."),
      ],
      [.cannotIntercept("No local authority is loaded."), .client(tunnel)],
      [.client(request("GET http://u:s3cret@a.example/?s3cret HTTP/1.1"))],
      [.client(request("GET http://127.1/?s3cret HTTP/1.1"))],
      [.client(request("GET http://169.254.1.1/?s3cret HTTP/1.1"))],
      [.client(request("GET http://a.example/?s3cret HTTP/1.1", "Via: 1.1 sallyport (7F3K2A9Q)\r\n"))],
      [.client(request("GET http://a.example/?s3cret HTTP/1.1", "X : s3cret\r\n"))],
      [
        .client(
          request(
            "GET http://a.example/?s3cret HTTP/1.1", "X: \(String(repeating: "s3cret", count: 400))\r\n"))
      ],
      [.client("GET http://a.example/?s3cret"), .clientEnds],
      [.client("GET http://a.example/?s3cret"), .timeOut],
      [.client(good), .failed(.connectionRefused, "a.example port 80 refused the connection.")],
      [.client(good), .opened, .upstreamEnds], [.client(good), .opened, .timeOut],
      [.client(good), .opened, .upstream("HTTP/1.1 200 OK\r\nSet-Cookie: s3cret\u{0}\r\n\r\n")],
      [.client(good), .opened, .upstream("s3cret")],
      [.client(post + "7\r\ns3cret!\r\ns3cret\r\n"), .opened],
      [.client(post + "7\r\ns3c"), .opened, .timeOut],
      [
        .client(
          request("TRACE http://a.example/ HTTP/1.1", "Max-Forwards: 0\r\n").replacing(
            "X-Api-Key: s3cret\r\n", with: ""))
      ],
    ]
    for happenings in plays {
      for split in [Split.whole, .bytewise] {
        let stage = Stage(policy, split)
        let transcript = stage.play(happenings)
        let answers = transcript.split(separator: "\n").filter { !$0.hasPrefix(">") }
        #expect(answers.contains { $0.hasPrefix("< HTTP/1.1 ") }, "\(transcript)")
        for form in ["s3cret", "czNjcmV0", "dTpzM2NyZXQ"] {
          #expect(!answers.contains { $0.contains(form) }, "\(transcript)")
        }
      }
    }
  }

  // MARK: JSON strings

  @Test func everyByteOfAStringIsEscapedWhereItMustBe() throws {
    for byte in 0...255 as ClosedRange<UInt8> {
      var buffer = ByteBuffer()
      buffer.append(json: [0x61, byte, 0x62].span)
      let expected = byte < 0x80 ? String(decoding: [0x61, byte, 0x62], as: UTF8.self) : "a\u{fffd}b"
      #expect(StrictJSON.parse(buffer.array) == .string(expected), "\(byte)")
      guard byte < 0x80 else { continue }
      var other = ByteBuffer()
      other.append(json: String(decoding: [0x61, byte, 0x62], as: UTF8.self))
      #expect(other.array == buffer.array)
    }
    var buffer = ByteBuffer()
    buffer.append(json: "bücher \u{1f600}")
    #expect(StrictJSON.parse(buffer.array) == .string("bücher \u{1f600}"))
  }
}
