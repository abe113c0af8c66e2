// `proxy_users`: the user that the client authenticates as, with a name and password of `credentials` in [proxy].

import Bytes

struct ProxyUserCondition: ListCondition {
  static let setting = KnownSetting(
    "proxy_users", .list(.text), sentence: "Names in 'credentials' of [proxy] that the client authenticates with.")
  static let subject = ConditionSubject.sender

  let names: [String]
  var values: [String] { names }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> ProxyUserCondition? {
    let names = reading.elements(setting, of: "names of 'credentials'").compactMap {
      element -> (value: String, setting: Setting)? in
      guard let name = reading.string(element) else { return nil }
      // A name that Basic credentials cannot carry (RFC 7617, 2).
      if name.isEmpty || name.utf8.contains(0x3a) || name.unicodeScalars.contains(where: \.isUnprintable) {
        reading.error(element, "expected a name without ':' and control characters, found \(name.quoted)")
        return nil
      }
      return (name, element)
    }
    reading.warnOfRepetition(names) { $0.quoted }
    return ProxyUserCondition(names: names.map(\.value))
  }

  /// A client that names no user matches none. A client with a wrong password is refused before any rule is tried.
  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    guard let name = facts.sender.proxyUser else { return false }
    return names.contains(name)
  }

  func isApart(from other: Rule.Conditions) -> Bool {
    let others = other.values(of: Self.self)
    return !others.isEmpty && !names.contains(where: others.contains)
  }

  var expected: String { names.abridged }
  static func seen(_ request: SeenRequest) -> String {
    request.asker.sender.proxyUser ?? "a client without a proxy user"
  }

  static let option: SenderOption? = .proxyUser
  static func isSaid(by asker: Asker) -> Bool { asker.sender.proxyUser != nil }
  func fit(_ asker: inout Asker) { asker.sender.proxyUser = names.first }
  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(proxyUsers: names) }
}

extension ProxyUserCondition {
  /// Warns of names that no client can have. `credentials`: those of [proxy]; nil: this user may not read them.
  static func warnOfIdle(_ rule: RuleDraft, credentials: [ProxyCredential]?, by reading: ConfigurationReading) {
    guard let setting = rule.settings[key], case .array(let values) = setting.value.content else {
      return
    }
    guard let known = credentials?.map(\.user) else { return }
    if known.isEmpty {
      return reading.warning(
        setting, "this matches no client: [proxy] has no 'credentials'")
    }
    for (name, value) in zip(rule.conditions.values(of: Self.self), values) where !known.contains(name) {
      reading.warning(setting.element(value), "there is no \(name.quoted) among the 'credentials' of [proxy]")
    }
  }
}
