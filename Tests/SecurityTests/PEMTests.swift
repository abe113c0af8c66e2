// PEM texts: blocks between other text, and every way in which a block can be broken, none of which is passed over.

import Testing

@testable import Security

@Suite struct PEMTests {
  private static let one = "-----BEGIN A-----\nZm9v\n-----END A-----\n"
  private static let foo = PEM.Block(label: "A", isEncrypted: false, der: Array("foo".utf8))

  private func blocks(_ text: String) -> Result<[PEM.Block], CertificateFault> { PEM.blocks(Array(text.utf8)) }

  private static let texts: [(String, Int, String)] = [
    (one, 1, "one"),
    (one + one, 2, "two"),
    ("subject=CN=a\n\n" + one + "\nand more\n" + one, 2, "text around them"),
    ("-----BEGIN A-----\r\nZm9v\r\n-----END A-----\r\n", 1, "CR LF"),
    ("-----BEGIN A-----\nZm\n9v\n-----END A-----", 1, "no line feed at the end"),
    ("  -----BEGIN A-----  \n Zm9v \n\t-----END A-----\n", 1, "blanks around the lines"),
    ("\u{feff}" + one, 1, "a byte order mark"),
    ("-----BEGIN A-----\nX-Comment: here\n\nZm9v\n-----END A-----\n", 1, "a header"),
    ("", 0, "nothing"),
    ("no block\n----- here -----\n", 0, "text alone"),
  ]

  @Test(arguments: texts)
  func blocksAreFound(text: String, count: Int, what: String) {
    #expect(blocks(text) == .success([PEM.Block](repeating: Self.foo, count: count)), "\(what)")
  }

  @Test(arguments: [
    ("-----BEGIN A-----\nZm9v\n", "line 1: the A that begins here is cut off: it has no END line"),
    ("\n" + "-----BEGIN A-----\nZm9v\n" + one, "line 2: the A that begins here is cut off: it has no END line"),
    ("-----BEGIN A-----\nZm9v\n-----END B-----\n", "line 1: the A that begins here is cut off: it has no END line"),
    ("-----BEGIN A-----\nZm9v\n-----END A\n", "line 1: the A that begins here is cut off: it has no END line"),
    ("-----BEGIN A-----\nZm9\n-----END A-----\n", "line 1: the A that begins here is no base64"),
    ("-----BEGIN A-----\nZ?9v\n-----END A-----\n", "line 1: the A that begins here is no base64"),
    ("-----BEGIN A-----\n-----END A-----\n", "line 1: the A that begins here is no base64"),
    ("x " + one, "line 1: expected text or a line like '-----BEGIN CERTIFICATE-----'"),
    ("x-----BEGIN \n" + one, "line 1: expected text or a line like '-----BEGIN CERTIFICATE-----'"),
    ("-----BEGIN \n" + one, "line 1: expected text or a line like '-----BEGIN CERTIFICATE-----'"),
    ("-----BEGIN-----\n" + one, "line 1: expected text or a line like '-----BEGIN CERTIFICATE-----'"),
    ("-----BEGIN A----\nZm9v\n", "line 1: expected text or a line like '-----BEGIN CERTIFICATE-----'"),
    (one + "-----END A-----\n", "line 4: expected text or a line like '-----BEGIN CERTIFICATE-----'"),
  ])
  func brokenBlocksAreFaults(text: String, fault: String) {
    #expect(blocks(text) == .failure(CertificateFault(fault)))
  }

  @Test func anEncryptedKeyIsTold() throws {
    let text = "-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nZm9v\n-----END A-----\n"
    #expect(try blocks(text).get().map(\.isEncrypted) == [true])
  }

  @Test func aLabelIsPrintable() throws {
    #expect(try blocks("-----BEGIN \u{1}-----\nZm9v\n-----END \u{1}-----\n").get().map(\.label) == ["\\x01"])
  }
}
