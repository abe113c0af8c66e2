// Which exchanges are meant, and how they are counted.

import Policy
import Testing

@testable import History

@Suite struct HistorySelectionTests {
  private static func kind(_ words: [String: String]) -> HistoryKind {
    var kind = HistoryKind()
    for (word, text) in words.asWords { kind[word] = text }
    return kind
  }

  static let build = kind([
    "uid": "1001", "user": "ci", "cgroup": "build.slice/ci.service", "unit": "ci.service", "program": "/usr/bin/git",
    "method": "GET", "scheme": "https", "host": "index.example", "port": "443", "rule": "registries",
    "decision": "allow",
  ])
  static let refused = kind(["host": "2001:db8::1", "decision": "deny", "client": "192.0.2.1"])

  private static func selection(_ change: (inout HistorySelection) -> Void) -> HistorySelection {
    var selection = HistorySelection()
    change(&selection)
    return selection
  }

  @Test func eachConditionIsHeldAgainstTheKind() throws {
    let holds: [HistorySelection] = [
      Self.selection { _ in }, Self.selection { $0.users = ["eve", "ci"] }, Self.selection { $0.users = ["1001"] },
      Self.selection { $0.units = ["ci.service"] }, Self.selection { $0.units = ["build.slice"] },
      Self.selection { $0.programs = ["git"] }, Self.selection { $0.programs = ["/usr/bin/git"] },
      Self.selection { $0.rules = ["registries"] },
      Self.selection { $0.hosts = [try! HostPattern.parse("**.example").get()] },
    ]
    for selection in holds { #expect(selection.includes(Self.build)) }
    let fails: [HistorySelection] = [
      Self.selection { $0.users = ["c"] }, Self.selection { $0.units = ["slice"] },
      Self.selection { $0.programs = ["bin/git"] }, Self.selection { $0.rules = ["-"] },
      Self.selection { $0.hosts = [try! HostPattern.parse("*.index.example").get()] },
      Self.selection { $0.isDeniedOnly = true },
    ]
    for selection in fails { #expect(!selection.includes(Self.build)) }
  }

  @Test func whatIsNotSaidMatchesNothing() {
    #expect(Self.selection { $0.isDeniedOnly = true }.includes(Self.refused))
    #expect(Self.selection { $0.rules = ["-"] }.includes(Self.refused))
    #expect(Self.selection { $0.hosts = [try! HostPattern.parse("2001:db8::/32").get()] }.includes(Self.refused))
    #expect(!Self.selection { $0.users = ["ci"] }.includes(Self.refused))
    #expect(!Self.selection { $0.programs = ["git"] }.includes(Self.refused))
    #expect(!Self.selection { $0.hosts = [.any] }.includes(HistoryKind()))
  }

  private static func record(_ number: Int64, kind: Int64, path: String = "/") -> HistoryRecord {
    HistoryRecord(
      number: HistorySchema.firstNumber(at: number), kind: kind, reference: 0, path: path, status: 200, bytesIn: 1,
      bytesOut: 10, totalMicroseconds: 2_000)
  }

  @Test func countsAreByWhatExchangesHaveInCommon() {
    var counts = HistoryCounts(by: [.word(.host), .word(.user)])
    var byPath = HistoryCounts(by: [.path])
    for (number, kind, path) in [(5, Self.build, "/a"), (9, Self.refused, "/a"), (7, Self.build, "/b")] {
      let record = Self.record(Int64(number), kind: kind == Self.build ? 1 : 2, path: path)
      counts.count(record, kind)
      byPath.count(record, kind)
    }
    let groups = counts.sorted
    #expect(groups.map(\.key) == [["index.example", "ci"], ["2001:db8::1", ""]])
    #expect(groups.map(\.count) == [2, 1])
    #expect(groups.map(\.denied) == [0, 1])
    #expect(groups.map(\.bytesIn) == [2, 1] && groups.map(\.bytesOut) == [20, 10])
    #expect(groups.map(\.last) == [7, 9])
    #expect(byPath.sorted.map(\.key) == [["/a"], ["/b"]])
  }

  @Test func groupingsHaveTheNamesOfTheLog() {
    for name in HistoryGrouping.names { #expect(HistoryGrouping(name)?.name == name) }
    #expect(HistoryGrouping("hosts") == nil)
  }

  @Test func aNumberSaysWhenItEnded() {
    #expect(HistorySchema.wall(of: HistorySchema.firstNumber(at: 1_795_573_906_123) + 4095) == 1_795_573_906_123)
    #expect(Self.record(10, kind: 1).begunWall == 8)
  }
}
