// Names of users of this machine. A look-up may take as long as a disk or a directory service: no loop calls these.

import CLinux
import Glibc

public enum Accounts {
  /// Memory for one entry of the user database: more than any needs, and grown if a directory service asks for more.
  private static let entryBytes = 1024
  private static let longestEntryBytes = 1 << 20

  /// The name of a user; nil if there is none.
  public static func userName(_ userID: UInt32) -> String? {
    var room = entryBytes
    while room <= longestEntryBytes {
      var entry = passwd()
      var found: UnsafeMutablePointer<passwd>? = nil
      var memory = [CChar](repeating: 0, count: room)
      let result = getpwuid_r(userID, &entry, &memory, room, &found)
      if result == ERANGE {
        room *= 2
        continue
      }
      guard result == 0, found != nil, let name = entry.pw_name else { return nil }
      return withExtendedLifetime(memory) { String(cString: name) }
    }
    return nil
  }

  /// The number that the kernel reports for a user who has none in the user namespace of this process (overflowuid of
  /// user_namespaces(7)), if such users may exist; nil if every user has its own number.
  public static let ambiguousUser: UInt32? = {
    guard case .success(let map) = Files.read("/proc/self/uid_map", limit: longestEntryBytes) else { return 65534 }
    let numbers = String(decoding: map, as: UTF8.self).split { $0 == " " || $0 == "\n" }
    if numbers == ["0", "0", "4294967295"] { return nil }
    guard case .success(let text) = Files.read("/proc/sys/kernel/overflowuid", limit: entryBytes) else { return 65534 }
    return UInt32(String(decoding: text, as: UTF8.self).prefix { $0.isNumber }) ?? 65534
  }()
}
