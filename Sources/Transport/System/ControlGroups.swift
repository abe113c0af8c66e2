// The tree of control groups (cgroups(7)), version 2: which group has which id.
//
// The kernel tells the id of a group and not its path, and only a walk of the tree finds one from the other. One walk
// finds all of them. It is made in steps, so that whoever waits for a group gets it as soon as it is found, and what
// one unit has put below itself holds nobody else up: slices, which only systemd makes, come first, then the subtrees
// of all units in turn, a directory at a time. Tests: ControlGroupsTests.

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

  /// The components of the path of a group, from the root, which has none; nil where no group is known by the id.
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
  /// Where systemd mounts the tree: alone, or beside version 1.
  public static let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
  /// Groups that are looked at: far more than a machine runs, a hundred bytes each.
  public static let mostGroups = 100_000
  /// How deep they nest at most.
  static let deepest = 64

  private struct Directory {
    let id: UInt64
    let path: String
    let depth: Int
  }

  public private(set) var tree = ControlGroupTree()
  /// Whether everything could be read so far. What a whole walk has not found is not there.
  public private(set) var isWhole = true

  /// Slices and the root.
  private var slices: [Directory] = []
  /// What is left to read below each unit that is no slice, and the unit whose turn is next.
  private var units: [[Directory]] = []
  private var turn = 0

  /// `roots`: where the tree may be mounted; the first that is one counts.
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

  /// The groups in a directory that have others below them.
  private mutating func read(_ directory: Directory, _ found: (UInt64) -> Void) -> [Directory] {
    guard let stream = opendir(directory.path) else {
      // One that was removed meanwhile has nothing in it.
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

  /// The kernel counts the groups in one as links to it, beside the two that every directory has: looking costs a
  /// tenth of opening, and most groups have none.
  private func hasGroups(_ stream: OpaquePointer, _ name: String) -> Bool {
    var status = stat()
    return fstatat(dirfd(stream), name, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_nlink != 2
  }
}
