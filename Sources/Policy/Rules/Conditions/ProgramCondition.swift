// `programs`: the client's executable, as the kernel reports it and not as the program claims.
//
// The condition identifies the program, not what the program was made to do: any user who may run `git` can make it
// fetch anything, and can preload a library into it. So the condition narrows a rule that names users or units; alone
// it protects nothing. A program is in doubt if the kernel hides it, or if its file is not the one at its path
// (`ProgramFinder`).

import Bytes

struct ProgramCondition: ListCondition {
  static let setting = KnownSetting(
    "programs", .list(.text), sentence: "Paths of the client's executable; * is any run of characters.")
  static let subject = ConditionSubject.sender
  static let asksFor: SenderFacts = [.client, .program]

  /// PATH_MAX of Linux, without its final zero.
  private static let longest = 4095

  let patterns: [String]
  var values: [String] { patterns }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> ProgramCondition? {
    let patterns = reading.elements(setting, of: "paths of executables").compactMap {
      element -> (value: String, setting: Setting)? in
      guard let text = reading.string(element) else { return nil }
      if let fault = fault(text) {
        reading.error(element, fault)
        return nil
      }
      return (text, element)
    }
    reading.warnOfRepetition(patterns) { $0.quoted }
    return ProgramCondition(patterns: patterns.map(\.value))
  }

  private static func fault(_ text: String) -> String? {
    if !text.hasPrefix("/") {
      return
        "expected the path of an executable such as \"/usr/bin/git\" or \"/usr/lib/git-core/*\", found \(text.quoted)"
    }
    if text.utf8.count > longest || text.unicodeScalars.contains(where: \.isUnprintable) {
      return "expected a path of at most \(longest) bytes without control characters"
    }
    if text.split(separator: "/", omittingEmptySubsequences: false).dropFirst().contains(where: {
      ["", ".", ".."].contains($0)
    }) {
      return "\(text.quoted) is no path as the kernel tells it: it has no empty, '.' or '..' component"
    }
    if text.utf8.count(where: { $0 == 0x2a }) > PathPattern.mostWildcards {
      return "expected at most \(PathPattern.mostWildcards) '*' in one path"
    }
    return nil
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    // A client on another machine runs no program of this one.
    if facts.sender.client == nil { return false }
    guard let program = facts.sender.certainProgram else { return context.isStrict }
    return patterns.contains { Wildcards.match($0.utf8, program.utf8) }
  }

  /// A pattern covers another if it matches the other's text, with `*` taken as a literal character.
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    guard let other = narrow.conditions[Self.self] else { return false }
    return other.patterns.allSatisfy { narrow in patterns.contains { Wildcards.match($0.utf8, narrow.utf8) } }
  }

  var expected: String { patterns.abridged }
  static func seen(_ request: SeenRequest) -> String {
    request.asker.sender.program ?? "a client whose program is not known"
  }

  static let option: SenderOption? = .program
  static func isSaid(by asker: Asker) -> Bool { asker.sender.program != nil }

  func fit(_ asker: inout Asker) {
    asker.sender.program = patterns.first
    asker.sender.nameClientOfProgram()
  }

  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(programs: patterns) }
}

extension Sender {
  /// Suffixes that `ProgramFinder` adds to a path that is uncertain: the file was deleted, or another file is at that
  /// path now.
  public static let marksOfDoubt = [" (deleted)", " (another file)"]

  /// nil: in doubt.
  var certainProgram: String? {
    program.flatMap { program in Self.marksOfDoubt.contains(where: program.hasSuffix) ? nil : program }
  }
}

/// Patterns with `*`, which stands for any run of bytes.
enum Wildcards {
  /// Greedy, with one point to backtrack to: linear for one `*`, at most pattern × text for many.
  static func match(_ pattern: String.UTF8View, _ text: String.UTF8View) -> Bool {
    var at = pattern.startIndex
    var index = text.startIndex
    var back: (star: String.Index, resume: String.Index)? = nil
    while index != text.endIndex {
      if at != pattern.endIndex, pattern[at] == 0x2a {
        back = (at, index)
        pattern.formIndex(after: &at)
      } else if at != pattern.endIndex, pattern[at] == text[index] {
        pattern.formIndex(after: &at)
        text.formIndex(after: &index)
      } else if let (star, resume) = back {
        back = (star, text.index(after: resume))
        at = pattern.index(after: star)
        index = text.index(after: resume)
      } else {
        return false
      }
    }
    return pattern[at...].allSatisfy { $0 == 0x2a }
  }
}
