// Starts a program that runs independently, such as a browser. Tests: test_dashboard.py.

import CLinux
import Glibc

public enum Programs {
  /// Starts `command[0]`, found by PATH, in its own session, with nothing to read or write. nil: it runs.
  public static func start(_ command: [String]) -> SystemError? {
    var arguments: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) }
    arguments.append(nil)
    defer { for argument in arguments { free(argument) } }
    let result = cl_start(arguments)
    return result == 0 ? nil : SystemError(-result)
  }
}
