// The request serializer: parameters, bodies, how they are sent, and inheritance.

import Reachability
import Serialization
import Testing

@testable import Policy

@Suite struct SerializerReadingTests {
  private static let rule = "[[rule]]\nname = \"a\"\n"

  /// `line:column: severity: message` of each diagnostic. What parameters hold is hidden in excerpts, so that whole rows
  /// cannot be compared where there are any.
  private func said(_ source: String, _ files: DictionaryFiles = DictionaryFiles()) -> [String] {
    load(source, files).diagnostics.filter { !$0.isAboutTunnels }.map {
      "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
    }
  }

  private func load(_ source: String, _ files: DictionaryFiles = DictionaryFiles()) -> LoadResult {
    var files = files
    files.files["s.toml"] = Array(source.utf8)
    return PolicyLoader.load(path: "s.toml", files: files)
  }

  // MARK: Every key

  @Test func everyKeyIsTaken() throws {
    let request = try loaded(
      Self.rule + """
        [rule.request]
        serializer = "plist"
        parameters = { a = 1 }
        parameters_in_uri = ["GET", "PURGE"]
        query_style = { arrays = "indices", booleans = "true/false", space = "+" }
        transcode = true
        on_conflict = "pass"
        allows_cellular_access = true
        service_type = "voice"
        throttle = { packet = "16KiB", delay = "200ms" }
        """
    ).rules[0].request
    let serialization = try #require(request.serialization)
    #expect(serialization.format == .plist)
    #expect(serialization.parameters == [ParameterEntry("a", .integer(1))])
    #expect(serialization.methodsInURI == ["GET", "PURGE"].map { Array($0.utf8) })
    #expect(serialization.transcodes && serialization.onConflict == .pass)
    #expect(serialization.style == QueryStyle(arrays: .indices, booleans: .words, space: .plus))
    #expect(request.allowsCellularAccess && request.serviceType == .voice)
    #expect(request.throttle == Throttle(upload: Throttle.Upload(packetBytes: 16 << 10, delayMilliseconds: 200)))
  }

  @Test func aSilentTableChangesNothing() throws {
    for source in [Self.rule, Self.rule + "[rule.request]", Self.rule + "[rule.request]\nserializer = \"http\""] {
      let request = try loaded(source).rules[0].request
      #expect(request.serialization == nil && request.throttle == nil && request.secretParameters.isEmpty)
      #expect(request.serviceType == .standard && request.allowsCellularAccess)
    }
    let request = try loaded(Self.rule + "request.parameters = { a = 1 }").rules[0].request
    let serialization = try #require(request.serialization)
    #expect(serialization.format == .http && !serialization.transcodes && serialization.onConflict == .reject)
    #expect(serialization.methodsInURI == ["GET", "HEAD", "DELETE"].map { Array($0.utf8) })
  }

  @Test func aFormIsNotTranscodedToAForm() throws {
    let source =
      "[defaults.request]\nserializer = \"json\"\ntranscode = true\n\(Self.rule)request.serializer = \"http\""
    let policy = try loaded(source)
    #expect(policy.defaultRequest.serialization?.transcodes == true && policy.rules[0].request.serialization == nil)
  }

  @Test func anEmptyListOfMethodsIsNone() throws {
    let policy = try loaded(Self.rule + "[rule.request]\nparameters_in_uri = []\nparameters = { a = 1 }")
    #expect(policy.rules[0].request.serialization?.methodsInURI == [])
  }

  @Test func everyWordIsTaken() throws {
    for type in ServiceType.allCases {
      let policy = try loaded("[defaults.request]\nservice_type = \"\(type.rawValue)\"")
      #expect(policy.defaultRequest.serviceType == type)
    }
    for format in RequestSerialization.Format.allCases {
      let policy = try loaded("[defaults.request]\nserializer = \"\(format.rawValue)\"\nparameters = { a = 1 }")
      #expect(policy.defaultRequest.serialization?.format == format)
    }
  }

  // MARK: Inheritance

  @Test func aRuleInheritsKeyByKeyAndParameterByParameter() throws {
    let policy = try loaded(
      """
      [defaults.request]
      serializer = "json"
      parameters = { b = { x = 1 }, a = 2, token = "t" }
      parameters_in_uri = []
      on_conflict = "pass"
      service_type = "video"
      throttle = { packet = "1KiB", delay = "1ms" }
      [[rule]]
      name = "silent"
      hosts = ["a"]
      [[rule]]
      name = "speaks"
      hosts = ["b"]
      [rule.request]
      parameters = { b = { y = 3 }, c = 4, token = "u" }
      transcode = true
      parameters_in_uri = ["GET"]
      on_conflict = "reject"
      service_type = "default"
      throttle = { rate = "1MiB" }
      [[rule]]
      name = "headers-only"
      hosts = ["c"]
      [rule.request]
      cookies = false
      """)
    for request in [policy.defaultRequest, policy.rules[0].request, policy.rules[2].request] {
      let serialization = try #require(request.serialization)
      #expect(serialization.format == .json && serialization.methodsInURI.isEmpty && !serialization.transcodes)
      #expect(serialization.onConflict == .pass && request.serviceType == .video)
      #expect(
        serialization.parameters == [
          ParameterEntry("a", .integer(2)), ParameterEntry("b", .dictionary([ParameterEntry("x", .integer(1))])),
          ParameterEntry("token", .text("t")),
        ])
      #expect(request.throttle == Throttle(upload: Throttle.Upload(packetBytes: 1024, delayMilliseconds: 1)))
      #expect(request.secretParameters == ["token"])
    }
    let own = policy.rules[1].request
    let serialization = try #require(own.serialization)
    #expect(serialization.format == .json && serialization.methodsInURI == [Array("GET".utf8)])
    #expect(serialization.transcodes && serialization.onConflict == .reject && own.serviceType == .standard)
    #expect(
      serialization.parameters == [
        ParameterEntry("a", .integer(2)), ParameterEntry("b", .dictionary([ParameterEntry("y", .integer(3))])),
        ParameterEntry("c", .integer(4)),
        ParameterEntry("token", .text("u")),
      ])
    #expect(
      own.throttle == Throttle(upload: Throttle.Upload(packetBytes: 52_428, delayMilliseconds: 50, keepsRate: true)))
  }

  @Test func aRuleInheritsTheStyleKeyByKey() throws {
    let policy = try loaded(
      """
      [defaults.request]
      parameters = { a = [1, true] }
      query_style = { arrays = "repeat", booleans = "true/false" }
      [[rule]]
      name = "silent"
      hosts = ["a"]
      [[rule]]
      name = "speaks"
      hosts = ["b"]
      [rule.request.query_style]
      arrays = "comma"
      space = "+"
      """)
    let inherited = try #require(policy.rules[0].request.serialization)
    #expect(inherited.style == QueryStyle(arrays: .repeat, booleans: .words))
    #expect(inherited.query == Array("a=1&a=true".utf8))
    let own = try #require(policy.rules[1].request.serialization)
    #expect(own.style == QueryStyle(arrays: .comma, booleans: .words, space: .plus))
    #expect(own.query == Array("a=1,true".utf8))
  }

  @Test func everyStyleIsTaken() throws {
    func style(_ line: String) throws -> QueryStyle? {
      let policy = try loaded("[defaults.request]\nparameters = { a = 1 }\nquery_style = { \(line) }")
      return policy.defaultRequest.serialization?.style
    }
    for arrays in QueryStyle.Arrays.allCases {
      #expect(try style("arrays = '\(arrays.rawValue)'") == QueryStyle(arrays: arrays))
    }
    for booleans in QueryStyle.Booleans.allCases {
      #expect(try style("booleans = '\(booleans.rawValue)'") == QueryStyle(booleans: booleans))
    }
    for space in QueryStyle.Space.allCases {
      #expect(try style("space = '\(space.rawValue)'") == QueryStyle(space: space))
    }
  }

  @Test func anEncodingIsInheritedAndTakenBack() throws {
    let policy = try loaded(
      """
      [defaults.request]
      parameters = { k = "查" }
      encoding = "GBK"
      [[rule]]
      name = "silent"
      hosts = ["a"]
      [[rule]]
      name = "speaks"
      hosts = ["b"]
      [rule.request]
      encoding = "utf-8"
      [[rule]]
      name = "another"
      hosts = ["c"]
      [rule.request]
      encoding = "gb18030"
      parameters = { k = "€" }
      """)
    let said = try policy.rules.map { rule in
      let serialization = try #require(rule.request.serialization)
      return [serialization.encoding?.name, String(decoding: serialization.query, as: UTF8.self)]
    }
    #expect(said == [["GBK", "k=%B2%E9"], [nil, "k=%E6%9F%A5"], ["gb18030", "k=%A2%E3"]])
  }

  /// Of each the name is told, and never the value: it may be a secret.
  @Test func whatAnEncodingDoesNotHaveIsAnErrorWhereItIsSaid() {
    func text(_ name: String, _ encoding: String) -> String {
      "the parameter '\(name)' holds a character that the encoding '\(encoding)' does not have"
    }
    #expect(
      said("[defaults.request]\nencoding = \"latin1\"\nparameters = { a = [\"ä\", { b = \"€\" }], c = \"ü\" }") == [
        "3:14: error: 'parameters' in [defaults.request]: \(text("a", "latin1"))"
      ])
    #expect(
      said("[defaults.request]\nparameters = { \"查\" = 1 }\n" + Self.rule + "request.encoding = \"latin1\"") == [
        "5:20: error: 'encoding' in [rule.request]: \(text("查", "latin1"))"
      ])
    #expect(
      said("[defaults.request]\nencoding = \"big5\"\n" + Self.rule + "request.parameters = { token = \"1ä2\" }") == [
        "5:22: error: 'parameters' in [rule.request]: \(text("token", "big5"))"
      ])
    // What another rule sends in UTF-8 is no matter of this one.
    #expect(
      said(
        "[defaults.request]\nencoding = \"latin1\"\n" + Self.rule
          + "[rule.request]\nencoding = \"utf-8\"\nparameters = { a = \"€\" }")
        == [])
  }

  /// What fits with brackets may be too long with indices.
  @Test func parametersAreMeasuredInTheirStyle() {
    let list = (0..<990).map { _ in "1" }.joined(separator: ", ")
    let parameters = "parameters = { abcde = [\(list)] }\n"
    #expect(said("[defaults.request]\n" + parameters) == [])
    let text = "expected at most 16384 bytes of parameters when written in this style and encoding"
    let style = "query_style = { arrays = \"indices\" }\n"
    #expect(
      said("[defaults.request]\n" + parameters + style) == ["3:15: error: 'query_style' in [defaults.request]: \(text)"]
    )
    #expect(
      said("[defaults.request]\n" + parameters + Self.rule + "[rule.request]\n" + style) == [
        "6:15: error: 'query_style' in [rule.request]: \(text)"
      ])
    #expect(
      said("[defaults.request]\n" + style + Self.rule + "[rule.request]\n" + parameters) == [
        "6:14: error: 'parameters' in [rule.request]: \(text)"
      ])
  }

  @Test func cellularAccessIsInheritedToo() throws {
    let policy = try #require(
      load(
        "[defaults.request]\nallows_cellular_access = false\n\(Self.rule)[[rule]]\nname = \"b\"\nhosts = [\"b\"]\n"
          + "request.allows_cellular_access = true"
      ).policy)
    #expect(!policy.defaultRequest.allowsCellularAccess && !policy.rules[0].request.allowsCellularAccess)
    #expect(policy.rules[1].request.allowsCellularAccess)
  }

  // MARK: Throttle

  @Test(
    arguments: [
      ("{ packet = '1KiB', delay = '1ms' }", 1024, 1), ("{ packet = '64MiB', delay = '1m' }", 64 << 20, 60_000),
      ("{ rate = '1GiB' }", 53_687_091, 50), ("{ rate = '64KiB' }", 3276, 50), ("{ rate = '20KiB' }", 1024, 50),
      ("{ rate = '20479B' }", 1024, 51), ("{ rate = '10KiB' }", 1024, 100), ("{ rate = '1KiB' }", 1024, 1000),
      ("{ rate = '1500B' }", 1024, 683),
    ] as [(String, Int, Int64)])
  func aRateIsAPacketAndADelay(text: String, packet: Int, delay: Int64) throws {
    let policy = try loaded("[defaults.request]\nthrottle = \(text)")
    #expect(
      policy.defaultRequest.throttle
        == Throttle(
          upload: Throttle.Upload(
            packetBytes: packet, delayMilliseconds: delay, keepsRate: text.contains("rate"))))
  }

  @Test(
    arguments: [
      ("{ download = '1MiB' }", nil, 1 << 20, []),
      ("{ download = '1KiB', when = ['wwan'] }", nil, 1 << 10, [.wwan]),
      ("{ packet = '1KiB', delay = '1s', download = '1GiB' }", 1000, 1 << 30, []),
      ("{ rate = '1KiB', download = '2KiB' }", 1000, 2 << 10, []),
    ] as [(String, Int64?, Int64, [ReachabilityStatus])])
  func aDownloadStandsAloneOrBesideAnUpload(
    text: String, delay: Int64?, download: Int64, links: [ReachabilityStatus]
  ) throws {
    let policy = try loaded("[defaults.request]\nthrottle = \(text)")
    let upload = delay.map {
      Throttle.Upload(packetBytes: 1024, delayMilliseconds: $0, keepsRate: text.contains("rate"))
    }
    #expect(
      policy.defaultRequest.throttle == Throttle(upload: upload, downloadBytesPerSecond: download, links: links))
  }

  @Test func theLinksAreKept() throws {
    let words = ReachabilityStatus.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    let policy = load("[defaults.request]\nthrottle = { rate = \"64KiB\", when = [\(words)] }").policy
    #expect(policy?.defaultRequest.throttle?.links == [.unknown, .notReachable, .wwan, .wifi, .wired])
  }

  // MARK: Rows

  static let rows: [LoadRow] = [
    LoadRow(
      "types",
      """
      [defaults.request]
      serializer = 1
      parameters_in_uri = "GET"
      transcode = "yes"
      on_conflict = false
      allows_cellular_access = "no"
      service_type = 1
      throttle = "64KiB"
      """,
      "2:14: error: 'serializer' in [defaults.request]: expected a string, found an integer",
      "3:21: error: 'parameters_in_uri' in [defaults.request]: expected an array of strings, found a string",
      "4:13: error: 'transcode' in [defaults.request]: expected true or false, found a string",
      "5:15: error: 'on_conflict' in [defaults.request]: expected a string, found a boolean",
      "6:26: error: 'allows_cellular_access' in [defaults.request]: expected true or false, found a string",
      "7:16: error: 'service_type' in [defaults.request]: expected a string, found an integer",
      "8:12: error: 'throttle' in [defaults.request]: expected a table, found a string"),
    LoadRow(
      "words that are none",
      "[defaults.request]\nserializer = \"jsno\"\non_conflict = \"ignore\"\nservice_type = \"voip\"\nserialiser = \"json\"",
      "2:14: error: 'serializer' in [defaults.request]: expected \"http\", \"json\" or \"plist\", found 'jsno'; "
        + "did you mean 'json'?",
      "3:15: error: 'on_conflict' in [defaults.request]: expected \"reject\" or \"pass\", found 'ignore'",
      "4:16: error: 'service_type' in [defaults.request]: expected \"default\", \"background\", \"video\", \"voice\" or "
        + "\"responsive\", found 'voip'; did you mean 'voice'?",
      "5:1: error: unknown key 'serialiser' in [defaults.request]; did you mean 'serializer'?"),
    LoadRow(
      "methods", "[defaults.request]\nparameters_in_uri = [\"get\", \"GET\", \"GET\", \"G T\", 1, \"CONNECT\"]",
      "2:22: warning: 'parameters_in_uri' in [defaults.request]: methods are case-sensitive; did you mean 'GET'?",
      "2:36: warning: 'parameters_in_uri' in [defaults.request]: 'GET' stands in the list twice",
      "2:43: error: 'parameters_in_uri' in [defaults.request]: expected a method (a token, RFC 9110, 9.1), found 'G T'",
      "2:50: error: 'parameters_in_uri' in [defaults.request]: expected a string, found an integer",
      "2:53: warning: 'parameters_in_uri' in [defaults.request]: nothing is added to a CONNECT, which asks for a tunnel"
    ),
    LoadRow(
      "a style that is none",
      """
      [defaults.request]
      query_style = "repeat"
      [[rule]]
      name = "a"
      [rule.request.query_style]
      arrays = "bracket"
      booleans = true
      space = " "
      array = "comma"
      """,
      "2:15: error: 'query_style' in [defaults.request]: expected a table, found a string",
      "6:10: error: 'arrays' in [rule.request.query_style]: expected \"brackets\", \"repeat\", \"indices\" or \"comma\", "
        + "found 'bracket'; did you mean 'brackets'?",
      "7:12: error: 'booleans' in [rule.request.query_style]: expected a string, found a boolean",
      "8:9: error: 'space' in [rule.request.query_style]: expected \"%20\" or \"+\", found ' '; did you mean '+'?",
      "9:1: error: unknown key 'array' in [rule.request.query_style]; did you mean 'arrays'?"),
    LoadRow(
      "encodings that are none",
      """
      [defaults.request]
      encoding = 1
      [[rule]]
      name = "a"
      request.encoding = "gbk//TRANSLIT"
      [[rule]]
      name = "b"
      hosts = ["b"]
      request.encoding = "klingon"
      [[rule]]
      name = "c"
      hosts = ["c"]
      request.encoding = "UTF-16"
      """,
      "2:12: error: 'encoding' in [defaults.request]: expected a string, found an integer",
      "5:20: error: 'encoding' in [rule.request]: expected the name of an encoding, such as \"gb18030\", found "
        + "'gbk//TRANSLIT'",
      "9:20: error: 'encoding' in [rule.request]: expected an encoding that iconv(3) knows, found 'klingon'; 'iconv -l' "
        + "lists those of this machine",
      "13:20: error: 'encoding' in [rule.request]: expected an encoding in which letters, digits and the separators of a "
        + "form are those of ASCII, found 'UTF-16'"),
    LoadRow(
      "half a throttle",
      """
      [defaults.request]
      throttle = {}
      [[rule]]
      name = "a"
      request.throttle = { packet = "1KiB" }
      [[rule]]
      name = "b"
      request.throttle = { delay = "1s" }
      [[rule]]
      name = "c"
      request.throttle = { rate = "1MiB", delay = "1s" }
      [[rule]]
      name = "d"
      request.throttle = { when = ["wifi"] }
      [[rule]]
      name = "e"
      request.throttle = { delay = "1s", download = "1MiB" }
      """,
      "2:12: error: 'throttle' in [defaults.request]: expected 'packet' and 'delay', 'rate', or 'download'",
      "5:20: error: 'throttle' in [rule.request]: 'delay' must be there, as 'packet' is",
      "8:20: error: 'throttle' in [rule.request]: 'packet' must be there, as 'delay' is",
      "11:29: error: 'rate' in [rule.request.throttle]: it stands in place of 'packet' and 'delay', not beside them",
      "14:20: error: 'throttle' in [rule.request]: expected 'packet' and 'delay', 'rate', or 'download'",
      "17:20: error: 'throttle' in [rule.request]: 'packet' must be there, as 'delay' is"),
    LoadRow(
      "a throttle out of range",
      """
      [defaults.request.throttle]
      packet = "1023B"
      delay = "61s"
      rate = "2GiB"
      download = "1023B"
      burst = 1
      """,
      "2:10: error: 'packet' in [defaults.request.throttle]: expected a size from 1KiB to 64MiB, found '1023B'",
      "3:9: error: 'delay' in [defaults.request.throttle]: expected a duration from 1ms to 1m, found '61s'",
      "4:8: error: 'rate' in [defaults.request.throttle]: expected a size from 1KiB to 1GiB, found '2GiB'",
      "5:12: error: 'download' in [defaults.request.throttle]: expected a size from 1KiB to 1GiB, found '1023B'",
      "6:1: error: unknown key 'burst' in [defaults.request.throttle]"),
    LoadRow(
      "links", "[defaults.request.throttle]\nrate = \"1KiB\"\nwhen = [\"wifi\", \"wlan\", \"wifi\", 4]",
      "3:17: error: 'when' in [defaults.request.throttle]: expected \"unknown\", \"not-reachable\", \"wwan\", \"wifi\" or "
        + "\"wired\", found 'wlan'; did you mean 'wwan'?",
      "3:25: warning: 'when' in [defaults.request.throttle]: 'wifi' stands in the list twice",
      "3:33: error: 'when' in [defaults.request.throttle]: expected a string, found an integer"),
    LoadRow(
      "no link", "[defaults.request.throttle]\nrate = \"1KiB\"\nwhen = []",
      "3:8: error: 'when' in [defaults.request.throttle]: an empty list matches nothing; leave the key out to match any"
    ),
    LoadRow("no cellular access", "[defaults.request]\nallows_cellular_access = false"),
    LoadRow(
      "every link",
      "[defaults.request.throttle]\nrate = \"1KiB\"\nwhen = [\"unknown\", \"not-reachable\", \"wwan\", \"wifi\", \"wired\"]",
      "3:8: warning: 'when' in [defaults.request.throttle]: every kind is listed, so this always holds"),
  ]

  @Test(arguments: rows) func everythingElseIsSaidWhereItStands(row: LoadRow) { row.check() }

  // MARK: Keys that do nothing

  private static let reencode =
    "it does nothing with serializer = \"http\", which writes forms as they are; \"json\" and \"plist\" re-encode them"
  private static let neither = "it has no effect: there are neither 'parameters' nor 'transcode = true'"

  static let idle: [LoadRow] = [
    LoadRow(
      "a form as a form", rule + "request.transcode = true",
      "3:21: warning: 'transcode' in [rule.request]: \(reencode)"),
    LoadRow(
      "a form as a form, in words", rule + "request.serializer = \"http\"\nrequest.transcode = true",
      "4:21: warning: 'transcode' in [rule.request]: \(reencode)"),
    LoadRow("a form as JSON", rule + "request.serializer = \"json\"\nrequest.transcode = true"),
    LoadRow(
      "a form as the JSON that is inherited",
      rule + "request.transcode = true\n[defaults.request]\nserializer = \"json\""),
    LoadRow(
      "a form as a form, and nobody inherits it", "[defaults.request]\ntranscode = true",
      "2:13: warning: 'transcode' in [defaults.request]: \(reencode)"),
    LoadRow(
      "a form as a form, and somebody inherits it as JSON",
      "[defaults.request]\ntranscode = true\n\(rule)request.serializer = \"json\""),
    LoadRow(
      "the serializer is what is wrong",
      "[defaults.request]\ntranscode = true\nserializer = \"xml\"",
      "3:14: error: 'serializer' in [defaults.request]: expected \"http\", \"json\" or \"plist\", found 'xml'"),
    LoadRow(
      "transcoding that a rule leaves",
      "[defaults.request]\nserializer = \"json\"\ntranscode = true\n"
        + rule + "request.serializer = \"http\""),
    LoadRow(
      "nothing to write",
      rule + "request.serializer = \"json\"\nrequest.on_conflict = \"pass\"\nrequest.parameters_in_uri = []",
      "3:22: warning: 'serializer' in [rule.request]: \(neither)",
      "4:23: warning: 'on_conflict' in [rule.request]: \(neither)",
      "5:29: warning: 'parameters_in_uri' in [rule.request]: it has no effect: there are no 'parameters'"),
    LoadRow(
      "a style of nothing", rule + "request.query_style = { arrays = \"repeat\" }",
      "3:23: warning: 'query_style' in [rule.request]: \(neither)"),
    LoadRow(
      "a style of forms that are read",
      rule + "request.query_style = { arrays = \"repeat\" }\nrequest.serializer = \"json\"\nrequest.transcode = true"),
    LoadRow(
      "an encoding of nothing", rule + "request.encoding = \"gbk\"",
      "3:20: warning: 'encoding' in [rule.request]: \(neither)"),
    LoadRow("the form that is written anyway", rule + "request.serializer = \"http\""),
    LoadRow("a default that rules may use", "[defaults.request]\nserializer = \"json\"\non_conflict = \"pass\""),
    LoadRow("tunnels that the rule opens", rule + "schemes = [\"https\"]\nconnect = \"intercept\"\n[rule.response]"),
    LoadRow(
      "tunnels that another rule opens",
      rule + "schemes = [\"https\"]\npaths = [\"/x\"]\n[rule.response]\n"
        + "[[rule]]\nname = \"b\"\nhosts = [\"b\"]\nconnect = \"intercept\""),
    LoadRow("tunnels that are denied", rule + "schemes = [\"https\"]\nconnect = \"deny\"\n[rule.response]"),
    LoadRow("http as well", rule + "schemes = [\"https\", \"http\"]\n[rule.response]"),
    LoadRow(
      "a rule that denies",
      rule + "action = \"deny\"\n[rule.request]\ntranscode = true",
      "4:7: warning: [rule.request] has no effect in a rule that denies every request"),
  ]

  @Test(arguments: idle) func idleRows(row: LoadRow) { row.check() }

  @Test func commasHaveNoWayToWriteContainers() {
    func text(_ name: String) -> String {
      "arrays = \"comma\" has no way to write a table or an array in an array, which the parameter '\(name)' holds"
    }
    let style = "query_style = { arrays = \"comma\" }\n"
    for value in ["[[1]]", "[1, { b = 2 }]", "{ b = { c = [[]] } }"] {
      #expect(
        said("[defaults.request]\nparameters = { a = \(value), c = 1 }\n" + style) == [
          "3:15: error: 'query_style' in [defaults.request]: \(text("a"))"
        ])
      #expect(
        said("[defaults.request]\n" + style + Self.rule + "request.parameters = { a = \(value) }") == [
          "5:22: error: 'parameters' in [rule.request]: \(text("a"))"
        ])
    }
    #expect(said("[defaults.request]\nparameters = { a = [1, 2], b = { c = [3] } }\n" + style) == [])
  }
}
