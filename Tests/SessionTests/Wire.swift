// Bytes on the wire as an argument of a test, so that a report of it holds no control characters.

import TestSupport
import Testing

struct Wire: Sendable, CustomTestStringConvertible, ExpressibleByStringLiteral {
  let text: String

  init(_ text: String) { self.text = text }
  init(stringLiteral text: String) { self.text = text }

  var testDescription: String { shown(octets(text), atMost: 120) }
}

/// The text whose `octets` are `bytes`.
func characters(_ bytes: [UInt8]) -> String {
  var text = ""
  for byte in bytes { text.unicodeScalars.append(Unicode.Scalar(byte)) }
  return text
}
