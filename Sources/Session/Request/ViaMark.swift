// By what a proxy knows its own element of Via again: the pseudonym is shared by every installation, and so is the
// address that most of them listen on. Tests: WorkspaceTests, RequestFieldsTests.

import Bytes

/// A word that stands for one process: the comment in its Via elements (RFC 9110, 7.6.3).
public struct ViaMark: Hashable, Sendable {
  /// Forty bits: two proxies of one chain do not share them by chance.
  public static let digits = 8

  /// Digits of Crockford's base 32.
  let text: [UInt8]

  /// `random`: one number for the whole process, for a request may come back to another of its loops.
  public init(random: UInt64) {
    let alphabet = Array(Reference.alphabet.utf8)
    text = (0..<Self.digits).reversed().map { alphabet[Int(random >> UInt64(5 * $0) & 31)] }
  }
}
