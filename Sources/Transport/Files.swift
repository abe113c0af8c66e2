// Files and the environment, as configuration is read from them. For start and reload only: no loop calls these.

import CLinux
import Glibc

public enum Files {
  /// The bytes of a file; at most `limit` of them, a larger one is an error.
  public static func read(_ path: String, limit: Int) -> Result<[UInt8], SystemError> {
    let number = open(path, O_RDONLY | O_CLOEXEC)
    guard number >= 0 else { return .failure(SystemError(errno)) }
    defer { Glibc.close(number) }
    var bytes: [UInt8] = []
    let part = 64 << 10
    while true {
      var failure: Int32 = 0
      let before = bytes.count
      bytes.append(contentsOf: repeatElement(0, count: part))
      let count = bytes.withUnsafeMutableBytes { cl_read(number, $0.baseAddress.map { $0 + before }, part) }
      if count < 0 { failure = Int32(-count) }
      bytes.removeLast(part - max(0, count))
      if failure != 0 { return .failure(SystemError(failure)) }
      if bytes.count > limit { return .failure(SystemError(EFBIG)) }
      if count == 0 { return .success(bytes) }
    }
  }

  /// The paths that match a shell pattern, in lexical order.
  public static func expand(_ pattern: String) -> Result<[String], SystemError> {
    var found = glob_t()
    defer { globfree(&found) }
    switch glob(pattern, GLOB_ERR, nil, &found) {
    case 0: break
    case GLOB_NOMATCH: return .success([])
    case GLOB_NOSPACE: return .failure(SystemError(ENOMEM))
    default: return .failure(SystemError(errno == 0 ? EIO : errno))
    }
    var paths: [String] = []
    for index in 0..<Int(found.gl_pathc) {
      if let path = found.gl_pathv[index] { paths.append(String(cString: path)) }
    }
    return .success(paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) })
  }

  /// The permission bits of a file; nil where it cannot be looked at.
  public static func mode(_ path: String) -> UInt32? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
  }

  public static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  /// The value of an environment variable.
  public static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

  public static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

  /// Writes text whole, to standard output (1) or standard error (2).
  public static func write(_ text: String, to descriptor: Int32) {
    var text = text
    text.withUTF8 { bytes in
      var sent = 0
      while sent < bytes.count {
        let count = cl_write(descriptor, bytes.baseAddress.map { $0 + sent }, bytes.count - sent)
        if count <= 0 { return }
        sent += count
      }
    }
  }

  /// Ends the process with this status.
  public static func exit(_ status: Int32) -> Never { Glibc.exit(status) }
}
