// Users of the machine by name, from the name service. A look-up may ask a directory over the network: for commands,
// start and reload only, no loop calls this. Tests: UsersTests.

import Glibc

public enum Users {
  /// The most bytes of one entry: home directory, shell and real name are a few hundred.
  private static let largestEntry = 1 << 20
  /// The results of name services for a user that does not exist, besides none at all (getpwnam(3)).
  private static let absences: Set<Int32> = [0, ENOENT, ESRCH, EBADF, EPERM]

  /// The number of the user with this name; nil if there is none. If the name service cannot answer, that is an error.
  public static func number(of name: String) -> Result<UInt32?, SystemError> {
    var size = 1 << 10
    while true {
      var entry = passwd()
      var found: UnsafeMutablePointer<passwd>? = nil
      var buffer = [CChar](repeating: 0, count: size)
      let error = getpwnam_r(name, &entry, &buffer, buffer.count, &found)
      if found != nil { return .success(entry.pw_uid) }
      if error == EINTR { continue }
      guard error == ERANGE, size < largestEntry else {
        return absences.contains(error) ? .success(nil) : .failure(SystemError(error))
      }
      size *= 2
    }
  }

  /// The name of the user with this number, for messages; nil if there is none or it cannot be looked up.
  public static func name(of number: UInt32) -> String? {
    var entry = passwd()
    var found: UnsafeMutablePointer<passwd>? = nil
    var buffer = [CChar](repeating: 0, count: 16 << 10)
    guard getpwuid_r(number, &entry, &buffer, buffer.count, &found) == 0, found != nil else { return nil }
    return String(cString: entry.pw_name)
  }
}

/// Groups of the machine, for messages.
public enum Groups {
  /// The name of a file's group, or its number; nil if the file cannot be examined.
  public static func name(of path: String) -> String? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    var entry = group()
    var found: UnsafeMutablePointer<group>? = nil
    var buffer = [CChar](repeating: 0, count: 64 << 10)
    guard getgrgid_r(status.st_gid, &entry, &buffer, buffer.count, &found) == 0, found != nil else {
      return "\(status.st_gid)"
    }
    return String(cString: entry.gr_name)
  }
}

/// The user's terminal.
public enum Terminal {
  /// The width of the terminal on standard output, in columns; nil if it is not a terminal.
  public static var columns: Int? {
    var size = winsize()
    guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }
}
