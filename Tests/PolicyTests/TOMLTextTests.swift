// TOML that is printed reads back as what it was.

import Testing

@testable import Policy

@Suite struct TOMLTextTests {
  @Test(arguments: ["", "a", "a \"b\" \\ c", "tab\tline\nend\r", "\u{1}\u{7f}\u{85}\u{202e}", "grüße 𝄞", "#'='"])
  func aStringReadsBack(_ text: String) throws {
    let root = try TOMLDocument.parse(Array("\(text.asTOMLKey) = \(text.inTOML)".utf8)).get()
    guard case .table(let entries) = root.content else { return #expect(Bool(false)) }
    #expect(entries.map(\.key) == [text] && entries.map(\.value.content) == [.string(text)])
  }

  @Test func aKeyIsBareWhereItCanBe() {
    #expect("X-Client_7".asTOMLKey == "X-Client_7" && "a.b".asTOMLKey == "\"a.b\"" && "".asTOMLKey == "\"\"")
  }
}
