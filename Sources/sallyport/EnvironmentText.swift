// The output of `sallyport env`: variables and comments, in the language of a shell, a unit, a file of variables, or
// JSON. Variables come first: an `eval` without quotes passes all lines to the shell as one, and everything after the
// first comment becomes part of the comment. Tests: test_env.py.

import Policy

/// The language of the lines.
enum Shell: String, CaseIterable {
  case sh, bash, zsh, fish
  /// Lines of a unit.
  case systemd
  /// The format of --env-file for docker run, podman run and node: values are literal, to the end of the line.
  case envFile = "env-file"
  case json

  /// One assignment; nil if the language cannot express this value.
  func line(_ name: String, _ value: String) -> String? {
    switch self {
    case .sh, .bash, .zsh: "export \(name)=\(quoted(value))\n"
    case .fish: "set -gx \(name) \(quoted(value))\n"
    case .systemd: "Environment=\(quoted("\(name)=\(value)"))\n"
    case .envFile: value.contains(where: \.isNewline) ? nil : "\(name)=\(value)\n"
    case .json: nil
    }
  }

  /// One line, whatever a path in it contains.
  func comment(_ text: String) -> String {
    self == .json ? "" : "# \(String(text.map { $0.isNewline ? " " : $0 }))\n"
  }

  /// As one word that means exactly these characters.
  func quoted(_ value: String) -> String {
    switch self {
    case .sh, .bash, .zsh: "'" + Self.escaping(value, ["'": #"'\''"#]) + "'"
    case .fish: "'" + Self.escaping(value, ["'": #"\'"#, #"\"#: #"\\"#]) + "'"
    case .systemd: "\"" + Self.escaping(value, ["\"": #"\""#, #"\"#: #"\\"#, "%": "%%", "\n": #"\n"#]) + "\""
    case .envFile, .json: value
    }
  }

  private static func escaping(_ text: String, _ escapes: [Character: String]) -> String {
    text.map { escapes[$0] ?? String($0) }.joined()
  }
}

/// Variables and comments, as they are collected.
struct EnvironmentText {
  private var variables: [(name: String, value: String)] = []
  private var comments: [String] = []

  mutating func set(_ name: String, _ value: String) { variables.append((name, value)) }

  mutating func remark(_ text: String) { comments.append(text) }

  func text(_ shell: Shell) -> String {
    if shell == .json { return JSONText.object(variables.map { ($0.name, .string($0.value)) }).text + "\n" }
    var lines = ""
    var remarks = ""
    for (name, value) in variables {
      if let line = shell.line(name, value) {
        lines += line
      } else {
        remarks += shell.comment("\(name) is not set: its value has a line feed, which this form cannot hold.")
      }
    }
    return lines + remarks + comments.map(shell.comment).joined()
  }
}
