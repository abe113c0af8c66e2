// Rows that Swift and Python both read: files below Tests, with one escaped value a line.

import Bytes

#if canImport(Glibc)
  import Glibc
#endif

/// The lines of a file below Tests but for comments and empty ones; none where it is not there.
public func sharedLines(_ path: String) -> [String] {
  let tests = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(2).joined(separator: "/")
  guard let file = fopen("\(tests)/\(path)", "r") else { return [] }
  defer { fclose(file) }
  var all: [UInt8] = []
  while case let byte = fgetc(file), byte >= 0 { all.append(UInt8(byte)) }
  return all.split(separator: 0x0a).map { String(decoding: $0, as: UTF8.self) }.filter { !$0.hasPrefix("#") }
}

/// The bytes that stand in a line with the escapes `\r`, `\n`, `\t`, `\xHH` and `\\`.
public func unescaped(_ text: String) -> [UInt8] {
  var rest = Array(text.utf8)[...]
  var bytes: [UInt8] = []
  while let byte = rest.popFirst() {
    guard byte == UInt8(ascii: "\\"), let word = rest.popFirst() else {
      bytes.append(byte)
      continue
    }
    switch word {
    case UInt8(ascii: "r"): bytes.append(0x0d)
    case UInt8(ascii: "n"): bytes.append(0x0a)
    case UInt8(ascii: "t"): bytes.append(0x09)
    case UInt8(ascii: "x"):
      let digits = rest.prefix(2).compactMap(\.hexadecimalValue)
      bytes.append(digits.reduce(0) { $0 << 4 | $1 })
      rest = rest.dropFirst(2)
    default: bytes.append(word)
    }
  }
  return bytes
}

/// A row of Tests/Rows: the word for a fault, a sentence, and a form with its text. The first file explains the forms.
public struct SharedRow: Sendable {
  public let fault: String
  public let sentence: String
  public let form: String
  public let text: [UInt8]

  public static func all(_ file: String) -> [SharedRow] {
    sharedLines("Rows/\(file)").map { line in
      let parts = line.split(separator: "|", maxSplits: 2).map(String.init)
      guard parts.count == 3 else { fatalError("no row: \(line)") }
      let value = parts[2].dropFirst()
      let form = value.prefix { $0 != " " }
      return SharedRow(
        fault: String(parts[0].dropLast()), sentence: String(parts[1].dropFirst().dropLast()), form: String(form),
        text: unescaped(String(value.dropFirst(form.count + 1))))
    }
  }

  /// Field lines with the end of their section. `body` follows unless the row has one.
  public func section(_ body: String) -> [UInt8] {
    let end = octets("\r\n\r\n")
    return text.indices.contains { text[$0...].starts(with: end) } ? text : text + end + octets(body)
  }
}
