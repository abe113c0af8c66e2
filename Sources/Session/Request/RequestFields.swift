// Fields of a head that an exchange itself reads: credentials for the proxy, Via, Accept, Upgrade, Max-Forwards.
// Tests: RequestFieldsTests.

import Bytes
import HTTP1
import Policy
import Serialization

extension FieldSection {
  /// The credential in Proxy-Authorization, if it is one of `credentials` (RFC 7617). Every credential is compared in
  /// full, so the time does not reveal how much was right. Of several, none counts: another proxy may take another.
  func credential(_ bytes: Span<UInt8>, of credentials: [ProxyCredential]) -> ProxyCredential? {
    guard let value = only(.proxyAuthorization), value.count > 6,
      bytes.equals(value.lowerBound..<value.lowerBound + 6, ignoringCase: "basic "),
      let given = Base64.decode(unpadded: bytes.extracting(bytes.trimmingBlanks(value.dropFirst(6))).array)
    else { return nil }
    var matched: ProxyCredential? = nil
    for credential in credentials {
      let expected = credential.userAndPassword
      var difference = expected.count ^ given.count
      for index in 0..<given.count where !expected.isEmpty {
        difference |= Int(given[index] ^ expected[index % expected.count])
      }
      if difference == 0 { matched = credential }
    }
    return matched
  }

  /// The codings that the client accepts (RFC 9110, 12.5.3).
  func acceptedCodings(_ bytes: Span<UInt8>) -> AcceptEncoding {
    var accepts = AcceptEncoding()
    for index in lines.indices where bytes.equals(lines[index].name, ignoringCase: "accept-encoding") {
      accepts.read(bytes.extracting(lines[index].value))
    }
    return accepts
  }

  /// How often Via may name a proxy of this one's name. Longer chains of installations that keep the default name
  /// hardly exist; and if an intermediary strips the comments (RFC 9110, 7.6.3), a loop ends here.
  static let maximumNamesakes = 8

  /// The values of Via, each followed by a comma.
  func passedVia(_ bytes: Span<UInt8>) -> [UInt8] {
    var passed: [UInt8] = []
    for line in lines where line.known == .via { passed += bytes.extracting(line.value).array + [0x2c, 0x20] }
    return passed
  }

  /// What Via shows about the path of a request.
  enum Passage { case new, again, endless }

  /// `own`: this proxy's element without the protocol, its `name` and its mark.
  func passage(_ bytes: Span<UInt8>, through name: [UInt8], own: [UInt8]) -> Passage {
    var namesakes = 0
    for index in lines.indices where lines[index].known == .via {
      var elements = ListElements(lines[index].value)
      while let element = elements.next(bytes) {
        guard let blank = element.first(where: { bytes[$0].isBlank }) else { continue }
        let receiver = bytes.extracting(bytes.trimmingBlanks(blank..<element.upperBound))
        if receiver.equals(own.span) { return .again }
        guard receiver.count >= name.count, receiver.extracting(0..<name.count).equals(name.span) else { continue }
        if receiver.count == name.count || receiver[name.count].isBlank { namesakes += 1 }
      }
    }
    return namesakes > Self.maximumNamesakes ? .endless : .new
  }

  /// Whether Accept gives text/plain a higher weight than JSON (RFC 9110, 12.5.1).
  public func prefersText(_ bytes: Span<UInt8>) -> Bool {
    guard first(.accept) != nil else { return false }
    var text = Weight()
    var json = Weight()
    for index in lines.indices where lines[index].known == .accept {
      var elements = ListElements(lines[index].value)
      while let element = elements.next(bytes) {
        var end = element.lowerBound
        while end < element.upperBound, bytes[end] != 0x3b, !bytes[end].isBlank { end += 1 }
        let type = element.lowerBound..<end
        let quality = Self.quality(bytes, end..<element.upperBound)
        if bytes.equals(type, ignoringCase: "*/*") {
          text.note(quality, precision: 1)
          json.note(quality, precision: 1)
        } else if bytes.equals(type, ignoringCase: "text/*") {
          text.note(quality, precision: 2)
        } else if bytes.equals(type, ignoringCase: "application/*") {
          json.note(quality, precision: 2)
        } else if bytes.equals(type, ignoringCase: "text/plain") {
          text.note(quality, precision: 3)
        } else if bytes.equals(type, ignoringCase: "application/json")
          || bytes.equals(type, ignoringCase: "application/problem+json")
        {
          json.note(quality, precision: 3)
        }
      }
    }
    return text.quality > json.quality
  }

  /// The weight of the most precise range that matches a type, in thousandths.
  private struct Weight {
    var quality = 0
    var precision = 0

    mutating func note(_ quality: Int, precision: Int) {
      if precision > self.precision || (precision == self.precision && quality > self.quality) {
        self.quality = quality
        self.precision = precision
      }
    }
  }

  /// `;q=0.8` in thousandths; 1000 if there is none.
  private static func quality(_ bytes: Span<UInt8>, _ parameters: Range<Int>) -> Int {
    var at = parameters.lowerBound
    while at + 2 < parameters.upperBound {
      if bytes[at] | 0x20 == 0x71, bytes[at + 1] == 0x3d, at > parameters.lowerBound,
        bytes[at - 1] == 0x3b || bytes[at - 1].isBlank
      {
        var value = 0
        var scale = 1000
        at += 2
        while at < parameters.upperBound, scale > 0 {
          if bytes[at].isASCIIDigit {
            value += Int(bytes[at] & 0xf) * scale
            scale /= 10
          } else if bytes[at] != 0x2e {
            break
          }
          at += 1
        }
        return min(value, 1000)
      }
      at += 1
    }
    return 1000
  }

  /// The only protocol that Upgrade names, if it is relayed. HTTP in another guise is not relayed, because it would
  /// carry requests past the policy. A choice of several is not, because the content of the tunnel would be unknown.
  func relayedProtocol(_ bytes: Span<UInt8>) -> Range<Int>? {
    guard let value = first(.upgrade) else { return nil }
    var elements = ListElements(value)
    guard let name = elements.next(bytes), elements.next(bytes) == nil else { return nil }
    for index in name where !bytes[index].isTokenCharacter && bytes[index] != 0x2f { return nil }
    return UpgradeList.isHTTP(bytes.extracting(name)) ? nil : name
  }

  /// Whether TE lists trailers.
  func acceptsTrailers(_ bytes: Span<UInt8>) -> Bool {
    for index in lines.indices where lines[index].known == .te {
      var elements = ListElements(lines[index].value)
      while let element = elements.next(bytes) {
        if bytes.equals(element, ignoringCase: "trailers") { return true }
      }
    }
    return false
  }

  /// Drops what describes content that is changed on its way (RFC 9530; RFC 9110, 14.3).
  mutating func dropDigests(_ bytes: Span<UInt8>) {
    for name in Self.digestFields { drop(name, in: bytes) }
  }

  private static let digestFields = ["content-md5", "digest", "content-digest", "repr-digest", "accept-ranges"].map {
    Array($0.utf8)
  }

  /// Whether a challenge among them authenticates the connection.
  func bindConnection(_ bytes: Span<UInt8>) -> Bool {
    for index in lines.indices where lines[index].known == .wwwAuthenticate {
      if bytes.authenticatesConnection(lines[index].value) { return true }
    }
    return false
  }

  /// The values of the fields of this name, in order.
  func values(of name: KnownField, _ bytes: Span<UInt8>) -> [[UInt8]] {
    lines.filter { $0.known == name }.map { bytes.extracting($0.value).array }
  }

  /// The content codings that the fields name.
  func contentCodings(_ bytes: Span<UInt8>) -> ContentEncoding.Reading {
    var encoding = ContentEncoding()
    for index in lines.indices where lines[index].known == .contentEncoding {
      encoding.read(bytes.extracting(lines[index].value))
    }
    return encoding.reading
  }

  /// Identical Content-Length fields mean one length (RFC 9110, 8.6): only one is sent.
  mutating func dropRepeatedLength() {
    var seen = false
    for index in lines.indices where lines[index].known == .contentLength {
      if seen { lines[index].isDropped = true }
      seen = true
    }
  }
}

extension RequestHead {
  /// The number in Max-Forwards, for methods that use it; nil if there is none, or a number larger than any sender
  /// needs.
  func maxForwards(_ bytes: Span<UInt8>) -> UInt64? {
    guard knownMethod == .trace || knownMethod == .options, let value = fields.first(.maxForwards),
      !value.isEmpty, value.count <= 9
    else { return nil }
    var number: UInt64 = 0
    for index in value {
      guard bytes[index].isASCIIDigit else { return nil }
      number = number * 10 + UInt64(bytes[index] & 0xf)
    }
    return number
  }

  /// The protocol that Upgrade asks for, if it is relayed.
  func requestedUpgrade(_ bytes: Span<UInt8>) -> Range<Int>? {
    options.upgrade && minorVersion == 1 ? fields.relayedProtocol(bytes) : nil
  }

  /// Method and target, as received.
  func methodAndTarget(_ bytes: Span<UInt8>) -> [UInt8] {
    bytes.extracting(method.lowerBound..<target.upperBound).array
  }

  /// RFC 9110, 9.3.8: the request as received, without the fields that carry credentials.
  private func writeEcho(_ bytes: Span<UInt8>, to out: inout ByteBuffer) {
    out.append(bytes.extracting(method))
    out.append(0x20)
    out.append(bytes.extracting(target))
    out.append(minorVersion == 1 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n")
    for index in fields.lines.indices {
      switch fields.lines[index].known {
      case .authorization, .proxyAuthorization, .cookie: continue
      default: out.append(bytes.extracting(fields.lines[index].line))
      }
    }
    out.append("\r\n")
  }

  /// The proxy's own answer to OPTIONS * and to TRACE and OPTIONS that may go no further (RFC 9110, 7.6.2).
  func writeOwnAnswer(_ bytes: Span<UInt8>, date: Span<UInt8>, closes: Bool, to out: inout ByteBuffer) {
    let end: StaticString = closes ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n"
    out.append("HTTP/1.1 200 OK\r\nDate: ")
    out.append(date)
    if knownMethod == .trace {
      var echo = ByteBuffer()
      writeEcho(bytes, to: &echo)
      out.append("\r\nContent-Type: message/http\r\nContent-Length: ")
      out.append(decimal: UInt64(echo.count))
      out.append(end)
      out.append(echo.bytes)
    } else {
      out.append("\r\nAllow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE\r\nContent-Length: 0")
      out.append(end)
    }
  }
}

extension Span where Element == UInt8 {
  /// Whether credentials or a challenge use a scheme that authenticates a connection (RFC 4559, 6).
  func authenticatesConnection(_ value: Range<Int>) -> Bool {
    func begins(_ scheme: StaticString) -> Bool {
      equals(value.prefix(scheme.utf8CodeUnitCount), ignoringCase: scheme)
    }
    return begins("ntlm") || begins("negotiate")
  }
}
