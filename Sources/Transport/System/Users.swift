// Users of the machine, by name, as the name service has them. A look-up may ask a directory over the network: for
// commands, start and reload only, no loop calls this. Tests: UsersTests.

import Glibc

public enum Users {
  /// Most bytes that one entry may take: home directory, shell and real name are a few hundred.
  private static let largestEntry = 1 << 20
  /// What name services say where there is no such user, beside saying nothing (getpwnam(3)).
  private static let absences: Set<Int32> = [0, ENOENT, ESRCH, EBADF, EPERM]

  /// The number of the user of this name; nil where there is none. What keeps the name service from answering is an error.
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

  /// The name of the user of this number, for messages; nil where there is none, or nobody says.
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
  /// The name of the group that a file is of, or its number; nil where it cannot be looked at.
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

/// The terminal that somebody reads at.
public enum Terminal {
  /// Columns of the terminal that standard output is; nil where it is none.
  public static var columns: Int? {
    var size = winsize()
    guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }
}
