// The tree of control groups (cgroups(7)), version 2: finds groups by their ids.
//
// The kernel gives the id of a group and not its path, and only a walk of the tree leads from one to the other. One
// walk finds all of them. It is made in steps: a client that waits for a group gets it as soon as it is found, and
// groups that one unit has made below itself delay no other. Slices, which only systemd makes, come first, then the
// subtrees of all units in turn, a directory at a time. Tests: ControlGroupsTests.

import CLinux
import Glibc

/// The groups that walks have found. A group never changes its path, and its id is never given to another.
public struct ControlGroupTree: Sendable {
  private struct Group {
    let parent: UInt64
    let name: String
  }

  private var groups: [UInt64: Group] = [:]
  private var root: UInt64? = nil

  public init() {}

  public var count: Int { groups.count }

  /// The components of a group's path, from the root, which has none; nil if no group with the id is known.
  public func path(of id: UInt64) -> [String]? {
    var components: [String] = []
    var next = id
    while next != root {
      guard let group = groups[next], components.count <= ControlGroupWalk.deepest else { return nil }
      components.append(group.name)
      next = group.parent
    }
    return components.reversed()
  }

  fileprivate mutating func begin(root: UInt64) { self.root = root }

  fileprivate mutating func add(_ id: UInt64, _ name: String, in parent: UInt64) {
    groups[id] = Group(parent: parent, name: name)
  }
}

/// One walk of the whole tree.
public struct ControlGroupWalk {
  /// Where systemd mounts the tree: alone, or together with version 1.
  public static let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
  /// The most groups that a walk reads: far more than a machine runs, a hundred bytes each.
  public static let mostGroups = 100_000
  /// The deepest nesting that is followed.
  static let deepest = 64

  private struct Directory {
    let id: UInt64
    let path: String
    let depth: Int
  }

  public private(set) var tree = ControlGroupTree()
  /// Whether everything could be read so far. A group that a complete walk has not found does not exist.
  public private(set) var isWhole = true

  /// Slices and the root.
  private var slices: [Directory] = []
  /// What is left to read below each unit that is not a slice, and the unit whose turn is next.
  private var units: [[Directory]] = []
  private var turn = 0

  /// `roots`: where the tree may be mounted; the first that exists is used.
  public init(roots: [String] = roots) {
    guard let root = roots.first(where: { Files.exists("\($0)/cgroup.controllers") }), let id = Files.inode(root) else {
      isWhole = false
      return
    }
    tree.begin(root: id)
    slices = [Directory(id: id, path: root, depth: 0)]
  }

  public var isOver: Bool { slices.isEmpty && units.isEmpty }

  /// Reads the next directory; `found` gets the id of each group in it.
  public mutating func step(_ found: (UInt64) -> Void) {
    if let next = slices.popLast() {
      for inner in read(next, found) {
        if inner.path.hasSuffix(".slice") { slices.append(inner) } else { units.append([inner]) }
      }
    } else if !units.isEmpty {
      if turn >= units.count { turn = 0 }
      guard let next = units[turn].popLast() else { preconditionFailure("a unit without directories") }
      units[turn] += read(next, found)
      if units[turn].isEmpty {
        units.swapAt(turn, units.count - 1)
        units.removeLast()
      } else {
        turn += 1
      }
    }
  }

  /// The groups in a directory that contain others.
  private mutating func read(_ directory: Directory, _ found: (UInt64) -> Void) -> [Directory] {
    guard let stream = opendir(directory.path) else {
      // A group that was removed meanwhile is empty.
      if errno != ENOENT { isWhole = false }
      return []
    }
    defer { closedir(stream) }
    var inner: [Directory] = []
    errno = 0
    while let entry = readdir(stream) {
      guard entry.pointee.d_type == UInt8(DT_DIR) else { continue }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name == "." || name == ".." { continue }
      guard tree.count < Self.mostGroups else {
        isWhole = false
        break
      }
      let id = UInt64(entry.pointee.d_ino)
      tree.add(id, name, in: directory.id)
      found(id)
      guard hasGroups(stream, name) else { continue }
      guard directory.depth + 1 < Self.deepest else {
        isWhole = false
        continue
      }
      inner.append(Directory(id: id, path: "\(directory.path)/\(name)", depth: directory.depth + 1))
    }
    return inner
  }

  /// The kernel counts a group's subgroups as links to it, besides the two that every directory has. Reading the count
  /// costs a tenth of opening, and most groups have none.
  private func hasGroups(_ stream: OpaquePointer, _ name: String) -> Bool {
    var status = stat()
    return fstatat(dirfd(stream), name, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_nlink != 2
  }
}
