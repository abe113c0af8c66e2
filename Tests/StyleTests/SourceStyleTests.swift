// The style of the sources, so that people need not keep it: what the formatter does not look at.

import Glibc
import Testing
import Transport

@Suite struct SourceStyleTests {
  private struct Source: Sendable {
    let path: String
    let text: String
    let lines: [[UInt8]]

    /// The lines that hold one of these. A file is searched as a whole first: that is the library's work, and quick.
    func places(of words: [String]) -> [String] {
      let found = words.filter { word in text.withCString { strstr($0, word) != nil } }
      return found.isEmpty ? [] : places { line in found.contains { SourceStyleTests.holds(line, $0) } }
    }

    /// Path and number of the lines that `holds` says yes to.
    func places(_ holds: ([UInt8]) -> Bool) -> [String] {
      lines.indices.filter { holds(lines[$0]) }.map { "\(path):\($0 + 1)" }
    }
  }

  /// The top of the repository, two directories above this file.
  private static let root =
    #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")

  private static func sources(_ pattern: String) -> [Source] {
    guard case .success(let paths) = Files.expand("\(root)/\(pattern)") else { return [] }
    return paths.map { path in
      let bytes = (try? Files.read(path, limit: 1 << 20).get()) ?? []
      return Source(
        path: String(path.dropFirst(root.count + 1)), text: String(decoding: bytes, as: UTF8.self),
        lines: bytes.split(separator: 0x0a, omittingEmptySubsequences: false).map { Array($0) })
    }
  }

  private static let swift =
    sources("Sources/*/*.swift") + sources("Sources/*/*/*.swift") + sources("Sources/*/*/*/*.swift")
  private static let tests = sources("Tests/*Tests/*.swift") + sources("Tests/TestSupport/*.swift")
  private static let scripts = sources("Tests/*/*.py")
  private static let documents =
    sources("*.md") + sources("systemd/man/*") + sources("config/*.toml") + sources("config/policy.d/*.toml")
  private static let c = sources("Sources/*/*.c*") + sources("Sources/*/include/*.h")

  fileprivate static func holds(_ line: [UInt8], _ text: String) -> Bool {
    let wanted = Array(text.utf8)
    guard line.count >= wanted.count else { return false }
    for begin in 0...line.count - wanted.count where line[begin] == wanted[0] {
      if line[begin..<begin + wanted.count].elementsEqual(wanted) { return true }
    }
    return false
  }

  /// The module that a line imports.
  private static func imported(_ line: [UInt8]) -> String? {
    let words = line.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
    guard let place = words.firstIndex(of: "import"), place <= 1, words.count >= place + 2 else { return nil }
    return words[place + 1].hasPrefix("//") ? nil : words.last
  }

  @Test func theSourcesAreWhereTheyWere() {
    #expect(Self.swift.count > 300)
    #expect(Self.tests.count > 20)
    #expect(Self.c.count >= 3)
  }

  @Test func theProgramGoesWithoutFoundation() {
    let names: Set<String> = ["Foundation", "FoundationEssentials", "Dispatch"]
    for source in Self.swift {
      let places = source.places { Self.imported($0).map(names.contains) ?? false }
      #expect(places.isEmpty)
    }
  }

  /// Two branches that each take the next bit merge without a word.
  @Test func noBitOfASetMeansTwoThings() {
    for source in Self.swift {
      var taken: [String: Int] = [:]
      // static let NAME = TYPE(rawValue: 1 << BIT)
      for (index, line) in source.lines.enumerated() where Self.holds(line, "(rawValue: 1 << ") {
        guard let equals = line.firstIndex(of: 0x3d) else { continue }
        let before = taken.updateValue(index + 1, forKey: String(decoding: line[equals...], as: UTF8.self))
        #expect(before == nil, "\(source.path):\(index + 1): the bit of line \(before ?? 0) again")
      }
    }
  }

  /// Whoever follows `Tests: XTests, test_y.py.` in the head of a file finds them.
  @Test func theTestsThatAFileNamesAreThere() {
    var known: Set<String> = []
    for source in Self.tests {
      if let name = source.path.split(separator: "/").last { known.insert(String(name.dropLast(".swift".count))) }
      for line in source.lines where Self.holds(line, "Tests") && Self.holds(line, "struct ") {
        let words = line.split { !($0 >= 0x41 && $0 <= 0x5a || $0 >= 0x61 && $0 <= 0x7a || $0 >= 0x30 && $0 <= 0x39) }
        known.formUnion(words.map { String(decoding: $0, as: UTF8.self) })
      }
    }
    for script in Self.scripts { if let name = script.path.split(separator: "/").last { known.insert(String(name)) } }
    for source in Self.swift {
      for line in source.lines where line.starts(with: Array("//".utf8)) && Self.holds(line, "Tests: ") {
        let text = String(decoding: line, as: UTF8.self)
        let names = text.split(separator: "Tests: ").last.map { $0.split { " ,;".contains($0) } } ?? []
        for name in names.map({ $0.hasSuffix(".") ? $0.dropLast() : $0 })
        where name.hasSuffix("Tests") || name.hasSuffix(".py") {
          let file = name.split(separator: "/").last.map(String.init) ?? ""
          let isThere = known.contains(file) || file.contains("*")
          #expect(isThere, "\(source.path) names \(name)")
        }
      }
    }
  }

  /// Data that others made may stand beside the repository, and only tests read it.
  @Test func nothingRefersToDocumentsThatAreNotHere() {
    let names = ["policy-file", "policy-next", "architecture", "words", "style", "swift", "http2", "afnetworking"].map {
      "\($0).md"
    }
    for source in Self.swift + Self.tests + Self.c {
      let places = source.places(of: names)
      #expect(places.isEmpty, "write what it says, or name the manual page")
    }
  }

  /// The formatter does not wrap comments.
  @Test func commentsAreWithin120Columns() {
    for source in Self.swift {
      let places = source.places { line in
        if line.count <= 120 { return false }
        let text = String(decoding: line, as: UTF8.self)
        return text.count > 120 && text.drop { $0 == " " }.hasPrefix("//")
      }
      #expect(places.isEmpty)
    }
  }

  /// Words that read as translated: in comments, in messages, and in what operators read.
  @Test func theWordsArePlain() {
    let words = [" anew", "let pass ", "let pass,", "omebody", "so that nobody"]
    for source in Self.swift + Self.documents {
      let places = source.places(of: words)
      #expect(places.isEmpty, "\(words)")
    }
  }

  @Test func noFileIsLongerThan600Lines() {
    // The last line ends with a line feed, behind which nothing is.
    let long = Self.swift.filter { $0.lines.count - 1 > 600 }.map(\.path)
    #expect(long.isEmpty, "a file is one type or one idea")
  }

  @Test func everyFileOpensWithWhatItIsFor() {
    for source in Self.swift + Self.tests + Self.c {
      let opening = source.lines.first ?? []
      let isComment =
        Self.holds(Array(opening.prefix(3)), "// ") || Self.holds(Array(opening.prefix(2)), "/*")
      #expect(isComment, "\(source.path)")
    }
  }

  @Test func nothingIsLeftToDo() {
    let marks = ["TO" + "DO", "FIX" + "ME", "XX" + "X:"]
    for source in Self.swift + Self.tests + Self.c {
      let places = source.places(of: marks)
      #expect(places.isEmpty, "do it, or write an issue")
    }
  }

  /// What decides has no way to do anything: no socket, no memory but its own.
  @Test func protocolCodeHasNoWayOut() {
    let ways = ["import Glibc", "import CLinux", "@unsafe", "@unchecked", "nonisolated(unsafe)"]
    for source in Self.swift
    where ["Session", "HTTP1", "TLSWire", "Images", "Upstream", "Sharing", "History", "Asking"].contains(where: {
      source.path.hasPrefix("Sources/\($0)/")
    }) {
      let places = source.places(of: ways)
      #expect(places.isEmpty)
    }
  }

  /// Imports point downwards only.
  @Test func modulesKnowOnlyWhatIsBelowThem() {
    let below: [String: Set<String>] = [
      "Bytes": ["Glibc", "Synchronization"],
      "Dashboard": [],
      "Images": ["Bytes", "CZlib"],
      "Serialization": ["Bytes", "Images", "CIconv", "CJSON", "CCodings", "CXML", "CZlib"], "HTTP1": ["Bytes"],
      "Security": ["Bytes", "CGSSAPI", "COpenSSL", "Glibc"],
      "Reachability": ["Bytes"], "Sharing": ["Bytes"], "Asking": ["Bytes", "Policy", "Sharing"], "TLSWire": ["Bytes"],
      "Upstream": ["Sharing"],
      "HTTP2": ["Bytes", "CNGHTTP2", "HTTP1"], "Cache": ["Bytes", "HTTP1", "Policy", "Sharing"],
      "Policy": ["Bytes", "CTOML", "CIDN2", "HTTP1", "Reachability", "Security", "Serialization"],
      "History": ["Bytes", "Policy", "Reachability"],
      "Session": ["Bytes", "HTTP1", "Policy", "Reachability", "Security", "Serialization", "TLSWire"],
      "Transport": [
        "Bytes", "Sharing", "CLinux", "CCAres", "COpenSSL", "CSQLite", "CSystemd", "Glibc", "Synchronization",
      ],
      "Server": [
        "Asking", "Bytes", "Cache", "Dashboard", "History", "HTTP1", "HTTP2", "Policy", "Reachability", "Security",
        "Session",
        "Sharing",
        "TLSWire",
        "Transport",
        "Upstream",
        "Synchronization", "CLinux",
      ],
      "Console": ["Bytes", "Policy"],
      "sallyport": [
        "Bytes", "CNcurses", "Console", "History", "HTTP1", "Policy", "Reachability", "Security", "Server", "Transport",
      ],
    ]
    for source in Self.swift {
      let module = source.path.split(separator: "/").dropFirst().first.map(String.init) ?? ""
      guard let allowed = below[module] else { continue }
      let places = source.places { line in Self.imported(line).map { !allowed.contains($0) } ?? false }
      #expect(places.isEmpty, "\(module) knows \(allowed.sorted())")
    }
  }

  /// Where HTTP/2 may be told from other protocols: where it is described, begun, counted and implemented. Everything
  /// else asks `HTTPProtocol` what is true of a protocol, so that another one needs no change there.
  private static let namesHTTP2 = [
    "Sources/Bytes/HTTPProtocol.swift", "Sources/Server/Multiplexing/MultiplexedConnection.swift",
    "Sources/Server/HTTP2/HTTP2Endpoint.swift", "Sources/Server/Loop/Statistics.swift",
    // The published key 'http2', and a message about gRPC, which is defined over HTTP/2.
    "Sources/Server/Admin/AdminResources.swift", "Sources/Session/Exchange/PeerNames.swift",
  ]

  @Test func protocolsAreComparedInOnePlace() {
    for source in Self.swift where !Self.namesHTTP2.contains(source.path) && !source.places(of: [".http2"]).isEmpty {
      let places = source.places { line in
        let parts = String(decoding: line, as: UTF8.self).split(separator: ".", omittingEmptySubsequences: false)
        return parts.dropFirst().contains { part in
          part.hasPrefix("http2") && !(part.dropFirst(5).first.map { $0.isLetter || $0.isNumber } ?? false)
        }
      }
      #expect(places.isEmpty)
    }
  }

  /// More arguments without a name than these, and a reader of the call cannot tell them apart.
  private static let mostUnlabelled = 2
  /// Called by OpenSSL, with what a C function gets.
  private static let calledFromC = "func selectHTTP("

  @Test func parametersHaveLabels() {
    var declarations = 0
    for source in Self.swift {
      let places = source.lines.indices.filter { number in
        let line = source.lines[number]
        guard let begin = Self.parameters(in: line), !Self.holds(line, Self.calledFromC) else { return false }
        declarations += 1
        return Self.unlabelled(source.lines[number...], from: begin) > Self.mostUnlabelled
      }
      #expect(places.isEmpty, "\(places.map { "\(source.path):\($0 + 1)" })")
    }
    #expect(declarations > 4000)
  }

  /// The column behind the bracket that opens the parameters of what a line declares; nil: it declares nothing with any.
  private static func parameters(in line: [UInt8]) -> Int? {
    let declares = ["func ", "init(", "init?(", "init<", "subscript("]
    guard declares.contains(where: { holds(line, $0) }) else { return nil }
    // Attributes before it may have brackets of their own.
    let text = String(decoding: line, as: UTF8.self)
    guard let word = declares.compactMap({ text.firstRange(of: $0) }).min(by: { $0.lowerBound < $1.lowerBound }),
      let bracket = text[word.lowerBound...].firstIndex(of: "(")
    else { return nil }
    return text.utf8.distance(from: text.startIndex, to: bracket) + 1
  }

  /// How many of the parameters that begin at a column of the first line begin with `_ `.
  private static func unlabelled(_ lines: ArraySlice<[UInt8]>, from column: Int) -> Int {
    var (depth, count, isFirst, column) = (1, 0, true, column)
    for line in lines {
      for at in line.indices.dropFirst(column) {
        switch line[at] {
        case 0x28, 0x5b: depth += 1
        case 0x29, 0x5d: depth -= 1
        case 0x2c where depth == 1: isFirst = true
        case 0x20: break
        default:
          if isFirst, depth == 1, line[at...].starts(with: [0x5f, 0x20]) { count += 1 }
          isFirst = false
        }
        if depth == 0 { return count }
      }
      column = 0
    }
    return count
  }

  /// How far a function may be from the line that CONTRIBUTING.md gives: a reader sees it on the same screen.
  private static let nearLines = 30

  /// Each station of the way of a request: `name` (`path:line`).
  @Test func stationsAreWhereContributingSays() throws {
    let document = try #require(Self.documents.first { $0.path == "CONTRIBUTING.md" })
    var stations = 0
    for line in document.text.split(separator: "\n") {
      let parts = line.split(separator: "`")
      guard parts.count >= 4, parts[2] == " (", let colon = parts[3].lastIndex(of: ":"),
        let number = Int(parts[3][parts[3].index(after: colon)...])
      else { continue }
      stations += 1
      let path = "Sources/\(parts[3][..<colon])"
      let source = try #require(Self.swift.first { $0.path == path }, "\(path) is no file")
      let near = source.lines.indices.filter { abs($0 + 1 - number) <= Self.nearLines }
      #expect(
        near.contains { Self.holds(source.lines[$0], "func \(parts[1])(") },
        "\(parts[1]) is not near line \(number) of \(path)")
    }
    #expect(stations == 24)
  }

  /// A type that is spread over more files has become several.
  private static let mostFiles = 4

  @Test func typesAreInFewFiles() {
    var files: [String: Set<String>] = [:]
    for source in Self.swift {
      let module = source.path.split(separator: "/")[1]
      for line in source.lines where line.first.map({ $0 != 0x20 && $0 != 0x2f }) ?? false {
        let words = String(decoding: line, as: UTF8.self).split { " <:{(".contains($0) }
        guard let place = words.firstIndex(where: { ["extension", "class", "struct", "enum"].contains($0) }),
          place + 1 < words.count
        else { continue }
        files["\(module).\(words[place + 1])", default: []].insert(source.path)
      }
    }
    let spread = files.filter { $0.value.count > Self.mostFiles && !Self.isOfOthers($0.key) }
    #expect(spread.isEmpty, "\(spread.map { "\($0.key): \($0.value.count)" }.sorted())")
  }

  /// Whether it is a type of the standard library, of C or of Bytes, to which a file adds what only it needs.
  private static func isOfOthers(_ name: String) -> Bool {
    let type = name.split(separator: ".").last ?? ""
    return ["Span", "UInt8", "String", "Array", "Optional", "ByteBuffer", "Dictionary", "Substring"].contains(type)
  }
}
