// sallyport learn: makes rules from the history, on standard output or in a file that it has written before.
// Tests: test_learn.py.

import History
import Policy
import Security
import Server
import Transport

nonisolated func learnCommand(_ arguments: Arguments) throws -> Int32 {
  try arguments.refuseOperands()
  let options = HistoryOptions(arguments)
  var selection = try options.selection()
  if arguments.values["since"] == nil { selection.since = options.now - usualMilliseconds }
  let file = try arguments.values["write"].map(LearnedFile.init)
  let reader = try options.open()
  let requests = try options.requests(reader, selection)
  let learning = HistoryLearning(load: loadRules, nameOf: userWord)
  let outcome = try learning.learn(from: requests.all)
  let head = """
    # Learned by `sallyport learn` from \(outcome.learned) exchanges that were allowed between \
    \(HistoryMoment.text(max(selection.since, requests.all.map(\.last).min() ?? 0))) and \
    \(HistoryMoment.text(requests.all.map(\.last).max() ?? options.now)) (UTC).
    # For a configuration whose [proxy] has default = "deny". It allows all of them, and nothing that was denied.

    """
  let text = head + outcome.text
  guard let file else {
    Output.answer(text)
    return 0
  }
  try file.write(text)
  Output.complain("sallyport: \(outcome.rules) rules in \(file.path); 'sallyport replay' says what they change\n")
  return 0
}

/// The period without --since. A week includes every weekly job.
private let usualMilliseconds: Int64 = 7 * 86_400_000

/// The rules as in a configuration that denies by default.
private nonisolated func loadRules(_ rules: String) -> Policy? {
  let text = "[proxy]\ndefault = \"deny\"\n" + rules
  return PolicyLoader.load(path: LearnedFiles.name, files: LearnedFiles(text: text), secrets: .unneeded).policy
}

/// The name of a user if it still has this number; otherwise the number.
private nonisolated func userWord(_ number: String, _ name: String?) -> String {
  guard let name, case .success(let found) = Users.number(of: name), found.map({ "\($0)" }) == number else {
    return number
  }
  return JSONText.string(name).text
}

/// One file that exists only here, and the users of this machine.
private struct LearnedFiles: PolicyFiles {
  static let name = "learned.toml"
  private static let system = SystemFiles()

  let text: String

  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
    path == Self.name ? .success(Array(text.utf8)) : .failure(FileFault("No such file or directory"))
  }

  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> { .success([]) }
  func isReadableByOthers(_ path: String) -> Bool { false }
  func environment(_ name: String) -> [UInt8]? { nil }
  var credentialsDirectory: String? { nil }
  func userID(named name: String) -> Result<UInt32?, FileFault> { Self.system.userID(named: name) }
}

// MARK: --write

/// A file of learned rules. Its first line contains a digest of the others, so a file that was edited by hand is not
/// replaced.
private struct LearnedFile {
  private static let mark = "# sallyport learn --write replaces this file unless it has been changed. sha256:"
  /// The largest allowed configuration file.
  private static let largestBytes = PolicyLoader.largestFileBytes

  struct Fault: Error, CustomStringConvertible {
    let description: String
  }

  let path: String

  /// Before anything is learned, rejects a file that was not written by this command or has been edited.
  init(_ path: String) throws {
    self.path = path
    if Files.isAbsent(path) { return }
    switch Files.read(path, limit: Self.largestBytes) {
    case .failure(let error):
      throw Fault(description: "cannot read \(path), to see whether it may be replaced: \(error)")
    case .success(let bytes):
      let text = String(decoding: bytes, as: UTF8.self)
      guard text.hasPrefix(Self.mark), let end = text.firstIndex(of: "\n") else {
        throw Fault(description: "\(path) is not of 'sallyport learn', and stays as it is; name another file")
      }
      let digest = text[..<end].dropFirst(Self.mark.count)
      guard digest == Self.digest(String(text[text.index(after: end)...])) else {
        throw Fault(
          description:
            "\(path) was changed by hand since it was learned, and stays as it is; move your rules to a file of "
            + "their own, or name another file")
      }
    }
  }

  func write(_ text: String) throws {
    let whole = Self.mark + Self.digest(text) + "\n" + text
    if case .failure(let error) = Files.replace(path, Array(whole.utf8), mode: 0o644) {
      throw Fault(description: "cannot write \(path): \(error)")
    }
  }

  private static func digest(_ text: String) -> String { hexadecimal(sha256(Array(text.utf8))) }
}
