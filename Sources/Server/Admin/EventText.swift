// An event as a line for a person: `finished     7F3K2A GET http://a.example/ 403 rule=no-ads …`.
//
// Members come in the order of the JSON. Those that identify the subject of an event have no name. Values that are
// null, empty, or false as usual are left out. A member that is an object shows only its values. A text with other
// characters than letters, digits and the like stays quoted and escaped, so that nothing in it can be taken for another
// member, or by the terminal for a command. Tests: EventTextTests.

enum EventText {
  /// Members that need no name.
  private static let bare: Set<String> = ["time", "ref", "client", "method", "target", "status", "state", "host"]
  /// Members that are shown only if unusual.
  private static let quiet: Set<String> = ["reused", "retried"]
  private static let kindWidth = 12

  static func line(_ kind: String, _ json: String) -> String {
    var line = kind + String(repeating: " ", count: max(0, kindWidth - kind.utf8.count))
    let text = Array(json.utf8)
    guard let members = JSONPieces.members(text[...]) else { return "\(line) \(json)" }
    for (name, value) in members {
      let shown = shown(value)
      if shown.isEmpty || shown == "false" && quiet.contains(name) { continue }
      line += bare.contains(name) ? " \(shown)" : " \(name)=\(shown)"
    }
    return line
  }

  /// Empty if there is nothing to show.
  private static func shown(_ value: ArraySlice<UInt8>) -> String {
    switch value.first {
    case UInt8(ascii: "\""): return string(value)
    case UInt8(ascii: "{"):
      return (JSONPieces.members(value) ?? []).map { shown($0.value) }.filter { !$0.isEmpty }.joined(separator: "/")
    case UInt8(ascii: "["):
      // The first member of an object is its name.
      return (JSONPieces.elements(value) ?? []).map { element in
        element.first == UInt8(ascii: "{")
          ? JSONPieces.members(element)?.first.map { shown($0.value) } ?? "" : shown(element)
      }.filter { !$0.isEmpty }.joined(separator: ",")
    default:
      let text = String(decoding: value, as: UTF8.self)
      return text == "null" ? "" : text
    }
  }

  private static func string(_ value: ArraySlice<UInt8>) -> String {
    let content = value.dropFirst().dropLast()
    let isPlain = content.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "\\") && $0 != UInt8(ascii: "=") }
    // A text with an equals sign could be read as another member, but a target is recognizable.
    let isTarget = content.starts(with: "http".utf8) && !content.contains(0x20) && !content.contains(UInt8(ascii: "\\"))
    return String(decoding: isPlain || isTarget ? content : value, as: UTF8.self)
  }
}

/// The parts of a JSON text that this program has written: finds where each ends, not what it means.
enum JSONPieces {
  /// The members of an object; nil if the text is not one.
  static func members(_ text: ArraySlice<UInt8>) -> [(name: String, value: ArraySlice<UInt8>)]? {
    guard let parts = parts(text, open: UInt8(ascii: "{"), close: UInt8(ascii: "}")) else { return nil }
    var members: [(name: String, value: ArraySlice<UInt8>)] = []
    for part in parts {
      guard let name = extent(part), part.first == UInt8(ascii: "\"") else { return nil }
      let rest = trimmed(part[name...])
      guard rest.first == UInt8(ascii: ":") else { return nil }
      members.append((String(decoding: part[part.startIndex + 1..<name - 1], as: UTF8.self), trimmed(rest.dropFirst())))
    }
    return members
  }

  static func elements(_ text: ArraySlice<UInt8>) -> [ArraySlice<UInt8>]? {
    parts(text, open: UInt8(ascii: "["), close: UInt8(ascii: "]"))
  }

  /// The texts between the commas.
  private static func parts(_ text: ArraySlice<UInt8>, open: UInt8, close: UInt8) -> [ArraySlice<UInt8>]? {
    let text = trimmed(text)
    guard text.count >= 2, text.first == open, text.last == close else { return nil }
    var parts: [ArraySlice<UInt8>] = []
    var begin = text.startIndex + 1
    var at = begin
    let end = text.endIndex - 1
    while at < end {
      switch text[at] {
      case UInt8(ascii: ","):
        parts.append(trimmed(text[begin..<at]))
        begin = at + 1
        at = begin
      case UInt8(ascii: "\""), UInt8(ascii: "{"), UInt8(ascii: "["):
        guard let next = extent(text[at..<end]) else { return nil }
        at = next
      default: at += 1
      }
    }
    let last = trimmed(text[begin..<end])
    if !last.isEmpty { parts.append(last) }
    return parts
  }

  /// The index after the string, object or array that the text begins with.
  private static func extent(_ text: ArraySlice<UInt8>) -> Int? {
    var depth = 0
    var isInString = false
    var at = text.startIndex
    while at < text.endIndex {
      switch text[at] {
      case UInt8(ascii: "\\") where isInString: at += 1
      case UInt8(ascii: "\""):
        isInString.toggle()
        if !isInString, depth == 0 { return at + 1 }
      case UInt8(ascii: "{") where !isInString, UInt8(ascii: "[") where !isInString: depth += 1
      case UInt8(ascii: "}") where !isInString, UInt8(ascii: "]") where !isInString:
        depth -= 1
        if depth == 0 { return at + 1 }
      default: break
      }
      at += 1
    }
    return nil
  }

  private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let front = text.drop { $0 == 0x20 }
    return front[front.startIndex..<(front.lastIndex { $0 != 0x20 }.map { $0 + 1 } ?? front.startIndex)]
  }
}
