// Request fields that the session itself reads: credentials for the proxy, Via, Accept.

import Bytes
import HTTP1
import Policy
import Serialization

extension Exchange {
  /// The credential in Proxy-Authorization, if it is one of `credentials` (RFC 7617). Every credential is compared in
  /// full, so the time does not reveal how much was right.
  static func credential(
    _ fields: FieldSection, _ bytes: Span<UInt8>, _ credentials: [ProxyCredential]
  ) -> ProxyCredential? {
    guard let value = fields.first(.proxyAuthorization), value.count > 6,
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

  /// Reads the codings that the client accepts (RFC 9110, 12.5.3).
  mutating func noteAcceptedCodings(_ bytes: Span<UInt8>, _ fields: FieldSection) {
    accepts = AcceptEncoding()
    for index in fields.lines.indices where bytes.equals(fields.lines[index].name, ignoringCase: "accept-encoding") {
      accepts.read(bytes.extracting(fields.lines[index].value))
    }
  }

  /// Whether credentials or a challenge use a scheme that authenticates a connection (RFC 4559, 6).
  static func authenticatesConnection(_ bytes: Span<UInt8>, _ value: Range<Int>) -> Bool {
    func begins(_ scheme: StaticString) -> Bool {
      bytes.equals(value.prefix(scheme.utf8CodeUnitCount), ignoringCase: scheme)
    }
    return begins("ntlm") || begins("negotiate")
  }

  /// How often Via may name a proxy of this one's name. Longer chains of installations that keep the default name
  /// hardly exist; and if an intermediary strips the comments (RFC 9110, 7.6.3), a loop ends here.
  static let maximumNamesakes = 8

  /// The problem with a request that has come back; nil if nothing shows that it has.
  static func loopProblem(_ workspace: borrowing Workspace, _ bytes: Span<UInt8>) -> Problem? {
    switch passage(workspace.name, own: workspace.via, workspace.request.fields, bytes) {
    case .new: nil
    case .again: Problem(.loop, "The request has passed through this proxy already, as its Via field says.")
    case .endless:
      Problem(
        .loop,
        "The request has passed through more than \(maximumNamesakes) proxies of this name, as its Via field says."
      )
    }
  }

  /// Keeps the value of Via for a parent.
  mutating func noteVia(_ bytes: Span<UInt8>, _ fields: FieldSection) {
    passedVia = []
    for line in fields.lines where line.known == .via {
      for index in line.value { passedVia.append(bytes[index]) }
      passedVia += [0x2c, 0x20]
    }
  }

  /// What Via shows about the path of a request.
  enum Passage { case new, again, endless }

  /// `own`: this proxy's element without the protocol, its `name` and its mark.
  static func passage(
    _ name: [UInt8], own: [UInt8], _ fields: FieldSection, _ bytes: Span<UInt8>
  ) -> Passage {
    var namesakes = 0
    for index in fields.lines.indices where fields.lines[index].known == .via {
      var elements = ListElements(fields.lines[index].value)
      while let element = elements.next(bytes) {
        guard let blank = element.first(where: { bytes[$0].isBlank }) else { continue }
        let receiver = bytes.extracting(bytes.trimmingBlanks(blank..<element.upperBound))
        if receiver.equals(own.span) { return .again }
        guard receiver.count >= name.count, receiver.extracting(0..<name.count).equals(name.span) else { continue }
        if receiver.count == name.count || receiver[name.count].isBlank { namesakes += 1 }
      }
    }
    return namesakes > maximumNamesakes ? .endless : .new
  }

  /// Whether Accept gives text/plain a higher weight than JSON (RFC 9110, 12.5.1).
  public static func prefersText(_ fields: FieldSection, _ bytes: Span<UInt8>) -> Bool {
    guard fields.first(.accept) != nil else { return false }
    var text = Weight()
    var json = Weight()
    for index in fields.lines.indices where fields.lines[index].known == .accept {
      var elements = ListElements(fields.lines[index].value)
      while let element = elements.next(bytes) {
        var end = element.lowerBound
        while end < element.upperBound, bytes[end] != 0x3b, !bytes[end].isBlank { end += 1 }
        let type = element.lowerBound..<end
        let quality = quality(bytes, end..<element.upperBound)
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
}
