// How the commands find the configuration: which file to read, and the loader's access to the system.

import Policy
import Transport

/// Reads configuration files from the system.
struct SystemFiles: PolicyFiles, Sendable {
  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
    Files.read(path, limit: limit).mapError { FileFault($0.description, isDenied: $0.isDenial) }
  }

  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> {
    Files.expand(pattern.hasPrefix("/") || directory.isEmpty ? pattern : Self.literal(directory) + "/" + pattern)
      .mapError { FileFault($0.description) }
  }

  /// Only a directory has an entry "." in it.
  func isDirectory(_ path: String) -> Bool { Files.exists(path + "/.") }

  func isReadableByOthers(_ path: String) -> Bool { (Files.mode(path) ?? 0) & 0o004 != 0 }

  func environment(_ name: String) -> [UInt8]? { Files.environment(name).map { Array($0.utf8) } }

  var credentialsDirectory: String? { Files.environment("CREDENTIALS_DIRECTORY") }

  func userID(named name: String) -> Result<UInt32?, FileFault> {
    Users.number(of: name).mapError { FileFault($0.description) }
  }

  func subordinateOwners(of user: UInt32) -> [UInt32]? { SubordinateUsers.read().ownerNumbers(of: user) }

  var now: Int64 { Clock.wall / 1000 }

  /// A directory's name, escaped so that no character is a pattern.
  private static func literal(_ directory: String) -> String {
    var escaped = ""
    for character in directory {
      if "*?[\\".contains(character) { escaped.append("\\") }
      escaped.append(character)
    }
    return escaped
  }
}

enum ConfigurationFile {
  static let standard = "/etc/sallyport/sallyport.toml"

  /// The file to read: the one that was named, or else the standard one if it exists, or else none. A file that exists
  /// but cannot be read is an error: the program must not continue without a policy.
  static func path(_ named: String?) -> String? {
    named ?? (Files.isAbsent(standard) ? nil : standard)
  }

  static func load(_ named: String?, secrets: SecretUse = .required) -> LoadResult {
    PolicyLoader.load(path: path(named), files: SystemFiles(), secrets: secrets)
  }

  /// Loads for a command that only reads the policy and leaves warnings to `check`. If there are errors, prints them
  /// and returns nil. What this user may not read is left out.
  static func loadToLook(_ named: String?) -> Policy? {
    let result = load(named, secrets: .inspected)
    if result.policy == nil { for diagnostic in result.diagnostics { Output.complain("\(diagnostic)\n") } }
    return result.policy
  }

  /// Loads for a command that needs a policy. Prints the diagnostics, and returns nil if some are errors.
  static func loadOrComplain(_ named: String?, secrets: SecretUse = .required) -> Policy? {
    let result = load(named, secrets: secrets)
    for diagnostic in result.diagnostics { Output.complain("\(diagnostic)\n") }
    return result.policy
  }
}
