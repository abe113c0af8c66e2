// An event as a line for a person: `finished     7F3K2A GET http://a.example/ 403 rule=no-ads …`.
//
// Members come in the order of the JSON. Those that identify the subject of an event have no name. Values that are
// null, empty, or false as usual are left out. A member that is an object shows only its values. A text with other
// characters than letters, digits and the like stays quoted and escaped, so that nothing in it can be taken for another
// member, or by the terminal for a command. Tests: EventTextTests.

import Policy

enum EventText {
  /// Members that need no name.
  private static let bare: Set<String> = ["time", "ref", "client", "method", "target", "status", "state", "host"]
  /// Members that are shown only if unusual.
  private static let quiet: Set<String> = ["reused", "retried"]
  private static let kindWidth = 12

  static func line(_ kind: String, _ members: [(String, JSONText)]) -> String {
    var line = kind + String(repeating: " ", count: max(0, kindWidth - kind.utf8.count))
    for (name, value) in members {
      let shown = shown(value)
      if shown.isEmpty || shown == "false" && quiet.contains(name) { continue }
      line += bare.contains(name) ? " \(shown)" : " \(name)=\(shown)"
    }
    return line
  }

  /// Empty if there is nothing to show.
  private static func shown(_ value: JSONText) -> String {
    switch value {
    case .null: ""
    case .string(let text): isPlain(text) ? text : value.text
    case .object(let members): members.map { shown($0.1) }.filter { !$0.isEmpty }.joined(separator: "/")
    case .array(let elements):
      // The first member of an object is its name.
      elements.map { element in
        if case .object(let members) = element { members.first.map { shown($0.1) } ?? "" } else { shown(element) }
      }.filter { !$0.isEmpty }.joined(separator: ",")
    default: value.text
    }
  }

  private static func isPlain(_ text: String) -> Bool {
    // A text with an equals sign could be read as another member, but a target is recognizable.
    let mayEqual = text.hasPrefix("http")
    return text.utf8.allSatisfy {
      $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "\\") && $0 != UInt8(ascii: "\"")
        && (mayEqual || $0 != UInt8(ascii: "="))
    }
  }
}
