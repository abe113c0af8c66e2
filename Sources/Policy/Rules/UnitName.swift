// Names of systemd units in `units` of a rule. Only units that own a control group are accepted, because they are
// looked up in the client's cgroup path. Tests: ClientConditionTests.

/// The syntax of systemd.unit(5).
public enum UnitName {
  /// In bytes (systemd's UNIT_NAME_MAX, without its final zero).
  public static let longest = 255
  /// Types of units without a control group of their own, often named instead of the unit that they start.
  private static let typesWithoutGroup = [".timer", ".path", ".target", ".device", ".automount"]

  /// What is wrong with a name, and a suggestion; nil if clients can be in such a unit.
  public static func fault(_ text: String) -> String? {
    guard (1...longest).contains(text.utf8.count), text.utf8.allSatisfy(isPart), !text.hasPrefix("@") else {
      return formFault(text)
    }
    guard let suffix = LocalClient.unitSuffixes.first(where: text.hasSuffix), text.utf8.count > suffix.utf8.count else {
      return suffixFault(text)
    }
    if text == "-.slice" { return "\(text.quoted) is the slice of all units; leave 'units' out to match any" }
    let prefix = text.dropLast(suffix.count)
    guard prefix.hasSuffix("@") else { return nil }
    return templateFault(text, name: String(prefix.dropLast()), suffix: suffix)
  }

  /// Whether the name is permanent. Logins and `systemd-run` create scopes with numbers of their own.
  public static func isLasting(_ unit: String) -> Bool {
    unit.hasSuffix(".service") && !unit.hasPrefix("run-") && !unit.hasPrefix("user@") && fault(unit) == nil
  }

  private static func isPart(_ byte: UInt8) -> Bool {
    byte.isASCIILetter || byte.isASCIIDigit || ":_.\\@-".utf8.contains(byte)
  }

  private static func formFault(_ text: String) -> String {
    var message =
      "expected the name of a systemd unit, 1 to \(longest) ASCII letters, digits and ':_.\\@-', found \(text.quoted)"
    if text.contains(where: { "*?[".contains($0) }) {
      message += "; there are no wildcards, but the name of a slice stands for every unit in it"
    } else if text.contains("/") {
      message += "; name one component of the path"
    }
    return message
  }

  private static func suffixFault(_ text: String) -> String {
    let words = LocalClient.unitSuffixes.alternatives
    return "expected a unit that has a control group (\(words)), found \(text.quoted); did you mean '\(meant(text))'?"
  }

  /// The suffix corrected, or replacing one of another type, or added.
  private static func meant(_ text: String) -> String {
    if let other = typesWithoutGroup.first(where: text.hasSuffix) { return text.dropLast(other.count) + ".service" }
    guard let dot = text.lastIndex(of: "."), dot > text.startIndex else { return text + ".service" }
    let types = LocalClient.unitSuffixes.map { String($0.dropFirst()) }
    guard let type = Suggestion.nearest(to: String(text[dot...].dropFirst()), among: types) else {
      return text + ".service"
    }
    return "\(text[..<dot]).\(type)"
  }

  private static func templateFault(_ text: String, name: String, suffix: String) -> String {
    // systemd puts instances into a slice with the template's name, where '-' would mean a level.
    let slice =
      "system-\(name.split(separator: "-", omittingEmptySubsequences: false).joined(separator: "\\x2d")).slice"
    return
      "\(text.quoted) is a template, of which instances run only; name those ('\(name)@NAME\(suffix)') or their slice, "
      + "which is '\(slice)' where the unit does not name another"
  }
}
