// Which ranges of a configuration file may contain a secret, so that excerpts hide them.
//
// In a well-formed file the tree decides. Values under a key whose name suggests a secret, or nearly does ('pasword'),
// are hidden, except names of files, credentials and variables. A URL with a user name is hidden too, because a
// password follows it. In a file with broken syntax there is no tree, and everything is hidden that is not known to be
// harmless. Both hide too much rather than too little. Tests: SecretTests.

enum Concealment {
  /// The ranges to hide in a parsed file.
  static func ranges(in root: TOMLValue) -> [Range<TOMLPosition>] {
    var tree = SecretsInTree()
    tree.collect(root, isSecret: false)
    return tree.ranges.sorted { $0.lowerBound < $1.lowerBound }
  }

  /// Whether a parser's quotation from a broken file is no part of a secret: punctuation, or a word of the
  /// configuration.
  static func isHarmless(_ quoted: Substring) -> Bool {
    // It may quote twice: what it expected and what it saw.
    guard let (expected, seen) = quoted.split(at: "', saw '") else { return isWordOrPunctuation(quoted) }
    return isWordOrPunctuation(expected) && isWordOrPunctuation(seen)
  }

  private static func isWordOrPunctuation(_ text: Substring) -> Bool {
    text == "\"" || BrokenLine.words.contains(String(text))
      || text.unicodeScalars.allSatisfy(BrokenLine.isPunctuation)
  }

  /// The ranges to hide in a file with broken syntax.
  static func ranges(inBroken source: SourceText) -> [Range<TOMLPosition>] {
    (1...source.lineCount).flatMap { number in
      BrokenLine(source.line(number)).hidden.map { columns in
        TOMLPosition(line: number, column: columns.lowerBound)..<TOMLPosition(line: number, column: columns.upperBound)
      }
    }
  }
}

/// The walk over a parsed file.
private struct SecretsInTree {
  private(set) var ranges: [Range<TOMLPosition>] = []
  /// Results for each key: the same few names occur in every rule.
  private var known: [String: (any: Bool, table: Bool)] = [:]

  mutating func collect(_ value: TOMLValue, isSecret: Bool) {
    switch value.content {
    case .table(let entries):
      for entry in entries where !(isSecret && Self.isReference(entry)) {
        collect(entry.value, isSecret: isSecret || covers(entry) || Self.isAddress(entry))
      }
    case .array(let values) where !isSecret:
      for value in values { collect(value, isSecret: false) }
    default:
      // An array is hidden as a whole, with the comments in it.
      if isSecret || Self.isURL(value), value.begin < value.end { ranges.append(value.begin..<value.end) }
    }
  }

  /// The parts of a secret that are not secret: where to find it, and names of header fields to remove.
  private static func isReference(_ entry: TOMLEntry) -> Bool {
    ["file", "credential", "env", "remove"].contains(entry.key)
  }

  private static func isURL(_ value: TOMLValue) -> Bool {
    guard case .string(let text) = value.content else { return false }
    return SecretWords.coversURL(text)
  }

  /// `user:password@host` with `http://` forgotten.
  private static func isAddress(_ entry: TOMLEntry) -> Bool {
    guard entry.key == "via", case .string(let text) = entry.value.content else { return false }
    return text.utf8.contains(0x40)
  }

  private mutating func covers(_ entry: TOMLEntry) -> Bool {
    let found = known[entry.key] ?? (SecretWords.covers(entry.key), SecretWords.coversTable(entry.key))
    known[entry.key] = found
    switch entry.value.content {
    // A string or an array may be meant as the table that belongs here.
    case .table, .string, .array: return found.any || found.table
    case .integer, .float, .boolean, .dateTime: return found.any
    }
  }
}

/// Names that suggest secrets.
enum SecretWords {
  private static let parts = ["pass", "secret", "token", "credential", "auth", "cookie"]
  /// Keys and fields that contain such a part, or are close to one of the words, but are harmless.
  private static let harmless = ["cookies", "authority", "socket", "proxy-authenticate"]
  private static let near = ["password", "credentials", "authorization", "secret", "client_certificate"]
  private static let nearTables = ["parameters", "headers"]

  /// Whether the value under the key may be a secret.
  static func covers(_ key: String) -> Bool {
    let key = key.lowercased()
    if harmless.contains(key) { return false }
    return parts.contains { key.holds($0) } || key.hasSuffix("key") || isNear(key, near)
      || Suggestion.distance(key, "key", atMost: 1) != nil
  }

  /// Tables that contain secrets under names of all kinds: header fields, parameters.
  static func coversTable(_ key: String) -> Bool { isNear(key.lowercased(), nearTables) }

  /// Whether the text may be a URL that contains a user name, and therefore a password.
  static func coversURL(_ text: String) -> Bool { text.utf8.contains(0x40) && text.holds("://") }

  private static func isNear(_ key: String, _ words: [String]) -> Bool {
    words.contains { Suggestion.distance(key, $0, atMost: 2) != nil }
  }
}

extension Substring {
  /// The parts before and after the first `separator`; nil if there is none.
  fileprivate func split(at separator: String) -> (Substring, Substring)? {
    var at = startIndex
    while at < endIndex {
      if self[at...].hasPrefix(separator) { return (self[..<at], self[at...].dropFirst(separator.count)) }
      formIndex(after: &at)
    }
    return nil
  }
}

extension String {
  fileprivate func holds(_ part: String) -> Bool {
    var rest = utf8[...]
    while rest.count >= part.utf8.count {
      if rest.starts(with: part.utf8) { return true }
      rest = rest.dropFirst()
    }
    return false
  }
}

/// A line of a file that does not parse. It shows punctuation, words of the configuration and, if nothing nearby
/// suggests a secret, numbers. Every other string, quoted or not, is hidden: no guess about it can be wrong.
private struct BrokenLine {
  static let words = Set(TableSchema.all.flatMap(\.words) + ["true", "false"])

  static func isPunctuation(_ scalar: Unicode.Scalar) -> Bool {
    "[]{},= \t".unicodeScalars.contains(scalar) || scalar.isUnprintable
  }

  /// Columns, counted from 1.
  private(set) var hidden: [Range<Int>] = []

  init(_ line: ArraySlice<UInt8>) {
    let line = Array(String(decoding: line, as: UTF8.self).unicodeScalars)
    var numbers: [Range<Int>] = []
    var speaksOfSecrets = line.contains("@")
    var at = 0
    while at < line.count {
      let begin = at
      if line[at] == "#" {
        at = line.count
      } else if line[at] == "\"" || line[at] == "'" {
        at = Self.end(ofStringAt: at, in: line)
        let content = line[begin..<at].dropFirst().dropLast()
        if line[at - 1] == line[begin], Self.words.contains(String(String.UnicodeScalarView(content))) { continue }
      } else if Self.isPunctuation(line[at]) {
        at += 1
        continue
      } else {
        while at < line.count, !Self.isPunctuation(line[at]), !["\"", "'", "#"].contains(line[at]) { at += 1 }
        let word = String(String.UnicodeScalarView(line[begin..<at]))
        let parts = word.split(separator: ".").map(String.init)
        if parts.contains(where: { SecretWords.covers($0) || SecretWords.coversTable($0) }) { speaksOfSecrets = true }
        if parts.allSatisfy(Self.words.contains) { continue }
        if word.utf8.allSatisfy({ $0.isASCIIDigit || "._:/-+".utf8.contains($0) }) {
          numbers.append(begin + 1..<at + 1)
          continue
        }
      }
      hidden.append(begin + 1..<at + 1)
    }
    if speaksOfSecrets { hidden = (hidden + numbers).sorted { $0.lowerBound < $1.lowerBound } }
  }

  /// The position after the closing quote, or the end of the line if there is none.
  private static func end(ofStringAt begin: Int, in line: [Unicode.Scalar]) -> Int {
    var at = begin + 1
    while at < line.count, line[at] != line[begin] { at += line[at] == "\\" && line[begin] == "\"" ? 2 : 1 }
    return min(at + 1, line.count)
  }
}

extension TableSchema {
  /// Its keys, and their possible words.
  fileprivate var words: [String] { settings.flatMap { [$0.name] + $0.kind.words } }
}

extension SettingKind {
  fileprivate var words: [String] {
    switch self {
    case .word(let words): words
    case .list(let kind), .map(let kind): kind.words
    case .oneOf(let kinds): kinds.flatMap(\.words)
    default: []
    }
  }
}
