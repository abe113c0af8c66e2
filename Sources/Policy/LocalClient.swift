// Who owns the client's end of a connection, as far as this machine knows.

/// A program on this machine that has connected: what `users` and `units` are matched against, and what the log names.
/// There is none for a client elsewhere, or in another network namespace: such a one meets no rule with users or units.
public final class LocalClient: Sendable {
  /// No user's number (chown(2)): of a client of which only the unit is known.
  public static let noUser = UInt32.max

  public let userID: UInt32
  /// nil where the user has no name.
  public let user: String?
  /// The components of its path in the cgroup2 tree, from the root, by the names of their units: `kiosk.slice`,
  /// `kiosk.service`. Empty where unknown.
  public let cgroup: [String]
  /// The innermost systemd unit among them; nil where there is none.
  public let unit: String?

  /// `cgroup`: the components as the kernel has them.
  public init(userID: UInt32, user: String?, cgroup: [String]) {
    self.userID = userID
    self.user = user
    let cgroup = cgroup.map(Self.unitName)
    self.cgroup = cgroup
    unit = cgroup.last { component in Self.unitSuffixes.contains { component.hasSuffix($0) } }
  }

  /// systemd puts "_" before the name of a group that would be taken for a file of the kernel's: `_memory.service`, and
  /// before one that begins so itself.
  private static func unitName(_ component: String) -> String {
    component.hasPrefix("_") ? String(component.dropFirst()) : component
  }

  /// Of the units that own control groups (systemd.unit(5), systemd.resource-control(5)).
  static let unitSuffixes = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"]
}

extension LocalClient {
  /// `countsOwn`: whether units count that the user's own manager runs. It runs what its user likes under any name, so that
  /// they say nothing but to a rule that names users too.
  func belongs(toOneOf units: [String], countsOwn: Bool) -> Bool {
    for component in cgroup {
      if units.contains(component) { return true }
      if !countsOwn, component.hasPrefix("user@"), component.hasSuffix(".service") { return false }
    }
    return false
  }
}
