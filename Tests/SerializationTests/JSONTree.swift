// JSON texts as trees, so that what is made of a text can be compared with what should be. Scalars stay as they are
// written.

import TestSupport

/// A value of a text that is known to be valid.
indirect enum JSONTree: Equatable, Sendable {
  case scalar(String)
  case array([JSONTree])
  case object([Member])

  struct Member: Equatable, Sendable {
    /// As it is written, in its quotes.
    var key: String
    var value: JSONTree
  }

  /// Reads a text; ends the process where it is not valid enough to be read.
  static func read(_ bytes: [UInt8]) -> JSONTree {
    var reader = Reader(bytes: bytes)
    let tree = reader.readValue()
    reader.skipBlanks()
    precondition(reader.at == bytes.count, "more than a value")
    return tree
  }

  /// Without what is null, but for itself.
  var withoutNulls: JSONTree {
    switch self {
    case .scalar: self
    case .array(let elements): .array(elements.filter { $0 != .null }.map(\.withoutNulls))
    case .object(let members):
      .object(members.filter { $0.value != .null }.map { Member(key: $0.key, value: $0.value.withoutNulls) })
    }
  }

  static let null = JSONTree.scalar("null")

  /// What a merge should make of an object: `values` by the characters of their keys.
  func merged(_ values: [(key: String, value: JSONTree)]) -> JSONTree {
    guard case .object(let members) = self else { return self }
    var seen: Set<String> = []
    var merged: [Member] = []
    for member in members {
      let key = characters(member.key)
      guard let value = values.first(where: { $0.key == key })?.value else {
        merged.append(member)
        continue
      }
      if seen.insert(key).inserted { merged.append(Member(key: member.key, value: value)) }
    }
    for (key, value) in values where !seen.contains(key) {
      let escaped = key == "a\nb" ? "a\\nb" : key
      merged.append(Member(key: "\"\(escaped)\"", value: value))
    }
    return .object(merged)
  }

  private func characters(_ key: String) -> String {
    guard case .string(let text) = StrictJSON.parse(Array(key.utf8)) else { fatalError("no string: \(key)") }
    return text
  }

  private struct Reader {
    let bytes: [UInt8]
    var at = 0

    mutating func skipBlanks() {
      while at < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[at]) { at += 1 }
    }

    /// Whether `byte` is next; it is passed over.
    private mutating func take(_ byte: UInt8) -> Bool {
      skipBlanks()
      guard at < bytes.count, bytes[at] == byte else { return false }
      at += 1
      return true
    }

    mutating func readValue() -> JSONTree {
      if take(0x5b) {
        if take(0x5d) { return .array([]) }
        var elements: [JSONTree] = []
        repeat { elements.append(readValue()) } while take(0x2c)
        precondition(take(0x5d), "an array goes on")
        return .array(elements)
      }
      if take(0x7b) {
        if take(0x7d) { return .object([]) }
        var members: [Member] = []
        repeat {
          let key = readScalar()
          precondition(key.first == "\"" && take(0x3a), "a member without a key")
          members.append(Member(key: key, value: readValue()))
        } while take(0x2c)
        precondition(take(0x7d), "an object goes on")
        return .object(members)
      }
      return .scalar(readScalar())
    }

    private mutating func readScalar() -> String {
      skipBlanks()
      let start = at
      if at < bytes.count, bytes[at] == 0x22 {
        at += 1
        while bytes[at] != 0x22 { at += bytes[at] == 0x5c ? 2 : 1 }
        at += 1
      } else {
        while at < bytes.count, !Array(" \t\r\n,:[]{}\"".utf8).contains(bytes[at]) { at += 1 }
      }
      precondition(at > start, "no value")
      return String(decoding: bytes[start..<at], as: UTF8.self)
    }
  }
}

extension JSONTree {
  private static let scalars = [
    "null", "null", "null", "true", "false", "0", "-1", "12.50", "1e5", "-0.0E-3", "\"\"", "\"null\"", "\",null,\"",
    "\"\\\"\"", "\"\\\\\"", "\"\\u006eull\"", "\"é漢😀\"", "\"[{\"", "123456789012345678",
    "\"a longer string of text\"",
  ]
  private static let keys = [
    "\"a\"", "\"\\u0061\"", "\"b\"", "\"null\"", "\"\"", "\"é\"", "\"\\u00e9\"", "\"a\\nb\"", "\"a much longer key\"",
  ]

  /// A tree by chance, at most `depth` deep.
  static func random(depth: Int, using generator: inout SeededGenerator) -> JSONTree {
    switch Int.random(in: 0..<(depth > 0 ? 4 : 1), using: &generator) {
    case 0, 1: return .scalar(scalars.randomElement(using: &generator)!)
    case 2:
      let count = Int.random(in: 0...5, using: &generator)
      return .array((0..<count).map { _ in random(depth: depth - 1, using: &generator) })
    default: return randomObject(depth: depth, using: &generator)
    }
  }

  static func randomObject(depth: Int, using generator: inout SeededGenerator) -> JSONTree {
    let count = Int.random(in: 0...5, using: &generator)
    return .object(
      (0..<count).map { _ in
        Member(key: keys.randomElement(using: &generator)!, value: random(depth: depth - 1, using: &generator))
      })
  }

  /// The tree as a text, with white space by chance.
  func text(using generator: inout SeededGenerator) -> String {
    let blanks = ["", "", "", " ", "\n", "\t", "\r\n  "]
    func blank() -> String { blanks.randomElement(using: &generator)! }
    let text: String
    switch self {
    case .scalar(let scalar): text = scalar
    case .array(let elements):
      let inside = elements.map { $0.text(using: &generator) }.joined(separator: ",")
      text = "[" + (elements.isEmpty ? blank() : inside) + "]"
    case .object(let members):
      let inside = members.map { blank() + $0.key + blank() + ":" + $0.value.text(using: &generator) }
      text = "{" + (members.isEmpty ? blank() : inside.joined(separator: ",")) + "}"
    }
    return blank() + text + blank()
  }
}
