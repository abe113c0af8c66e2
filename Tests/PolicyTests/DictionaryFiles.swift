// A world of files for the loader: a dictionary. And the form in which the suites state what a load is to say.

import Serialization
import Testing

@testable import Policy

struct DictionaryFiles: PolicyFiles {
  var files: [String: [UInt8]] = [:]
  /// Files that are there and cannot be read.
  var unreadable: [String: String] = [:]
  var exposed: Set<String> = []
  var variables: [String: String] = [:]
  var users: [String: UInt32] = ["root": 0, "toor": 0, "kiosk": 1001, "till": 1002]
  /// Users whom the name service cannot tell of.
  var lostUsers: [String: String] = [:]
  var credentialsDirectory: String? = nil
  var now = TestCertificates.now

  init(_ texts: [String: String] = [:]) { files = texts.mapValues { Array($0.utf8) } }

  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
    if let fault = unreadable[path] { return .failure(FileFault(fault, isDenied: true)) }
    guard let bytes = files[path] else { return .failure(FileFault("No such file or directory")) }
    return bytes.count <= limit
      ? .success(bytes) : .failure(FileFault("the file has more than \(limit) bytes"))
  }

  /// `directory/prefix*suffix` is all that the suites ask for. The order is not lexical, on purpose.
  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> {
    let whole = ConfigurationPath.join(directory, pattern)
    guard let star = whole.firstIndex(of: "*") else { return .failure(FileFault("no pattern")) }
    let prefix = whole[..<star]
    let suffix = whole[star...].dropFirst()
    let names = Set(files.keys).union(unreadable.keys)
    let matches = names.filter {
      $0.hasPrefix(prefix) && $0.hasSuffix(suffix) && !$0.dropFirst(prefix.count).contains("/")
    }
    return .success(matches.sorted(by: >))
  }

  /// A directory is what has a file in it.
  func isDirectory(_ path: String) -> Bool {
    let prefix = path.hasSuffix("/") ? path : path + "/"
    return files.keys.contains { $0.hasPrefix(prefix) }
  }

  func isReadableByOthers(_ path: String) -> Bool { exposed.contains(path) }
  func environment(_ name: String) -> [UInt8]? { variables[name].map { Array($0.utf8) } }

  func userID(named name: String) -> Result<UInt32?, FileFault> {
    lostUsers[name].map { .failure(FileFault($0)) } ?? .success(users[name])
  }
}

/// One source with all that loading it is to say.
struct LoadRow: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let source: String
  /// `line:column: severity: message` each; the line of the source and the caret are checked too.
  let expected: [String]

  init(_ sentence: String, _ source: String, _ expected: String...) {
    testDescription = sentence
    self.source = source
    self.expected = expected
  }

  /// Loads the source as the only file and compares every character of what is said.
  func check(
    _ files: DictionaryFiles = DictionaryFiles(), sourceLocation: Testing.SourceLocation = #_sourceLocation
  ) {
    var files = files
    files.files["s.toml"] = Array(source.utf8)
    let result = PolicyLoader.load(path: "s.toml", files: files)
    #expect(
      result.diagnostics.filter { !$0.isAboutTunnels }.map(\.description) == expected.map(rendered),
      "\(testDescription)",
      sourceLocation: sourceLocation)
    let isGood = !expected.contains { $0.contains(": error: ") }
    #expect((result.policy != nil) == isGood, "\(testDescription)", sourceLocation: sourceLocation)
  }

  /// The form of a diagnostic, put together here by other means than in the loader.
  private func rendered(_ sentence: String) -> String {
    let parts = sentence.split(separator: ":", maxSplits: 2)
    guard let line = Int(parts[0]), let column = Int(parts[1]) else { return sentence }
    let text = source.split(separator: "\n", omittingEmptySubsequences: false)[line - 1]
    let number = String(repeating: " ", count: 5 - "\(line)".count) + "\(line)"
    let indentation = String(repeating: " ", count: column - 1)
    return "s.toml:\(sentence)\n\(number) | \(text)\n      | \(indentation)^"
  }
}

/// Loads a text that must be free of errors.
func loaded(
  _ text: String, _ files: DictionaryFiles = DictionaryFiles()
) throws -> Policy {
  var files = files
  files.files["s.toml"] = Array(text.utf8)
  let result = PolicyLoader.load(path: "s.toml", files: files)
  #expect(result.diagnostics.filter { !$0.isAboutTunnels }.map(\.description) == [])
  return try #require(result.policy)
}

/// The request policy as lines: `remove cookie`, `set X: y`, `default X: y`.
func lines(_ fields: FieldEdits) -> [String] {
  func text(_ line: FieldEdits.Line) -> String { String(decoding: line.line.dropLast(2), as: UTF8.self) }
  let written = Set(fields.set.map(\.name))
  return fields.removed.filter { !written.contains($0) }.map {
    "remove \(String(decoding: $0, as: UTF8.self))"
  }
    + fields.set.map { "set \(text($0))" } + fields.defaults.map { "default \(text($0))" }
}

extension ParameterEntry {
  init(_ key: String, _ value: ParameterValue) { self.init(key: Array(key.utf8), value: value) }
}

extension ParameterValue {
  static func text(_ text: String) -> ParameterValue { .string(Array(text.utf8)) }
}

func canonical(_ text: String) -> CanonicalHost {
  var host = CanonicalHost()
  if let fault = host.set(Array(text.utf8).span) { Issue.record("\(text): \(fault)") }
  return host
}

extension Diagnostic {
  /// What check says of nearly every rule that says something of requests, unless tunnels are opened for it. It is the subject
  /// of TunnelChecksTests, and of no other suite.
  var isAboutTunnels: Bool {
    ["no effect on https", "allows no https", "leaves in the clear"].contains { message.contains($0) }
  }
}
