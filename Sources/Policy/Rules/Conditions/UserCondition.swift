// `users`: the local user that owns the client's socket.
//
// Names become numbers when the configuration is read. So matching compares numbers, and reassigning a name does not
// change what a running daemon does.

struct UserCondition: RuleCondition {
  static let setting = KnownSetting(
    "users", .list(.oneOf([.text, .integer(0...4_294_967_294)])),
    sentence: "Local users who own the client's socket, by name or number.")
  static let subject = ConditionSubject.sender
  static let asksFor = SenderFacts.client

  /// Empty: none of the names exists, so no client matches.
  let numbers: [UInt32]
  /// Names and numbers as the file has them, for display.
  let names: [String]

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> UserCondition? {
    let users = NamedUser.list(setting, by: reading)
    return UserCondition(numbers: users.compactMap(\.number), names: users.map(\.name))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    facts.sender.client?.isOne(of: numbers, strictly: context.isStrict) ?? false
  }

  /// Compares the numbers, whatever their names.
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    narrow.conditions[Self.self]?.numbers.allSatisfy(numbers.contains) ?? false
  }

  func isApart(from other: Rule.Conditions) -> Bool {
    if numbers.isEmpty { return true }
    return other[Self.self].map { Set(numbers).isDisjoint(with: $0.numbers) } ?? false
  }

  var expected: String { names.abridged }

  static func seen(_ request: SeenRequest) -> String {
    guard let client = request.asker.sender.client else { return "a client that is not known" }
    if client.userID == LocalClient.noUser { return "a user who is not known" }
    return client.user ?? "\(client.userID)"
  }

  static let option: SenderOption? = .user

  static func isSaid(by asker: Asker) -> Bool {
    asker.sender.client.map { $0.userID != LocalClient.noUser } ?? false
  }

  func fit(_ asker: inout Asker) {
    asker.sender.client = LocalClient(
      userID: numbers.first ?? LocalClient.noUser, user: nil, cgroup: asker.sender.client?.cgroup ?? [])
  }

  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(users: numbers, names: names) }
}

/// A user as a rule names it; no number if no user has the name.
struct NamedUser {
  let name: String
  let number: UInt32?

  /// All values of uid_t except the largest, which stands for "none" (chown(2)).
  static let numberBounds = 0...4_294_967_294
  /// In bytes: LOGIN_NAME_MAX of Linux, without its final zero.
  static let longestName = 255
}

extension NamedUser {
  fileprivate static func list(_ setting: Setting, by reading: ConfigurationReading) -> [NamedUser] {
    let users = reading.elements(setting, of: "names and numbers of users").compactMap { element in
      read(element, by: reading).map { (value: $0, setting: element) }
    }
    warnOfRepetition(users, by: reading)
    return users.map(\.value)
  }

  /// Users by name or number, as in `users` of a rule. Unknown names cause a warning and match nobody.
  static func numbers(_ setting: Setting, by reading: ConfigurationReading) -> [UInt32] {
    list(setting, by: reading).compactMap(\.number)
  }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> NamedUser? {
    switch setting.value.content {
    case .integer:
      return reading.integer(setting, in: numberBounds).map { NamedUser(name: "\($0)", number: UInt32($0)) }
    case .string(let name):
      return read(setting, named: name, by: reading)
    default:
      reading.expected("the name or the number of a user", setting)
      return nil
    }
  }

  private static func read(_ setting: Setting, named name: String, by reading: ConfigurationReading) -> NamedUser? {
    // A name that passwd(5) cannot contain.
    guard (1...longestName).contains(name.utf8.count), !name.utf8.contains(0x3a),
      !name.unicodeScalars.contains(where: \.isUnprintable)
    else {
      reading.error(
        setting,
        "expected the name of a user, 1 to \(longestName) bytes without ':' and control characters, "
          + "found \(name.quoted)")
      return nil
    }
    switch reading.files.userID(named: name) {
    case .success(let number?): return NamedUser(name: name, number: number)
    case .success(nil) where name.utf8.allSatisfy(\.isASCIIDigit):
      reading.error(setting, "there is no user named \(name.quoted); a number stands without quotes")
      return nil
    case .success(nil):
      reading.warning(
        setting,
        "no user named \(name.quoted) exists, so this entry matches nobody; names are looked up when the "
          + "configuration is read")
      return NamedUser(name: name, number: nil)
    case .failure(let fault):
      reading.error(setting, "cannot look up the user \(name.quoted): \(fault)")
      return nil
    }
  }

  /// Warns if a name is repeated, or if a user is listed under two names.
  private static func warnOfRepetition(
    _ users: [(value: NamedUser, setting: Setting)], by reading: ConfigurationReading
  ) {
    var names: Set<String> = []
    var numbers: [UInt32: String] = [:]
    for (user, setting) in users {
      if !names.insert(user.name).inserted {
        reading.warning(setting, "\(user.name.quoted) stands in the list twice")
      } else if let number = user.number {
        if let other = numbers[number] {
          reading.warning(
            setting, "\(user.name.quoted) is the same user as \(other.quoted), who stands in the list already")
        }
        numbers[number] = numbers[number] ?? user.name
      }
    }
  }
}
