// Conditions of a rule that are about the client and the machine and not about the request: `users`, `units`, `when`.
//
// Names of users become numbers here, when the configuration is read, so that matching compares numbers and a name that
// changes hands does not change what a running daemon does. Tests: ClientConditionTests.

import Reachability

extension Bounds {
  /// All that uid_t holds but its largest number, which stands for "none" (chown(2)).
  static let userIDs = 0...4_294_967_294
  /// In bytes: LOGIN_NAME_MAX of Linux, without its final zero.
  static let longestUserName = 255
}

extension ConfigurationReading {
  // MARK: users

  func readUsers(_ setting: Setting, _ conditions: inout Rule.Conditions) {
    let users = elements(setting, of: "names and numbers of users").compactMap { element in
      user(element).map { (value: $0, setting: element) }
    }
    warnOfRepetition(users)
    conditions.userNames = users.map(\.value.name)
    conditions.users = users.compactMap(\.value.number)
  }

  /// Users by name or number, as `users` of a rule has them; a name that does not exist is warned of, and is nobody.
  func userList(_ setting: Setting) -> [UInt32] {
    var conditions = Rule.Conditions()
    readUsers(setting, &conditions)
    return conditions.users ?? []
  }

  /// A user as a rule names it; no number where there is none of the name.
  struct NamedUser {
    let name: String
    let number: UInt32?
  }

  func user(_ setting: Setting) -> NamedUser? {
    switch setting.value.content {
    case .integer:
      return integer(setting, in: Bounds.userIDs).map { NamedUser(name: "\($0)", number: UInt32($0)) }
    case .string(let name):
      return user(setting, named: name)
    default:
      expected("the name or the number of a user", setting)
      return nil
    }
  }

  private func user(_ setting: Setting, named name: String) -> NamedUser? {
    // What passwd(5) cannot hold.
    guard (1...Bounds.longestUserName).contains(name.utf8.count), !name.utf8.contains(0x3a),
      !name.unicodeScalars.contains(where: \.isUnprintable)
    else {
      error(
        setting,
        "expected the name of a user, 1 to \(Bounds.longestUserName) bytes without ':' and control characters, "
          + "found \(name.quoted)")
      return nil
    }
    let result = userIDs[name] ?? files.userID(named: name)
    userIDs[name] = result
    switch result {
    case .success(let number?): return NamedUser(name: name, number: number)
    case .success(nil) where name.utf8.allSatisfy(\.isASCIIDigit):
      error(setting, "there is no user named \(name.quoted); a number stands without quotes")
      return nil
    case .success(nil):
      warning(
        setting,
        "there is no user named \(name.quoted), so that nobody is meant by it; names are looked up when the "
          + "configuration is read")
      return NamedUser(name: name, number: nil)
    case .failure(let fault):
      error(setting, "cannot look up the user \(name.quoted): \(fault)")
      return nil
    }
  }

  /// Warns of a name twice, and of a user by two names.
  private func warnOfRepetition(_ users: [(value: NamedUser, setting: Setting)]) {
    var names: Set<String> = []
    var numbers: [UInt32: String] = [:]
    for (user, setting) in users {
      if !names.insert(user.name).inserted {
        warning(setting, "\(user.name.quoted) stands in the list twice")
      } else if let number = user.number {
        if let other = numbers[number] {
          warning(setting, "\(user.name.quoted) is the same user as \(other.quoted), who stands in the list already")
        }
        numbers[number] = numbers[number] ?? user.name
      }
    }
  }

  // MARK: units

  func units(_ setting: Setting) -> [String] {
    let units = elements(setting, of: "names of systemd units").compactMap {
      element -> (value: String, setting: Setting)? in
      guard let name = string(element) else { return nil }
      if let fault = UnitName.fault(name) {
        error(element, fault)
        return nil
      }
      return (name, element)
    }
    warnOfRepetition(units) { $0.quoted }
    return units.map(\.value)
  }

  // MARK: when

  /// The kinds of link that a condition names. `possible`: those that it can meet.
  func links(
    _ setting: Setting, of possible: [ReachabilityStatus] = ReachabilityStatus.allCases
  ) -> [ReachabilityStatus] {
    let links = elements(setting, of: "strings").compactMap { element in
      choice(element, ReachabilityStatus.self).map { (value: $0, setting: element) }
    }
    warnOfRepetition(links) { $0.rawValue.quoted }
    let values = links.map(\.value)
    if possible.allSatisfy(values.contains) { warning(setting, "every kind is listed, so that it always holds") }
    return values
  }
}
