// [pins.NAME]: which keys or certificates a chain must contain. A set may be in any file, before or after the rules
// that name it; names are looked up when every file has been read. Tests: PinReadingTests.

import Security

/// A set as read from the file.
struct PinSetDraft {
  var set: PinSet
  /// [pins.NAME] itself.
  let header: Setting
  /// Whether it was read without an error.
  var isSound = false
  /// Whether a rule, or [defaults.security], names it.
  var isUsed = false
}

private enum ExpiryAction: String, CaseIterable { case fail, report }

extension ConfigurationReading {
  func readPins(_ setting: Setting) {
    for entry in table(setting)?.settings ?? [] { readPinSet(entry) }
  }

  private func readPinSet(_ header: Setting) {
    guard let table = table(header) else { return }
    let errorsBefore = errorCount
    var draft = PinSetDraft(set: PinSet(name: header.key), header: header)
    var settings: [String: Setting] = [:]
    var certificates: [(value: NamedCertificate, setting: Setting)] = []
    for setting in table.settings {
      settings[setting.key] = setting
      if setting.key == "certificates" {
        certificates = pinnedCertificates(setting)
      } else {
        readPinKey(setting, &draft.set)
      }
    }
    draft.set.certificates = certificates.map(\.value.certificate)
    checkPinName(header)
    draft.isSound = errorCount == errorsBefore
    if draft.isSound { checkPins(&draft, settings, certificates) }
    pinSets[header.key] = pinSets[header.key] ?? draft
  }

  private func readPinKey(_ setting: Setting, _ set: inout PinSet) {
    switch setting.key {
    case "mode": set.mode = choice(setting, SSLPinningMode.self) ?? set.mode
    case "spki": set.keys = pinnedKeys(setting)
    case "expires": set.expires = expiry(setting)
    case "on_expiry": set.failsOnExpiry = choice(setting, ExpiryAction.self) != .report
    case "enforce": set.enforce = boolean(setting) ?? true
    default: unread(setting, of: .pins)
    }
  }

  private func checkPinName(_ header: Setting) {
    if let other = pinSets[header.key]?.header {
      let place = other.source.location(other.keyBegin)
      report(
        .error, header.source, header.keyBegin,
        "[pins.\(header.key)] stands at \(place) already; a name belongs to one set of pins")
    } else if !Self.isRuleName(header.key) {
      report(
        .error, header.source, header.keyBegin,
        "[pins]: expected \(Self.ruleNameExpectation) in the name of a set, found \(header.key.quoted)")
    }
  }

  // MARK: Values

  private func pinnedKeys(_ setting: Setting) -> [PublicKeyPin] {
    let pins = (strings(setting) ?? []).compactMap { text, element -> (value: PublicKeyPin, setting: Setting)? in
      guard let pin = PublicKeyPin.parse(text) else {
        error(
          element,
          "expected the SHA-256 of a public key, as \"sha256/\" and 44 characters of base64, or as 64 hexadecimal "
            + "digits, found \(text.quoted)")
        return nil
      }
      return (pin, element)
    }
    warnOfRepetition(pins) { $0.description.quoted }
    return pins.map(\.value)
  }

  private func pinnedCertificates(_ setting: Setting) -> [(value: NamedCertificate, setting: Setting)] {
    (strings(setting) ?? []).flatMap { text, element in
      (certificates(element, text, inDirectory: "*.cer") ?? []).map { ($0, element) }
    }
  }

  private func expiry(_ setting: Setting) -> Int64? {
    guard case .dateTime(let text) = setting.value.content, let end = CalendarDate.end(of: text) else {
      if case .string(let text) = setting.value.content {
        error(setting, "expected a date such as 2027-06-01, without quotes, found the string \(text.quoted)")
      } else {
        expected("a date such as 2027-06-01", setting)
      }
      return nil
    }
    return end
  }

  // MARK: The set as a whole

  private func checkPins(
    _ draft: inout PinSetDraft, _ settings: [String: Setting],
    _ certificates: [(value: NamedCertificate, setting: Setting)]
  ) {
    if let setting = settings["on_expiry"], draft.set.expires == nil {
      warning(setting, "it does nothing without 'expires'")
    }
    guard draft.set.isPinning else { return warnOfUnusedMode(settings) }
    guard draft.set.pinCount > 0 else {
      draft.isSound = false
      return reportEmpty(draft)
    }
    warnOfPinsTwice(draft.set, certificates)
    if draft.set.mode == .certificate, let setting = settings["spki"] {
      warning(setting, "it is not looked at: mode \"certificate\" compares whole certificates")
    }
    if draft.set.pinCount == 1 {
      warning(
        draft.header, of: "[pins.\(draft.set.name)]",
        "there is one pin only, and no backup pin: when what it pins is replaced, nothing connects any more")
    }
    if let setting = settings["expires"], let end = draft.set.expires { warnOfExpiry(draft.set, end, setting) }
  }

  private func warnOfUnusedMode(_ settings: [String: Setting]) {
    for key in ["spki", "certificates"] {
      settings[key].map { warning($0, "it is not looked at: mode \"none\" pins nothing") }
    }
  }

  private func reportEmpty(_ draft: PinSetDraft) {
    let needed = draft.set.mode == .certificate ? "'certificates'" : "'spki' or 'certificates'"
    let text =
      "[pins.\(draft.set.name)] holds no pin, so nothing could ever connect; mode "
      + "\"\(draft.set.mode.rawValue)\" needs \(needed)"
    report(.error, draft.header.source, draft.header.keyBegin, text)
  }

  /// Warns of repeated certificates and, in public-key mode, of repeated keys in any form.
  private func warnOfPinsTwice(_ set: PinSet, _ certificates: [(value: NamedCertificate, setting: Setting)]) {
    var keys = Set(set.keys)
    var ders: Set<[UInt8]> = []
    for (named, setting) in certificates {
      let isNewKey = keys.insert(named.certificate.publicKeyPin).inserted
      let isNewCertificate = ders.insert(named.certificate.der).inserted
      if !isNewCertificate {
        warning(setting, "the certificate \(named.title) is pinned twice")
      } else if !isNewKey, set.mode == .publicKey {
        warning(
          setting, "the key of the certificate \(named.title) is pinned already, \(named.certificate.publicKeyPin)")
      }
    }
  }

  private func warnOfExpiry(_ set: PinSet, _ end: Int64, _ setting: Setting) {
    guard case .dateTime(let text) = setting.value.content, let notice = expiryNotice(end, on: text) else { return }
    let outcome: String
    if set.isExpired(at: now) {
      outcome = set.failsOnExpiry ? "what it pins is refused" : "what it pins is no longer enforced"
    } else {
      outcome = set.failsOnExpiry ? "after it what it pins is refused" : "after it what it pins is no longer enforced"
    }
    warning(setting, "the set \(notice); \(outcome) (on_expiry = \"\(set.failsOnExpiry ? "fail" : "report")\")")
  }

  // MARK: References

  /// The set that `name` refers to; marks it as used. nil after an error, and if the set itself has one.
  func pinSet(_ name: String, _ setting: Setting) -> PinSet? {
    guard let draft = pinSets[name] else {
      var message = "there is no set of pins named \(name.quoted)"
      if let nearest = Suggestion.nearest(to: name, among: pinSets.keys.sorted()) {
        message += "; did you mean '\(nearest)'?"
      }
      error(setting, message)
      return nil
    }
    pinSets[name]?.isUsed = true
    return draft.isSound ? draft.set : nil
  }

  func warnOfUnusedPins() {
    for draft in pinSets.values where draft.isSound && !draft.isUsed {
      warning(draft.header, of: "[pins.\(draft.set.name)]", "no rule names this set, so it has no effect")
    }
  }

  private func warning(_ header: Setting, of title: String, _ message: String) {
    report(.warning, header.source, header.keyBegin, "\(title): \(message)")
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
