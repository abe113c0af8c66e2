// What is done to the body of a request: by method, type, coding and length, and what it becomes.

import Bytes
import Testing

@testable import Serialization

@Suite struct RequestBodyTests {
  private static let limits = ContentLimits(heldBytes: 64, jsonDepth: 8, imagePixels: 1)
  private static let parameters: [ParameterEntry] = [
    ParameterEntry(key: Array("k".utf8), value: .string(Array("v w".utf8))),
    ParameterEntry(key: Array("n".utf8), value: .array([.integer(1), .boolean(true)])),
  ]
  private static let form = "application/x-www-form-urlencoded"

  private func serialization(
    _ format: RequestSerialization.Format, transcodes: Bool = false, parameters: [ParameterEntry] = Self.parameters
  ) -> RequestSerialization {
    RequestSerialization(format: format, parameters: parameters, transcodes: transcodes)
  }

  /// The work, in a word; of a conflict what was seen.
  private func work(
    _ serialization: RequestSerialization, _ type: String?, method: String = "POST", length: UInt64?,
    isCoded: Bool = false, isPart: Bool = false, hasSeveralTypes: Bool = false
  ) -> String {
    let head = Array("\(method)\(type ?? "")".utf8)
    let methodRange = 0..<method.utf8.count
    let work = serialization.work(
      head.span, method: methodRange,
      RequestBodyHead(
        contentType: type.map { _ in methodRange.upperBound..<head.count }, hasSeveralTypes: hasSeveralTypes,
        contentLength: length, isCoded: isCoded, isPart: isPart),
      limits: Self.limits)
    switch work {
    case .nothing: return "nothing"
    case .made: return "made"
    case .held: return "held"
    case .conflict(let conflict): return "\(conflict.subject)"
    }
  }

  private func rewrite(
    _ serialization: RequestSerialization, _ type: String?, _ body: String, method: String = "POST"
  )
    -> String
  {
    let head = Array("\(method)\(type ?? "")".utf8)
    let bytes = Array(body.utf8)
    var out = ByteBuffer()
    let outcome = serialization.rewrite(
      bytes.span, head.span, method: 0..<method.utf8.count,
      contentType: type.map { _ in method.utf8.count..<head.count }, limits: Self.limits, to: &out)
    switch outcome {
    case .success(.ofSameType): return out.bytes.string
    case .success(.ofSerializersType): return "new type: \(out.bytes.string)"
    case .failure(let conflict): return conflict.detail
    }
  }

  @Test func whetherABodyIsLeftMadeOrHeld() {
    let http = serialization(.http)
    #expect(work(http, nil, method: "GET", length: 0) == "nothing")
    #expect(work(http, Self.form, method: "GET", length: 3) == "nothing")
    #expect(work(http, nil, length: 0) == "made")
    #expect(work(http, "text/plain", length: 0) == "made")
    #expect(work(http, Self.form, length: 64) == "held")
    #expect(work(http, Self.form, length: 65) == "size")
    #expect(work(http, Self.form, length: nil) == "held")
    #expect(work(http, nil, length: nil) == "held")
    #expect(work(http, nil, length: 3) == "type")
    #expect(work(http, "text/plain", length: nil) == "type")
    #expect(work(http, Self.form, length: 3, isCoded: true) == "type")
    #expect(work(http, Self.form, length: 3, isPart: true) == "type")
    #expect(work(http, Self.form, method: "GET", length: 3, isPart: true) == "nothing")
    #expect(work(http, nil, length: 3, hasSeveralTypes: true) == "type")
    for length: UInt64? in [nil, 0] { #expect(work(http, nil, length: length, hasSeveralTypes: true) == "type") }
    #expect(work(http, nil, method: "GET", length: 3, hasSeveralTypes: true) == "nothing")
    let transcoding = serialization(.json, transcodes: true, parameters: [])
    #expect(work(transcoding, nil, length: 3, hasSeveralTypes: true) == "type")
    #expect(work(transcoding, nil, length: 0, hasSeveralTypes: true) == "nothing")
    #expect(work(serialization(.json), Self.form, length: 3) == "type")
    #expect(work(serialization(.json), "application/vnd.a+json", length: 3) == "held")
    for format in RequestSerialization.Format.allCases {
      let type = "multipart/form-data; boundary=x"
      #expect(work(serialization(format), type, length: 3) == "held")
      #expect(work(serialization(format), type, method: "GET", length: 3) == "nothing")
      #expect(work(serialization(format), type, length: 65) == "size")
      #expect(work(serialization(format), type, length: 3, isCoded: true) == "type")
      #expect(work(serialization(format), "multipart/mixed; boundary=x", length: 3) == "type")
    }
    #expect(work(serialization(.plist), "application/x-plist", length: 3) == "held")
  }

  @Test func transcodingHoldsFormsOfAnyMethodAndNothingElse() {
    let only = serialization(.json, transcodes: true, parameters: [])
    #expect(work(only, Self.form, method: "GET", length: 3) == "held")
    #expect(work(only, "text/plain", length: 3) == "nothing")
    #expect(work(only, "application/json", length: 3) == "nothing")
    #expect(work(only, "multipart/form-data; boundary=", length: 3) == "held")
    #expect(work(only, nil, length: 0) == "nothing")
    #expect(work(serialization(.http, transcodes: true, parameters: []), Self.form, length: 3) == "nothing")
  }

  @Test func parametersAloneAreEncodedAsTheSerializerDoes() {
    #expect(serialization(.http).body.span.string == "k=v%20w&n%5B%5D=1&n%5B%5D=1")
    #expect(serialization(.json).body.span.string == "{\"k\":\"v w\",\"n\":[1,true]}")
    #expect(serialization(.plist).body.span.string.contains("<key>k</key>\n\t<string>v w</string>"))
  }

  @Test func whatABodyBecomes() {
    #expect(rewrite(serialization(.http), Self.form, "a=b") == "a=b&k=v%20w&n%5B%5D=1&n%5B%5D=1")
    #expect(rewrite(serialization(.json), "text/json", "{\"k\":0}") == "{\"k\":\"v w\",\"n\":[1,true]}")
    #expect(rewrite(serialization(.json), nil, "") == "{\"k\":\"v w\",\"n\":[1,true]}")
    let transcoding = serialization(.json, transcodes: true)
    #expect(rewrite(transcoding, Self.form, "a=1&k=2") == "new type: {\"a\":\"1\",\"k\":\"v w\",\"n\":[1,true]}")
    #expect(rewrite(transcoding, Self.form, "a=1", method: "GET") == "new type: {\"a\":\"1\"}")
    let multipart = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"
    #expect(
      rewrite(transcoding, "multipart/form-data; boundary=x", multipart)
        == "new type: {\"a\":\"1\",\"k\":\"v w\",\"n\":[1,true]}")
    #expect(rewrite(serialization(.plist, transcodes: true), Self.form, "a=1").contains("<key>a</key>"))
  }

  @Test func partsAreAddedToAMultipartBody() {
    let file = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\n1\r\n--x--\r\n"
    func part(_ name: String, _ value: String) -> String {
      "--x\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n"
    }
    for format in RequestSerialization.Format.allCases {
      #expect(
        rewrite(serialization(format), "multipart/form-data; boundary=x", file)
          == part("k", "v w") + part("n[]", "1") + part("n[]", "1") + file)
      #expect(
        rewrite(serialization(format), "multipart/form-data", file)
          == "Expected multipart/form-data with a boundary, seen none.")
      #expect(
        rewrite(serialization(format), "multipart/form-data; boundary=y", file)
          == "Expected multipart/form-data, seen a fault at byte 0: expected the boundary that the Content-Type names.")
    }
    let held = serialization(.http, parameters: [ParameterEntry(key: [0x6b], value: .string(Array("--x".utf8)))])
    #expect(
      rewrite(held, "multipart/form-data; boundary=x", file)
        == "Expected a boundary that stands in no parameter, seen one that stands in 'k'.")
  }

  @Test func whatCannotBeSaysWhatWasExpectedAndSeen() {
    let json = serialization(.json, transcodes: true)
    #expect(rewrite(json, "text/json", "[]") == "Expected a JSON object, seen an array.")
    #expect(rewrite(json, "text/json", "{").hasPrefix("Expected well-formed JSON, seen a fault at line 1, column 2: "))
    #expect(
      rewrite(json, Self.form, "a=%")
        == "Expected a form, seen a fault at byte 2: expected two hexadecimal digits behind '%', found '%'.")
    #expect(rewrite(json, "multipart/form-data", "x") == "Expected multipart/form-data with a boundary, seen none.")
    let file = "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\n1\r\n--x--\r\n"
    #expect(
      rewrite(json, "multipart/form-data; boundary=x", file)
        == "Expected a form without files, seen one in the field 'a'.")
    #expect(rewrite(json, nil, "x").hasPrefix("Expected application/json, "))
    #expect(
      rewrite(serialization(.plist), "application/x-plist", "<plist version=\"1.0\"><true/></plist>").hasPrefix(
        "Expected a property list of a dictionary, seen "))
    #expect(
      rewrite(serialization(.plist, transcodes: true), Self.form, "a=%01").hasPrefix(
        "Expected fields that a property list can carry, seen "))
  }
}
