// Users and control groups of this machine. Both may take as long as a disk or a directory service does: no loop calls these.

import CLinux
import Glibc

public enum Accounts {
  /// Memory for one entry of the user database: more than any has, grown where a directory service wants it.
  private static let entryBytes = 1024
  private static let longestEntryBytes = 1 << 20

  /// The name of a user; nil where there is none.
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
}

/// The tree of control groups (cgroups(7)), version 2.
public enum ControlGroups {
  /// Where systemd mounts it: alone, or beside version 1.
  private static let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
  /// Directories that are looked at: far more groups than a machine runs.
  private static let mostDirectories = 100_000
  /// How deep they nest at most.
  private static let deepest = 64

  /// The components of the path of the group whose id, the inode number of its directory, is `id`; nil where none has it.
  public static func path(of id: UInt64) -> [String]? {
    for root in roots where isVersion2(root) {
      if Files.inode(root) == id { return [] }
      var left = mostDirectories
      return find(id, in: root, [], &left)
    }
    return nil
  }

  private static func isVersion2(_ root: String) -> Bool { Files.exists("\(root)/cgroup.controllers") }

  private static func find(_ id: UInt64, in directory: String, _ components: [String], _ left: inout Int) -> [String]? {
    guard left > 0, components.count < deepest, let stream = opendir(directory) else { return nil }
    defer { closedir(stream) }
    left -= 1
    var inner: [String] = []
    while let entry = readdir(stream) {
      guard entry.pointee.d_type == UInt8(DT_DIR) else { continue }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name == "." || name == ".." { continue }
      if entry.pointee.d_ino == id { return components + [name] }
      inner.append(name)
    }
    for name in inner {
      if let found = find(id, in: "\(directory)/\(name)", components + [name], &left) { return found }
    }
    return nil
  }
}
