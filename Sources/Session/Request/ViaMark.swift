// How a proxy recognizes its own Via element: all installations share the pseudonym, and most of them the address that
// they listen on. Tests: WorkspaceTests, RequestFieldsTests.

import Bytes

/// A word that identifies one process: the comment in its Via elements (RFC 9110, 7.6.3).
public struct ViaMark: Hashable, Sendable {
  /// Forty bits: two proxies of one chain do not share them by chance.
  public static let digits = 8

  /// Digits of Crockford's base 32.
  let text: [UInt8]

  /// `random`: one number for the whole process, because a request may come back to another of its loops.
  public init(random: UInt64) {
    let alphabet = Array(Reference.alphabet.utf8)
    text = (0..<Self.digits).reversed().map { alphabet[Int(random >> UInt64(5 * $0) & 31)] }
  }
}
