// GET /v1/reachability for a person. Tests: ReachabilityPageTests.

import Bytes
import Reachability

enum ReachabilityPage {
  static func text(_ report: ReachabilityReport) -> String {
    var lines = [
      "machine      \(report.status.rawValue)", "IPv4         \(path(report.ipv4))",
      "IPv6         \(path(report.ipv6))", "waiting      \(String.counted(report.waiting, "request"))",
    ]
    lines += table("interfaces", report.interfaces.map(interface))
    lines += table("routes", report.routes.map(route))
    if let destination = report.destination {
      lines += ["", "\(destination.host): \(destination.error ?? destination.status.rawValue)"]
      lines += destination.addresses.map { "  \($0.address)  \(address($0))" }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// `wired by eth0, gateway 10.0.0.1`
  private static func path(_ path: ReachabilityReport.Path) -> String {
    path.status.rawValue + (path.interface.map { " by \($0)" } ?? "") + (path.gateway.map { ", gateway \($0)" } ?? "")
  }

  private static func address(_ address: ReachabilityReport.Destination.Address) -> String {
    address.status.rawValue + (address.interface.map { " by \($0)" } ?? "")
      + (address.source.map { " from \($0)" } ?? "")
  }

  private static func interface(_ interface: ReachabilityReport.Interface) -> (String, String) {
    let state = !interface.isUp ? "down" : interface.hasCarrier ? "up" : "up, no carrier"
    return (
      interface.name,
      ([interface.kind.rawValue, state] + [interface.addresses.joined(separator: ", ")].filter { !$0.isEmpty })
        .joined(separator: "  ")
    )
  }

  private static func route(_ route: ReachabilityReport.Route) -> (String, String) {
    let rest =
      route.deadForMilliseconds.map { "  passed over for \(String.duration(seconds: ($0 + 999) / 1000))" } ?? ""
    return (route.name, route.via + rest + (route.unusable.map { "  not usable: \($0)" } ?? ""))
  }

  private static func table(_ title: String, _ rows: [(String, String)]) -> [String] {
    if rows.isEmpty { return [] }
    let width = rows.map(\.0.utf8.count).max() ?? 0
    return ["", "\(title):"]
      + rows.map { "  \($0.0)\(String(repeating: " ", count: width - $0.0.utf8.count))  \($0.1)" }
  }
}
