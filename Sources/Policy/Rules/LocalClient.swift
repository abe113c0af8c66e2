// Who owns the client's end of a connection, as far as this machine knows.

/// A program on this machine that has connected: what `users` and `units` are matched against, and what the log names.
/// There is none (nil) for a client elsewhere, or in another network namespace: it meets no rule with users or units.
///
/// What could not be looked up is in doubt. That differs from "is nobody": a rule that refuses then matches, and any
/// other does not, since a client must not gain by keeping the proxy from finding out who it is.
public final class LocalClient: Sendable {
  /// How far the look-up came.
  public enum Outcome: Sendable { case known, userUnknown, unitUnknown, unknown }

  /// No user's number (chown(2)): of a client whose user is not known, or was not said to `explain`.
  public static let noUser = UInt32.max
  /// What the log names where something could not be looked up.
  public static let unknownName = "unknown"
  /// A client of this machine of which nothing could be looked up.
  public static let unknown = LocalClient(userID: noUser, user: nil, cgroup: nil, isUserInDoubt: true)

  public let userID: UInt32
  /// nil where the user has no name; "unknown" where nobody can say which user it is.
  public let user: String?
  /// The users whose subordinate user the client is (subuid(5)), as in a container without root. Empty for most, and
  /// more than one only where ranges overlap.
  public let owners: [UInt32]
  /// The components of its path in the cgroup2 tree that systemd made, from the root, by the names of their units:
  /// `kiosk.slice`, `kiosk.service`. Empty where unknown.
  public let cgroup: [String]
  /// The same as one text, which the history has of each exchange: `system.slice/kiosk.service`.
  public let cgroupPath: String
  /// The innermost systemd unit among them; nil where there is none, "unknown" where nobody can say.
  public let unit: String?
  public let outcome: Outcome

  /// `cgroup`: the components as the kernel has them; nil where they could not be looked up. `isUserInDoubt`: whether
  /// the number may stand for several users.
  public init(userID: UInt32, user: String?, owners: [UInt32] = [], cgroup: [String]?, isUserInDoubt: Bool = false) {
    self.userID = userID
    self.user = isUserInDoubt ? Self.unknownName : user
    self.owners = owners
    outcome = isUserInDoubt ? (cgroup == nil ? .unknown : .userUnknown) : cgroup == nil ? .unitUnknown : .known
    self.cgroup = Self.madeBySystemd(cgroup ?? [])
    cgroupPath = self.cgroup.joined(separator: "/")
    unit = cgroup == nil ? Self.unknownName : self.cgroup.last(where: Self.isUnit)
  }

  /// A client of the past. `recordedUnits`: what `cgroup` was; nil where that was in doubt.
  public init(userID: UInt32, user: String?, owners: [UInt32], recordedUnits: [String]?, isUserInDoubt: Bool) {
    self.userID = userID
    self.user = user
    self.owners = owners
    outcome =
      isUserInDoubt
      ? (recordedUnits == nil ? .unknown : .userUnknown) : recordedUnits == nil ? .unitUnknown : .known
    cgroup = recordedUnits ?? []
    cgroupPath = cgroup.joined(separator: "/")
    unit = recordedUnits == nil ? Self.unknownName : cgroup.last(where: Self.isUnit)
  }

  public var isUserInDoubt: Bool { outcome == .userUnknown || outcome == .unknown }
  public var isUnitInDoubt: Bool { outcome == .unitUnknown || outcome == .unknown }

  /// The user that answers for the client: the owner of a subordinate user, else the user itself. `noUser` where in
  /// doubt.
  public var principal: UInt32 { isUserInDoubt ? Self.noUser : owners.first ?? userID }

  /// Only slices nest: what is below the first component that is none was made by that unit, under any name it likes.
  /// The manager of a user is such a unit, and below it the same holds once more.
  private static func madeBySystemd(_ components: [String]) -> [String] {
    let names = components.map(unitName)
    guard let first = names.firstIndex(where: { !isSlice($0) }) else { return names }
    guard isUserManager(names[first]) else { return Array(names[...first]) }
    let own = names[(first + 1)...].firstIndex { !isSlice($0) } ?? names.endIndex - 1
    return Array(names[...own])
  }

  private static func isSlice(_ component: String) -> Bool { component.hasSuffix(".slice") }

  fileprivate static func isUserManager(_ component: String) -> Bool {
    component.hasPrefix("user@") && component.hasSuffix(".service")
  }

  private static func isUnit(_ component: String) -> Bool { unitSuffixes.contains { component.hasSuffix($0) } }

  /// systemd puts "_" before the name of a group that would be taken for a file of the kernel's: `_memory.service`, and
  /// before one that begins so itself.
  private static func unitName(_ component: String) -> String {
    component.hasPrefix("_") ? String(component.dropFirst()) : component
  }

  /// Of the units that own control groups (systemd.unit(5), systemd.resource-control(5)).
  static let unitSuffixes = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"]
}

extension LocalClient {
  /// `strictly`: a user counts whom the client may be; otherwise only one whom it is for certain.
  func isOne(of users: [UInt32], strictly: Bool) -> Bool {
    if isUserInDoubt { return strictly && !users.isEmpty }
    if users.contains(userID) { return true }
    if owners.isEmpty { return false }
    return strictly ? owners.contains(where: users.contains) : owners.allSatisfy(users.contains)
  }

  /// `countsOwn`: whether units count that the user's own manager runs. It runs what its user likes under any name, so
  /// they say nothing except to a rule that names users too. `strictly`: as for users.
  func belongs(toOneOf units: [String], countsOwn: Bool, strictly: Bool) -> Bool {
    if isUnitInDoubt { return strictly }
    for component in cgroup {
      if units.contains(component) { return true }
      if !countsOwn, Self.isUserManager(component) { return false }
    }
    return false
  }
}
