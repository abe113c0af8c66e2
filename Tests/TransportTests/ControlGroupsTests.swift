// The tree of control groups, walked: a tree of ordinary directories stands for it, which has ids and links alike.

import Glibc
import Testing

@testable import Transport

@Suite final class ControlGroupsTests {
  private let root: String

  init() throws {
    var template = Array("/tmp/cgroups-XXXXXX".utf8CString)
    let made = try #require(mkdtemp(&template))
    root = String(cString: made)
    close(creat("\(root)/cgroup.controllers", 0o600))
  }

  deinit { remove(root) }

  private func remove(_ path: String) {
    if let stream = opendir(path) {
      while let entry = readdir(stream) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { remove("\(path)/\(name)") }
      }
      closedir(stream)
    }
    _ = Glibc.remove(path)
  }

  private func make(_ path: String) -> UInt64? {
    var place = root
    for name in path.split(separator: "/") {
      place += "/\(name)"
      mkdir(place, 0o700)
    }
    return Files.inode(place)
  }

  private func walk() -> ControlGroupWalk {
    var walk = ControlGroupWalk(roots: ["/no/such/tree", root])
    while !walk.isOver { walk.step { _ in } }
    return walk
  }

  @Test func everyGroupHasItsPath() throws {
    let paths = ["a.slice", "a.slice/b.service", "a.slice/b.service/inner", "init.scope", "a.slice/c.slice/d.scope"]
    let ids = try paths.map { try #require(make($0)) }
    let walk = walk()
    for (path, id) in zip(paths, ids) {
      #expect(walk.tree.path(of: id) == path.split(separator: "/").map(String.init))
    }
    let rootID = try #require(Files.inode(root))
    #expect(walk.isWhole && walk.tree.path(of: rootID) == [])
    #expect(walk.tree.path(of: .max) == nil && walk.tree.count == 6)
  }

  @Test func withoutATreeNothingIsCertain() {
    let walk = ControlGroupWalk(roots: ["/no/such/tree"])
    #expect(walk.isOver && !walk.isWhole && walk.tree.path(of: 1) == nil)
  }

  @Test func whatNestsTooDeepIsNotFoundForCertain() throws {
    _ = make(String(repeating: "n/", count: ControlGroupWalk.deepest + 2))
    #expect(!walk().isWhole)
  }

  /// A unit with hundreds of groups below it has one of them read while another unit has one.
  @Test func whatOneUnitMakesHoldsNoOtherUp() throws {
    for number in 0..<300 { _ = make("hog.service/\(number)/inner") }
    let wanted = Set((0..<5).compactMap { make("s.slice/unit\($0).service/a/b") })
    var walk = ControlGroupWalk(roots: [root])
    var left = wanted
    var steps = 0
    while !walk.isOver, !left.isEmpty {
      walk.step { left.remove($0) }
      steps += 1
    }
    #expect(wanted.count == 5 && left.isEmpty && steps < 30, "\(steps) directories were read")
  }
}
