// [reachability.interfaces]: kinds of links that the operator knows better than the kernel.

import Reachability
import Testing

@testable import Policy

@Suite struct ReachabilityReadingTests {
  @Test func interfacesHaveKinds() throws {
    let policy = try loaded(
      "[reachability.interfaces]\ntun0 = \"wwan\"\n\"eth0.100\" = \"wired\"\nwg-office_15chr = \"wifi\"\n\"ü\" = \"wifi\""
    )
    #expect(
      policy.configuration.reachability.interfaces == [
        "tun0": .wwan, "eth0.100": .wired, "wg-office_15chr": .wifi, "ü": .wifi,
      ])
  }

  @Test(arguments: ["", "[reachability]", "[reachability]\ninterfaces = {}"])
  func whereNothingIsSaidTheKernelSays(text: String) throws {
    #expect(try loaded(text).configuration.reachability.interfaces == [:])
  }

  private static let kinds = "expected \"wwan\", \"wifi\" or \"wired\""
  private static let device = "expected the name of a network device, 1 to 15 bytes without '/', ':' and white space"

  static let rows: [LoadRow] = [
    LoadRow(
      "types", "[reachability]\ninterfaces = [\"tun0\"]",
      "2:14: error: 'interfaces' in [reachability]: expected a table, found an array"),
    LoadRow(
      "an unknown key", "[reachability]\ninterface = {}",
      "2:1: error: unknown key 'interface' in [reachability]; did you mean 'interfaces'?"),
    LoadRow(
      "kinds that are none",
      "[reachability.interfaces]\na = \"wwam\"\nb = \"unknown\"\nc = \"not-reachable\"\nd = true",
      "2:5: error: 'a' in [reachability.interfaces]: \(kinds), found 'wwam'; did you mean 'wwan'?",
      "3:5: error: 'b' in [reachability.interfaces]: \(kinds), found 'unknown'",
      "4:5: error: 'c' in [reachability.interfaces]: \(kinds), found 'not-reachable'",
      "5:5: error: 'd' in [reachability.interfaces]: expected a string, found a boolean"),
    LoadRow(
      "names that no device has",
      "[reachability.interfaces]\n\"a/b\" = \"wifi\"\n\"\" = \"wifi\"\n\"a b\" = \"wifi\"\n\"eth0:1\" = \"wifi\"\n\"..\" = \"wifi\"\n"
        + "sixteen_bytes_xy = \"wifi\"",
      "2:1: error: [reachability.interfaces]: \(device), found 'a/b'",
      "3:1: error: [reachability.interfaces]: \(device), found ''",
      "4:1: error: [reachability.interfaces]: \(device), found 'a b'",
      "5:1: error: [reachability.interfaces]: \(device), found 'eth0:1'",
      "6:1: error: [reachability.interfaces]: \(device), found '..'",
      "7:1: error: [reachability.interfaces]: \(device), found 'sixteen_bytes_xy'"),
    LoadRow(
      "a dot without quotes", "[reachability.interfaces]\neth0.100 = \"wired\"",
      "2:1: error: 'eth0' in [reachability.interfaces]: expected a string, found a table; a name with a dot in it stands "
        + "between quotes: \"eth0.100\""),
  ]

  @Test(arguments: rows) func everythingElseIsSaidWhereItStands(row: LoadRow) { row.check() }
}
