// What the loader needs from the outside. The module itself performs no I/O: the program implements this with the
// system, tests with a dictionary.

/// Why something could not be read, in words: "No such file or directory".
public struct FileFault: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String
  /// It exists, or may, and this user may not read it. Another user may.
  public let isDenied: Bool

  public init(_ description: String, isDenied: Bool = false) {
    self.description = description
    self.isDenied = isDenied
  }
}

/// Files, environment, credentials and users for the loader. Paths are as the operator wrote them, joined to the
/// directory of the file that names them. A path that is still relative is relative to the working directory.
public protocol PolicyFiles {
  /// The bytes of the file at `path`. A file of more than `limit` bytes is a fault, found without reading it whole.
  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault>

  /// The files that match the shell pattern `pattern`, which is relative to `directory` (empty: the working directory)
  /// unless it begins with "/". Each path then begins with `directory`, so `read` accepts it. Only `pattern` is a
  /// pattern, not `directory`. No match gives an empty list.
  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault>

  /// Whether `path` is a directory; false if it does not exist.
  func isDirectory(_ path: String) -> Bool

  /// Whether users who are neither the owner nor in the group may read the file (mode & 0o004).
  func isReadableByOthers(_ path: String) -> Bool

  /// The value of an environment variable; nil if there is none.
  func environment(_ name: String) -> [UInt8]?

  /// $CREDENTIALS_DIRECTORY, where systemd puts what `LoadCredential=` names; nil if there is none.
  var credentialsDirectory: String? { get }

  /// The number of the user of this name; nil if there is none. A failed look-up is a fault: an unknown user matches no
  /// client, and a user must not count as unknown because a directory service did not respond.
  func userID(named name: String) -> Result<UInt32?, FileFault>

  /// The users that own the subordinate user (subuid(5)) `user`, as the daemon sees its clients; nil: unknown.
  func subordinateOwners(of user: UInt32) -> [UInt32]?

  /// Seconds since 1970, for expiry. It only leads to warnings: a connection is checked at its own time.
  var now: Int64 { get }
}

extension PolicyFiles {
  /// By default there are no directories.
  public func isDirectory(_ path: String) -> Bool { false }

  /// Nor users.
  public func userID(named name: String) -> Result<UInt32?, FileFault> { .success(nil) }

  /// Nor containers.
  public func subordinateOwners(of user: UInt32) -> [UInt32]? { [] }

  /// By default the clock stands still, at a time when nothing has expired.
  public var now: Int64 { 0 }
}

/// Paths of the configuration, processed only as text.
enum ConfigurationPath {
  /// `path` relative to `directory`, or `path` itself if it is absolute.
  static func join(_ directory: String, _ path: String) -> String {
    if path.utf8.first == 0x2f || directory.isEmpty { return path }
    return directory.utf8.last == 0x2f ? directory + path : directory + "/" + path
  }

  /// Everything before the last "/" of `path`; empty if it has none.
  static func directory(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: 0x2f) else { return "" }
    if slash == path.utf8.startIndex { return "/" }
    return String(path[..<slash])
  }

  /// The path without "." and empty segments, so one file is not read under two names. ".." stays: where it leads
  /// depends on symbolic links.
  static func plain(_ path: String) -> String {
    let segments = path.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
    return path.utf8.first == 0x2f ? "/" + segments : segments
  }

  /// Whether the text is a pattern to expand.
  static func isPattern(_ path: String) -> Bool {
    path.utf8.contains { $0 == 0x2a || $0 == 0x3f || $0 == 0x5b }
  }
}
