// The owner of the client's end of a connection, as far as this machine can tell.

/// A connected program on this machine: what `users` and `units` are matched against, and what the log names. nil for a
/// client elsewhere, or in another network namespace: it matches no rule with users or units.
///
/// What could not be looked up is in doubt. That differs from "no user": in doubt, a rule that refuses matches, and any
/// other does not, because a client must not benefit from hiding its identity.
public final class LocalClient: Sendable {
  /// How far the look-up succeeded, in the words of the history.
  public enum Outcome: String, Sendable {
    case known
    case userUnknown = "user-unknown"
    case unitUnknown = "unit-unknown"
    case unknown
  }

  /// No user's number (chown(2)): for a client whose user is unknown, or was not given to `explain`.
  public static let noUser = UInt32.max
  /// Shown in the log if a look-up failed.
  public static let unknownName = "unknown"
  /// A client of this machine for which every look-up failed.
  public static let unknown = LocalClient(userID: noUser, user: nil, cgroup: nil, isUserInDoubt: true)

  public let userID: UInt32
  /// nil if the user has no name; "unknown" if the user is unknown.
  public let user: String?
  /// If the client runs as a subordinate user (subuid(5)), as in a rootless container: the users that own it. Usually
  /// empty; more than one only if ranges overlap.
  public let owners: [UInt32]
  /// The components of its path in the cgroup2 tree that systemd created, from the root, by the names of their units:
  /// `kiosk.slice`, `kiosk.service`. Empty if unknown.
  public let cgroup: [String]
  /// The same as one text, which the history stores for each exchange: `system.slice/kiosk.service`.
  public let cgroupPath: String
  /// The innermost systemd unit among them; nil if there is none, "unknown" if it is unknown.
  public let unit: String?
  public let outcome: Outcome

  /// `cgroup`: the components as the kernel reports them; nil if the look-up failed. `isUserInDoubt`: whether the
  /// number may stand for several users.
  public init(userID: UInt32, user: String?, owners: [UInt32] = [], cgroup: [String]?, isUserInDoubt: Bool = false) {
    self.userID = userID
    self.user = isUserInDoubt ? Self.unknownName : user
    self.owners = owners
    outcome = isUserInDoubt ? (cgroup == nil ? .unknown : .userUnknown) : cgroup == nil ? .unitUnknown : .known
    self.cgroup = Self.madeBySystemd(cgroup ?? [])
    cgroupPath = self.cgroup.joined(separator: "/")
    unit = cgroup == nil ? Self.unknownName : self.cgroup.last(where: Self.isUnit)
  }

  /// A client of the past. `recordedUnits`: its `cgroup` then; nil if that was in doubt.
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

  /// The user that answers for the client: the owner of a subordinate user, otherwise the user itself. `noUser` if in
  /// doubt.
  public var principal: UInt32 { isUserInDoubt ? Self.noUser : owners.first ?? userID }

  /// Only slices nest. Below the first component that is not a slice, that unit created everything, under any name it
  /// likes. A user's manager is such a unit, and the same applies once more below it.
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

  /// systemd prefixes "_" to a name that would collide with a kernel file, `_memory.service`, or that begins with "_"
  /// itself.
  private static func unitName(_ component: String) -> String {
    component.hasPrefix("_") ? String(component.dropFirst()) : component
  }

  /// Types of units that own control groups (systemd.unit(5), systemd.resource-control(5)).
  static let unitSuffixes = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"]
}

extension LocalClient {
  /// `strictly`: every user counts that the client may be; otherwise only a certain one.
  func isOne(of users: [UInt32], strictly: Bool) -> Bool {
    if isUserInDoubt { return strictly && !users.isEmpty }
    if users.contains(userID) { return true }
    if owners.isEmpty { return false }
    return strictly ? owners.contains(where: users.contains) : owners.allSatisfy(users.contains)
  }

  /// `countsOwn`: whether units of the user's own manager count. The manager runs whatever its user likes under any
  /// name, so they are meaningful only to a rule that names users too. `strictly`: as for users.
  func belongs(toOneOf units: [String], countsOwn: Bool, strictly: Bool) -> Bool {
    if isUnitInDoubt { return strictly }
    for component in cgroup {
      if units.contains(component) { return true }
      if !countsOwn, Self.isUserManager(component) { return false }
    }
    return false
  }
}
