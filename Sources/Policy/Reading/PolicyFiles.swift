// What the loader needs of the world. The module itself performs no I/O: the program implements this over the system,
// tests over a dictionary.

/// Why something could not be read, in words: "No such file or directory".
public struct FileFault: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String
  /// It is there, or may be, and this user may not read it. Another user may.
  public let isDenied: Bool

  public init(_ description: String, isDenied: Bool = false) {
    self.description = description
    self.isDenied = isDenied
  }
}

/// Files, environment, credentials and users, as the loader asks for them. Paths are as the operator wrote them, joined to the
/// directory of the file that names them; where that is still relative, it is relative to the working directory.
public protocol PolicyFiles {
  /// The bytes of the file at `path`. A file of more than `limit` bytes is a fault, told without reading it whole.
  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault>

  /// The files that match the shell pattern `pattern`, which is relative to `directory` (empty: the working directory)
  /// unless it begins with "/". Each path begins with `directory` then, so that `read` takes it. Only `pattern` is a
  /// pattern, not `directory`. No match is an empty list.
  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault>

  /// Whether `path` is a directory; false where nothing is there.
  func isDirectory(_ path: String) -> Bool

  /// Whether users who are neither owner nor of the group may read the file (mode & 0o004).
  func isReadableByOthers(_ path: String) -> Bool

  /// The value of an environment variable; nil where there is none.
  func environment(_ name: String) -> [UInt8]?

  /// $CREDENTIALS_DIRECTORY, where systemd puts what `LoadCredential=` names; nil where there is none.
  var credentialsDirectory: String? { get }

  /// The number of the user of this name; nil where there is none. What keeps it from being known is a fault: an unknown
  /// user is met by nobody, and nobody may be taken for unknown because a directory service did not answer.
  func userID(named name: String) -> Result<UInt32?, FileFault>

  /// The users whose subordinate user (subuid(5)) `user` is, as the daemon knows its clients; nil: cannot be said.
  func subordinateOwners(of user: UInt32) -> [UInt32]?

  /// Seconds since 1970, for what expires. Only warnings come of it: a connection is judged by its own time.
  var now: Int64 { get }
}

extension PolicyFiles {
  /// A made-up world has no directories unless it says so.
  public func isDirectory(_ path: String) -> Bool { false }

  /// Nor users.
  public func userID(named name: String) -> Result<UInt32?, FileFault> { .success(nil) }

  /// Nor containers.
  public func subordinateOwners(of user: UInt32) -> [UInt32]? { [] }

  /// The clock of a made-up world stands still, at a time when nothing had expired.
  public var now: Int64 { 0 }
}

/// Paths of the configuration, by their text alone.
enum ConfigurationPath {
  /// `path` as seen from `directory`: relative to it, or itself where it is absolute.
  static func join(_ directory: String, _ path: String) -> String {
    if path.utf8.first == 0x2f || directory.isEmpty { return path }
    return directory.utf8.last == 0x2f ? directory + path : directory + "/" + path
  }

  /// Everything before the last "/" of `path`; empty where it has none.
  static func directory(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: 0x2f) else { return "" }
    if slash == path.utf8.startIndex { return "/" }
    return String(path[..<slash])
  }

  /// Whether the text asks for expansion.
  static func isPattern(_ path: String) -> Bool {
    path.utf8.contains { $0 == 0x2a || $0 == 0x3f || $0 == 0x5b }
  }
}
