// How the reasons of faults show bytes of a body: only a few, and only characters that any terminal can show.
// Tests: XMLCheckTests.

import Bytes

enum FaultWords {
  /// The most characters of a name or an address that a reason quotes.
  private static let longestQuotation = 32

  /// As much of `text` as a message may show: printable ASCII, shortened.
  static func quoted(_ text: Span<UInt8>) -> String {
    var quoted = ""
    for index in 0..<min(text.count, longestQuotation) {
      let byte = text[index]
      quoted.unicodeScalars.append((0x20..<0x7f).contains(byte) ? Unicode.Scalar(byte) : "?")
    }
    return text.count > longestQuotation ? quoted + "..." : quoted
  }

  /// A byte of the body, or that there is none.
  static func found(_ body: Span<UInt8>, at offset: Int) -> String {
    guard offset < body.count else { return "the end" }
    let byte = body[offset]
    if (0x21..<0x7f).contains(byte) { return "'\(Unicode.Scalar(byte))'" }
    return "the byte 0x\(byte.hexadecimal)"
  }
}
