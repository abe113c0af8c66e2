// `protocols`: how it is read and explained.

import Bytes
import Testing

@testable import Policy

@Suite struct ProtocolsTests {
  @Test(arguments: [
    ("", [HTTPProtocol.http2, .http11]), ("protocols = [\"http/1.1\", \"h2\"]", [.http11, .http2]),
    ("protocols = [\"h2\"]", [.http2]), ("protocols = [\"http/1.1\"]", [.http11]),
  ])
  func areRead(_ line: String, _ protocols: [HTTPProtocol]) throws {
    #expect(try loaded("[[rule]]\nname = \"a\"\n\(line)").rules[0].protocols == protocols)
  }

  @Test(arguments: [
    (
      "protocols = []",
      "3:13: error: 'protocols' in [rule]: expected at least one, \"h2\" or \"http/1.1\", found an empty array"
    ),
    ("protocols = [\"h3\"]", "3:14: error: 'protocols' in [rule]: expected \"h2\" or \"http/1.1\", found 'h3'"),
    ("protocols = \"h2\"", "3:13: error: 'protocols' in [rule]: expected an array"),
    ("protocols = [\"h2\", \"h2\"]", "3:20: warning: "),
    (
      "action = \"deny\"\nprotocols = [\"h2\"]",
      "4:13: warning: 'protocols' in [rule]: it has no effect in a rule that denies"
    ),
  ])
  func whatIsWrongIsSaid(_ line: String, _ message: String) {
    var files = DictionaryFiles()
    files.files["s.toml"] = Array("[[rule]]\nname = \"a\"\n\(line)".utf8)
    let messages = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description)
    #expect(messages.contains { $0.contains(message) }, "\(messages)")
  }
}
