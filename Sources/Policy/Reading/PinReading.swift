// [pins.NAME]: which keys or certificates a chain must contain. A set may be in any file, before or after the rules
// that name it; names are looked up when every file has been read. Tests: PinReadingTests.

import Security

/// A set as read from the file.
struct PinSetDraft {
  private(set) var set: PinSet
  /// [pins.NAME] itself.
  let header: Setting
  /// Whether it was read without an error.
  private(set) var isSound = false
  /// Whether a rule, or [defaults.security], names it.
  fileprivate(set) var isUsed = false
}

private enum ExpiryAction: String, CaseIterable { case fail, report }

/// The sets of all files, by name.
struct PinSets {
  private var drafts: [String: PinSetDraft] = [:]

  mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    for entry in reading.table(setting)?.settings ?? [] {
      guard let table = reading.table(entry) else { continue }
      let isNamed = RuleName.check(entry, of: "set of pins", after: drafts[entry.key]?.header, by: reading)
      let draft = PinSetDraft(entry, table, isNamed: isNamed, by: reading)
      drafts[entry.key] = drafts[entry.key] ?? draft
    }
  }

  /// The set that `name` refers to; marks it as used. nil after an error, and if the set itself has one.
  mutating func use(_ name: String, _ setting: Setting, by reading: ConfigurationReading) -> PinSet? {
    guard let draft = drafts[name] else {
      let question = Suggestion.question(name, among: drafts.keys.sorted())
      reading.error(setting, "there is no set of pins named \(name.quoted)\(question)")
      return nil
    }
    drafts[name]?.isUsed = true
    return draft.isSound ? draft.set : nil
  }

  func warnOfUnused(by reading: ConfigurationReading) {
    for draft in drafts.values where draft.isSound && !draft.isUsed {
      draft.warn(by: reading, "no rule names this set, so it has no effect")
    }
  }
}

extension PinSetDraft {
  fileprivate init(_ header: Setting, _ table: ConfigurationTable, isNamed: Bool, by reading: ConfigurationReading) {
    self.header = header
    set = PinSet(name: header.key)
    let errorsBefore = reading.errorCount
    var settings: [String: Setting] = [:]
    var certificates: [(value: NamedCertificate, setting: Setting)] = []
    for setting in table.settings {
      settings[setting.key] = setting
      if setting.key == "certificates" {
        certificates = Self.certificates(of: setting, by: reading)
      } else {
        read(setting, by: reading)
      }
    }
    set.certificates = certificates.map(\.value.certificate)
    isSound = isNamed && reading.errorCount == errorsBefore
    if isSound { check(settings, certificates: certificates, by: reading) }
  }

  private mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "mode": set.mode = reading.choice(setting, SSLPinningMode.self) ?? set.mode
    case "spki": set.keys = Self.keys(of: setting, by: reading)
    case "expires": set.expires = Self.expiry(of: setting, by: reading)
    case "on_expiry": set.failsOnExpiry = reading.choice(setting, ExpiryAction.self) != .report
    case "enforce": set.enforce = reading.boolean(setting) ?? true
    default: reading.unread(setting, of: .pins)
    }
  }

  // MARK: Values

  private static func keys(of setting: Setting, by reading: ConfigurationReading) -> [PublicKeyPin] {
    let pins = (reading.strings(setting) ?? []).compactMap {
      text, element -> (value: PublicKeyPin, setting: Setting)? in
      guard let pin = PublicKeyPin.parse(text) else {
        reading.error(
          element,
          "expected the SHA-256 of a public key, as \"sha256/\" and 44 characters of base64, or as 64 hexadecimal "
            + "digits, found \(text.quoted)")
        return nil
      }
      return (pin, element)
    }
    reading.warnOfRepetition(pins) { $0.description.quoted }
    return pins.map(\.value)
  }

  private static func certificates(of setting: Setting, by reading: ConfigurationReading) -> [(
    value: NamedCertificate, setting: Setting
  )] {
    (reading.strings(setting) ?? []).flatMap { text, element in
      (reading.certificates.certificates(text, element, inDirectory: "*.cer", by: reading) ?? []).map { ($0, element) }
    }
  }

  private static func expiry(of setting: Setting, by reading: ConfigurationReading) -> Int64? {
    guard case .dateTime(let text) = setting.value.content, let end = CalendarDate.end(of: text) else {
      if case .string(let text) = setting.value.content {
        reading.error(setting, "expected a date such as 2027-06-01, without quotes, found the string \(text.quoted)")
      } else {
        reading.expected("a date such as 2027-06-01", setting)
      }
      return nil
    }
    return end
  }

  // MARK: The set as a whole

  private mutating func check(
    _ settings: [String: Setting], certificates: [(value: NamedCertificate, setting: Setting)],
    by reading: ConfigurationReading
  ) {
    if let setting = settings["on_expiry"], set.expires == nil {
      reading.warning(setting, "it does nothing without 'expires'")
    }
    guard set.isPinning else { return warnOfUnusedMode(settings, by: reading) }
    guard set.pinCount > 0 else {
      isSound = false
      return reportEmpty(by: reading)
    }
    warnOfPinsTwice(certificates, by: reading)
    if set.mode == .certificate, let setting = settings["spki"] {
      reading.warning(setting, "it is not looked at: mode \"certificate\" compares whole certificates")
    }
    if set.pinCount == 1 {
      warn(
        by: reading,
        "there is one pin only, and no backup pin: when what it pins is replaced, nothing connects any more")
    }
    if let setting = settings["expires"], let end = set.expires { warnOfExpiry(end, setting, by: reading) }
  }

  private func warnOfUnusedMode(_ settings: [String: Setting], by reading: ConfigurationReading) {
    for key in ["spki", "certificates"] {
      settings[key].map { reading.warning($0, "it is not looked at: mode \"none\" pins nothing") }
    }
  }

  private func reportEmpty(by reading: ConfigurationReading) {
    let needed = set.mode == .certificate ? "'certificates'" : "'spki' or 'certificates'"
    let text =
      "[pins.\(set.name)] holds no pin, so nothing could ever connect; mode "
      + "\"\(set.mode.rawValue)\" needs \(needed)"
    reading.report(.error, header.source, position: header.keyBegin, message: text)
  }

  /// Warns of repeated certificates and, in public-key mode, of repeated keys in any form.
  private func warnOfPinsTwice(
    _ certificates: [(value: NamedCertificate, setting: Setting)], by reading: ConfigurationReading
  ) {
    var keys = Set(set.keys)
    var ders: Set<[UInt8]> = []
    for (named, setting) in certificates {
      let isNewKey = keys.insert(named.certificate.publicKeyPin).inserted
      let isNewCertificate = ders.insert(named.certificate.der).inserted
      if !isNewCertificate {
        reading.warning(setting, "the certificate \(named.title) is pinned twice")
      } else if !isNewKey, set.mode == .publicKey {
        reading.warning(
          setting, "the key of the certificate \(named.title) is pinned already, \(named.certificate.publicKeyPin)")
      }
    }
  }

  private func warnOfExpiry(_ end: Int64, _ setting: Setting, by reading: ConfigurationReading) {
    guard case .dateTime(let text) = setting.value.content,
      let notice = ExpiryNotice.words(end, on: text, now: reading.files.now)
    else { return }
    let outcome: String
    if set.isExpired(at: reading.files.now) {
      outcome = set.failsOnExpiry ? "what it pins is refused" : "what it pins is no longer enforced"
    } else {
      outcome = set.failsOnExpiry ? "after it what it pins is refused" : "after it what it pins is no longer enforced"
    }
    reading.warning(setting, "the set \(notice); \(outcome) (on_expiry = \"\(set.failsOnExpiry ? "fail" : "report")\")")
  }

  fileprivate func warn(by reading: ConfigurationReading, _ message: String) {
    reading.report(.warning, header.source, position: header.keyBegin, message: "[pins.\(set.name)]: \(message)")
  }
}

extension PinSet {
  /// The number of different keys or certificates that count in the set's mode.
  var pinCount: Int {
    switch mode {
    case .none: 0
    case .publicKey: Set(keys + certificates.map(\.publicKeyPin)).count
    case .certificate: Set(certificates.map(\.der)).count
    }
  }
}
