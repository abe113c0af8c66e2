// What `sallyport explain` says of parameters, bodies and responses; and that it tells no secret.

import Serialization
import Testing

@testable import Policy

@Suite struct SerializerExplanationTests {
  private func explain(
    _ body: String, _ method: String = "GET", _ scheme: Scheme = .http
  ) throws -> Explanation {
    var files = DictionaryFiles()
    files.variables["KEY"] = "HUNTER2"
    files.files["s.toml"] = Array("[[rule]]\nname = \"r\"\n\(body)".utf8)
    let policy = try #require(PolicyLoader.load(path: "s.toml", files: files).policy)
    let isTunnel = method == "CONNECT"
    return Explanation(
      by: policy, method: method, scheme: scheme, host: canonical("a.example"), port: scheme.defaultPort,
      path: isTunnel ? "" : "/",
      isTunnel: isTunnel)
  }

  /// The lines on what will be done.
  private func lines(_ body: String, _ method: String = "GET") throws -> [String] {
    try explain(body, method).description.split(separator: "\n").drop { $0 != "what will be done:" }.dropFirst()
      .map { String($0.dropFirst(2)) }
  }

  private static let parameters = """
    parameters = { z = "a&b", filter = { lang = ["en", "de"], on = true, none = {} }, api_key = { env = "KEY" }, \
    list = [1, { env = "KEY" }], n = 2.0, r = 0.5, password = 7 }
    """

  private static let multipart = "multipart/form-data: the parameters are parts of their own, before those of the body"

  @Test func parametersAreToldWithoutTheirSecrets() throws {
    let named = [
      "parameter api_key: (value hidden)", "parameter filter[lang][]: en", "parameter filter[lang][]: de",
      "parameter filter[on]: true", "parameter list[]: (value hidden)", "parameter list[]: (value hidden)",
      "parameter n: 2", "parameter password: (value hidden)", "parameter r: 0.5", "parameter z: a&b",
    ]
    #expect(try lines("[rule.request]\n\(Self.parameters)") == ["parameters: in the query"] + named)
    #expect(
      try lines("[rule.request]\n\(Self.parameters)", "POST")
        == ["parameters: in the body, as a form", Self.multipart] + named + [
          "on conflict: the request is rejected (413, 415)"
        ])
    #expect(
      try lines("[rule.request]\non_conflict = \"pass\"\nserializer = \"json\"\n\(Self.parameters)", "POST")
        == ["parameters: in the body, as JSON", Self.multipart] + named[..<3] + ["parameter filter[none]: {}"]
        + named[3...]
        + ["on conflict: the request passes as it came"])
    for method in ["GET", "POST"] {
      let explanation = try explain("[rule.request]\nserializer = \"plist\"\n\(Self.parameters)", method)
      #expect(!explanation.description.contains("HUNTER2") && !explanation.json.contains("HUNTER2"))
      #expect(!explanation.description.contains(": 7") && !explanation.json.contains("7\""))
    }
  }

  @Test func namesAreThoseOfTheStyleAndSecretsStaySecret() throws {
    let request = "[rule.request]\nparameters = { a = [1, { env = \"KEY\" }], b = [{ token = \"HUNTER2\" }] }\n"
    func told(_ arrays: String, _ method: String = "GET", _ more: String = "") throws -> [String] {
      let style = "query_style = { arrays = \"\(arrays)\", booleans = \"true/false\" }\n"
      return try lines(request + style + more, method)
    }
    func style(_ arrays: String) -> String {
      "query style: arrays \"\(arrays)\", booleans \"true/false\", space \"%20\""
    }
    #expect(
      try told("indices") == [
        "parameters: in the query", "parameter a[0]: (value hidden)", "parameter a[1]: (value hidden)",
        "parameter b[0][token]: (value hidden)", style("indices"),
      ])
    #expect(
      try told("repeat") == [
        "parameters: in the query", "parameter a: (value hidden)", "parameter a: (value hidden)",
        "parameter b[token]: (value hidden)", style("repeat"),
      ])
    #expect(
      try told("repeat", "POST", "serializer = \"json\"")[2...3] == [
        "parameter a[]: (value hidden)", "parameter a[]: (value hidden)",
      ])
  }

  @Test func theRuleSaysWhichMethodsHaveThemInTheQuery() throws {
    let request = "[rule.request]\nparameters = { a = \"x\" }\nserializer = \"plist\"\n"
    #expect(try lines(request + "parameters_in_uri = [\"POST\"]", "POST")[0] == "parameters: in the query")
    #expect(
      try lines(request + "parameters_in_uri = []")[0] == "parameters: in the body, as an XML property list")
    #expect(try lines(request, "get")[0] == "parameters: in the body, as an XML property list")
  }

  @Test func transcodingIsTold() throws {
    #expect(
      try lines("[rule.request]\nserializer = \"json\"\ntranscode = true") == [
        "transcode: a body that is a form is sent as JSON", "on conflict: the request is rejected (413, 415)",
      ])
    #expect(
      try lines("enforce = false\n[rule.request]\nserializer = \"plist\"\ntranscode = true") == [
        "transcode: a body that is a form is sent as an XML property list",
        "on conflict: the request passes as it came, and is logged (enforce = false)",
      ])
    #expect(
      try lines("[rule.request]\ntranscode = true") == ["the request is forwarded as it came"])
  }

  @Test func theConnectionIsTold() throws {
    #expect(
      try lines(
        """
        [rule.request]
        service_type = "video"
        throttle = { packet = "16KiB", delay = "200ms", when = ["wwan", "unknown"] }
        allows_cellular_access = false
        """) == [
          "service type: video, DSCP 34",
          "throttle: after each 16KiB towards the destination nothing is sent to it for 200ms, while the destination or "
            + "the parent is reached by wwan or unknown",
          "cellular access: not allowed; 503 while the destination or the parent is reached by wwan",
        ])
    #expect(
      try lines("request.throttle = { rate = \"64KiB\" }") == [
        "throttle: after each 3276B towards the destination nothing is sent to it for 50ms"
      ])
    #expect(
      try lines("request.throttle = { rate = \"64KiB\", download = \"1MiB\" }") == [
        "throttle: after each 3276B towards the destination nothing is sent to it for 50ms; 1MiB a second towards the "
          + "client"
      ])
  }

  @Test func bodiesThatAreTakenWholeAreTold() throws {
    let request = "request.buffer_uploads = true"
    #expect(
      try lines(request, "POST") == [
        "uploads: a body of unknown length is taken whole, and leaves with its length and without trailers"
      ])
    #expect(try explain(request, "POST").json.contains("\"buffer_uploads\": true"))
    #expect(try !lines(request, "CONNECT").contains { $0.hasPrefix("uploads") })
    // A rule may take back what the defaults say.
    #expect(
      try lines("request.buffer_uploads = false\n[defaults.request]\nbuffer_uploads = true", "POST")
        == ["the request is forwarded as it came"])
  }

  @Test func aClosedTunnelIsToldHowItsBytesAreSent() throws {
    let request = "[rule.request]\nthrottle = { download = \"1MiB\" }\nservice_type = \"video\"\nparameters = { a = 1 }"
    let told = ["service type: video, DSCP 34", "throttle: 1MiB a second towards the client"]
    #expect(try Array(lines(request, "CONNECT").prefix(2)) == told)
    #expect(
      try explain(request, "CONNECT").json.contains(
        "\"service_type\": \"video\", \"throttle\": {\"packet_bytes\": null, \"delay_ms\": null, "
          + "\"download_bytes_per_second\": 1048576, \"when\": []}"))
    // Each request inside has its own.
    #expect(try lines("connect = \"intercept\"\n" + request, "CONNECT").allSatisfy { !told.contains($0) })
  }

  // MARK: Responses

  @Test func aResponseIsToldWhole() throws {
    #expect(
      try lines(
        """
        [rule.response]
        serializer = "json"
        acceptable_status = ["200-299", 304]
        remove_nulls = true
        on_violation = { status = "reject", content_type = "annotate" }
        """) == [
          "response: json", "status: 200-299, 304, else rejected",
          "content type: application/json, text/json, text/javascript, else annotated",
          "body: well-formed, else rejected", "nulls: removed from JSON",
          "body above 1MiB: not looked at, and annotated",
        ])
  }

  @Test func aCompoundHasItsTypesEach() throws {
    #expect(
      try lines("response.serializer = [\"json\", \"plist\"]\nresponse.oversize = \"reject\"") == [
        "response: json, plist, of which the first that accepts decides", "status: 200-299, else annotated",
        "content type: application/json, text/json, text/javascript (json); application/x-plist (plist), else rejected",
        "body: well-formed, else rejected", "body above 1MiB: not looked at, and rejected",
      ])
    #expect(
      try lines("response.serializer = [\"json\", \"xml\"]\nresponse.acceptable_content_types = [\"text/*\"]")[2]
        == "content type: text/*, else rejected")
    #expect(
      try lines("response.serializer = [\"json\", \"http\"]\nresponse.remove_nulls = true")[2...] == [
        "content type: application/json, text/json, text/javascript (json); any (http), else rejected",
        "nulls: removed from JSON", "body above 1MiB: not looked at, and annotated",
      ])
  }

  @Test func anyBodyIsNotLookedAt() throws {
    #expect(
      try lines("[rule.response]") == [
        "response: http", "status: 200-299, else annotated", "content type: any, else rejected",
      ])
  }

  @Test func whatIsNotEnforcedIsLetPass() throws {
    #expect(
      try lines("enforce = false\nresponse.serializer = \"xml\"\n[proxy.limits]\nbuffered_body = \"3MiB\"") == [
        "response: xml", "status: 200-299, else annotated",
        "content type: application/xml, text/xml, else allowed and logged (enforce = false)",
        "body: well-formed, else allowed and logged (enforce = false)",
        "body above 3MiB: not looked at, and annotated",
      ])
  }

  @Test func aTunnelAndADenialHaveNoneOfIt() throws {
    let body = "[rule.request]\nparameters = { a = 1 }\nservice_type = \"voice\"\n[rule.response]"
    for explanation in [try explain(body, "CONNECT", .https), try explain("action = \"deny\"\n\(body)")] {
      #expect(explanation.serializer?.serialization == nil && explanation.response == nil)
      #expect(!explanation.json.contains("serializ") && !explanation.description.contains("parameter"))
    }
  }

  @Test func theDefaultsAreToldWhereNoRuleMatches() throws {
    let policy = try loaded("[defaults.request]\nservice_type = \"voice\"\n[defaults.response]\nserializer = \"image\"")
    let explanation = Explanation(
      by: policy, method: "GET", scheme: .http, host: canonical("a"), port: 80, path: "/", isTunnel: false)
    #expect(explanation.serializer?.serviceType == .voice && explanation.response?.serialization.kinds == [.image])
  }

  // MARK: JSON

  private func actions(_ body: String, _ method: String) throws -> String {
    let json = try explain(body, method).json
    let start = try #require(json.firstRange(of: "\"cookies\": true")).upperBound
    let end = try #require(json.firstRange(of: ", \"assurance\": ")).lowerBound
    return String(json[start..<end])
  }

  @Test func jsonSaysTheSame() throws {
    #expect(
      try actions(
        """
        [rule.request]
        serializer = "json"
        parameters = { a = "x", token = "y" }
        service_type = "background"
        throttle = { packet = "1KiB", delay = "2s", when = ["wifi"] }
        allows_cellular_access = false
        """, "POST")
        == ", \"serialization\": {\"serializer\": \"json\", \"parameters\": [{\"name\": \"a\", \"value\": \"x\"}, "
        + "{\"name\": \"token\", \"value\": null}], \"parameters_in\": \"body\", "
        + "\"query_style\": {\"arrays\": \"brackets\", \"booleans\": \"1/0\", \"space\": \"%20\"}, "
        + "\"encoding\": \"utf-8\", \"transcode\": false, "
        + "\"on_conflict\": \"reject\", \"enforce\": true}, \"service_type\": \"background\", "
        + "\"throttle\": {\"packet_bytes\": 1024, \"delay_ms\": 2000, \"download_bytes_per_second\": null, \"when\": "
        + "[\"wifi\"]}, "
        + "\"allows_cellular_access\": false")
    #expect(
      try actions(
        "enforce = false\n[rule.response]\nserializer = [\"plist\", \"http\"]\nacceptable_status = [200, 204]",
        "GET")
        == ", \"response\": {\"serializer\": [\"plist\", \"http\"], \"acceptable_status\": [\"200\", \"204\"], "
        + "\"acceptable_content_types\": {\"plist\": [\"application/x-plist\"], \"http\": [\"*/*\"]}, "
        + "\"remove_nulls\": false, \"on_violation\": {\"status\": \"annotate\", \"content_type\": \"reject\", "
        + "\"body\": \"reject\"}, \"oversize\": \"annotate\", \"malformed\": \"mend\", \"parts\": \"pass\", "
        + "\"json\": \"any\", \"buffered_body_bytes\": 1048576, \"enforce\": false}")
    #expect(try actions("", "GET") == "")
  }
}
