// Which ranges of a configuration file may hold a secret, so that no excerpt shows them.
//
// Where the file is well formed, the tree says: what stands under a key whose name speaks of secrets, or comes near one
// that does ('pasword'), is hidden, but for the names of files, credentials and variables; so is a URL with a user name
// in it, for a password follows that. Where the syntax is broken there is no tree, and lines are judged by the keys that are found on them. Both hide too much rather than too little.
// Tests: SecretTests.

enum Concealment {
  /// The ranges to hide in a parsed file.
  static func ranges(in root: TOMLValue) -> [Range<TOMLPosition>] {
    var tree = SecretsInTree()
    tree.collect(root, isSecret: false)
    return tree.ranges.sorted { $0.lowerBound < $1.lowerBound }
  }

  /// The ranges to hide in a file with broken syntax.
  static func ranges(inBroken source: SourceText) -> [Range<TOMLPosition>] {
    var lines = BrokenLines()
    var ranges: [Range<TOMLPosition>] = []
    for number in 1...source.lineCount {
      let text = String(decoding: source.line(number), as: UTF8.self)
      guard let from = lines.firstHiddenColumn(of: Array(text.unicodeScalars)) else { continue }
      let begin = TOMLPosition(line: number, column: from)
      ranges.append(begin..<TOMLPosition(line: number, column: Int.max))
    }
    return ranges
  }
}

/// The walk over a parsed file.
private struct SecretsInTree {
  private(set) var ranges: [Range<TOMLPosition>] = []
  /// What was found out of each key: the same few names occur in every rule.
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
      // An array goes as a whole, with the comments in it.
      if isSecret || Self.isURL(value), value.begin < value.end { ranges.append(value.begin..<value.end) }
    }
  }

  /// What stands within something secret and is none: where to find it, and names of header fields to remove.
  private static func isReference(_ entry: TOMLEntry) -> Bool {
    ["file", "credential", "env", "remove"].contains(entry.key)
  }

  private static func isURL(_ value: TOMLValue) -> Bool {
    guard case .string(let text) = value.content else { return false }
    return SecretWords.coversURL(text)
  }

  /// `user:password@host` where `http://` has been forgotten.
  private static func isAddress(_ entry: TOMLEntry) -> Bool {
    guard entry.key == "via", case .string(let text) = entry.value.content else { return false }
    return text.utf8.contains(0x40)
  }

  private mutating func covers(_ entry: TOMLEntry) -> Bool {
    let found = known[entry.key] ?? (SecretWords.covers(entry.key), SecretWords.coversTable(entry.key))
    known[entry.key] = found
    switch entry.value.content {
    // A string or an array may be meant for the table that belongs there.
    case .table, .string, .array: return found.any || found.table
    case .integer, .float, .boolean, .dateTime: return found.any
    }
  }
}

/// Names that speak of secrets.
enum SecretWords {
  private static let parts = ["pass", "secret", "token", "credential", "auth", "cookie"]
  /// Keys and fields that hold such a part, or come near one of the words, and no secret.
  private static let harmless = ["cookies", "authority", "socket", "proxy-authenticate"]
  private static let near = ["password", "credentials", "authorization", "secret", "client_certificate"]
  private static let nearTables = ["parameters", "headers"]

  /// Whether what stands under the key may be a secret.
  static func covers(_ key: String) -> Bool {
    let key = key.lowercased()
    if harmless.contains(key) { return false }
    return parts.contains { key.holds($0) } || key.hasSuffix("key") || isNear(key, near)
      || Suggestion.distance(key, "key", atMost: 1) != nil
  }

  /// Tables that hold secrets under names of all kinds: header fields, parameters.
  static func coversTable(_ key: String) -> Bool { isNear(key.lowercased(), nearTables) }

  /// Whether the text may be a URL with a user name, and hence a password, in it.
  static func coversURL(_ text: String) -> Bool { text.utf8.contains(0x40) && text.holds("://") }

  private static func isNear(_ key: String, _ words: [String]) -> Bool {
    words.contains { Suggestion.distance(key, $0, atMost: 2) != nil }
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

/// Lines of a file that does not parse, one after the other.
private struct BrokenLines {
  private var tableIsSecret = false
  private var keyIsSecret = false
  /// Brackets and braces that the current value has left open.
  private var open = 0
  /// The quote of a long string that the current value has left open.
  private var fence: Unicode.Scalar? = nil

  /// The first column to hide, counted from 1; nil where the whole line may be shown. Of a line with a URL that may hold a
  /// password nothing is shown.
  mutating func firstHiddenColumn(of line: [Unicode.Scalar]) -> Int? {
    let column = firstSecretColumn(of: line)
    return SecretWords.coversURL(String(String.UnicodeScalarView(line))) ? 1 : column
  }

  private mutating func firstSecretColumn(of line: [Unicode.Scalar]) -> Int? {
    if open > 0 || fence != nil {
      let wasSecret = keyIsSecret
      // What looks like a key or a header may be one: it may be the end of the value that is missing.
      if Self.isHeader(line) { noteHeader(line) }
      noteKeys(line)
      follow(line[...])
      keyIsSecret = keyIsSecret || wasSecret
      return keyIsSecret || tableIsSecret ? 1 : nil
    }
    if Self.isHeader(line) {
      noteHeader(line)
      return nil
    }
    guard let equals = Self.equalsSign(line) else {
      follow(line[...])
      return keyIsSecret && !Self.isBlank(line) ? 1 : nil
    }
    keyIsSecret = tableIsSecret
    noteKeys(line)
    follow(line[(equals + 1)...])
    return keyIsSecret ? equals + 2 : nil
  }

  private mutating func noteHeader(_ line: [Unicode.Scalar]) {
    tableIsSecret = Self.speaksOfSecrets(String(String.UnicodeScalarView(line)))
    keyIsSecret = false
  }

  private static func isBlank(_ line: [Unicode.Scalar]) -> Bool {
    guard let first = line.first(where: { $0 != " " && $0 != "\t" }) else { return true }
    return first == "#"
  }

  /// `[name]` or `[[name]]` alone on its line. A quoted name is not taken for one: it might be an element of an array.
  private static func isHeader(_ line: [Unicode.Scalar]) -> Bool {
    let text = line.drop { $0 == " " || $0 == "\t" }
    guard text.first == "[" else { return false }
    let body = text.prefix { $0 != "#" }
    return body.allSatisfy { isBare($0) || $0 == "." || $0 == "[" || $0 == "]" || $0 == " " || $0 == "\t" }
  }

  /// Index of the "=" behind what can be a key at the beginning of the line.
  private static func equalsSign(_ line: [Unicode.Scalar]) -> Int? {
    var quote: Unicode.Scalar? = nil
    for (index, scalar) in line.enumerated() {
      if let open = quote {
        if scalar == open { quote = nil }
      } else if scalar == "\"" || scalar == "'" {
        quote = scalar
      } else if scalar == "=" {
        return index
      } else if !isBare(scalar), scalar != ".", scalar != " ", scalar != "\t" {
        return nil
      }
    }
    return nil
  }

  private static func isBare(_ scalar: Unicode.Scalar) -> Bool {
    scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar)) || scalar == "_"
      || scalar == "-"
  }

  /// Looks at every word before an "=": keys of inline tables too.
  private mutating func noteKeys(_ line: [Unicode.Scalar]) {
    var word = ""
    for scalar in line {
      if Self.isBare(scalar) || scalar == "." {
        word.unicodeScalars.append(scalar)
      } else if scalar == "=" {
        // Only in [proxy.limits] is `headers` a number, and hiding a number does no harm.
        if Self.speaksOfSecrets(word) { keyIsSecret = true }
        word = ""
      } else if scalar != " ", scalar != "\t", scalar != "\"", scalar != "'" {
        word = ""
      }
    }
  }

  private static func speaksOfSecrets(_ path: String) -> Bool {
    path.split(whereSeparator: { ".[] \t#".contains($0) }).map(String.init).contains {
      // Of `via` only a part with "@" in it is secret, which may stand in another line of what is broken.
      SecretWords.covers($0) || SecretWords.coversTable($0) || $0 == "via"
    }
  }

  /// Follows brackets and long strings, so that the lines of one value are known to belong together.
  private mutating func follow(_ text: ArraySlice<Unicode.Scalar>) {
    var index = text.startIndex
    var quote: Unicode.Scalar? = nil
    while index < text.endIndex {
      let scalar = text[index]
      let isFence = text.endIndex - index >= 3 && text[index + 1] == scalar && text[index + 2] == scalar
      if let long = fence {
        if scalar == long, isFence {
          fence = nil
          index += 2
        }
      } else if let short = quote {
        if scalar == "\\", short == "\"" { index += 1 } else if scalar == short { quote = nil }
      } else if scalar == "\"" || scalar == "'" {
        if isFence {
          fence = scalar
          index += 2
        } else {
          quote = scalar
        }
      } else if scalar == "#" {
        return
      } else if scalar == "[" || scalar == "{" {
        open += 1
      } else if scalar == "]" || scalar == "}" {
        open = max(0, open - 1)
      }
      index += 1
    }
  }
}
