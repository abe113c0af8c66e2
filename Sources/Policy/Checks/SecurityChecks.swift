// [rule.security], [defaults.security] and [routes.NAME.security] as a whole: names that refer to nothing, and keys
// that contradict each other, one of which may be inherited. A contradiction is reported at the rule's own part in it.
// If all of it is inherited, it has been reported at [defaults.security]. Tests: SecurityReadingTests.

import Security

extension ConfigurationReading {
  func checkDefaultSecurity() {
    resolvePins(defaultSecurity)
    check(SecurityScope(own: defaultSecurity, effective: defaultSecurity))
  }

  /// Looks up what the rule's security refers to, merges it with what it inherits, and checks the result.
  func checkSecurity(_ rule: inout RuleDraft) {
    guard let own = rule.security else { return }
    let errorsBefore = errorCount
    resolvePins(own)
    let effective = SecurityDraft(own, inheriting: defaultSecurity)
    rule.effectiveSecurity = effective
    check(SecurityScope(own: own, effective: effective))
    if errorCount > errorsBefore { rule.isSound = false }
  }

  /// The same for a route's table. It inherits nothing: [defaults.security] is about origins, and a parent is not one.
  func checkSecurity(ofRoute own: SecurityDraft) {
    resolvePins(own)
    check(SecurityScope(own: own, effective: own))
  }

  private func resolvePins(_ draft: SecurityDraft) {
    guard let name = draft.pins, let setting = draft.settings["pins"] else { return }
    draft.pinSet = pinSet(name, setting)
  }

  private func check(_ scope: SecurityScope) {
    checkAnchors(scope)
    checkInvalidCertificates(scope)
    checkVersions(scope)
    checkRevocation(scope)
  }

  // MARK: Anchors

  /// A rule with the system's anchors uses those of [trust], which must then be the system's.
  private func checkAnchors(_ scope: SecurityScope) {
    guard case .system = scope.own.anchors, configuration.trust != .system, let setting = scope.own.settings["anchors"]
    else { return }
    error(
      setting,
      "the anchors of [trust] are not the system's; name the system's bundle here, such as "
        + "\"/etc/ssl/certs/ca-certificates.crt\"")
  }

  // MARK: Certificates that nobody vouches for

  private func checkInvalidCertificates(_ scope: SecurityScope) {
    let effective = scope.effective
    let keys = ["allow_invalid_certificates", "validates_domain_name", "pins"]
    guard effective.allowInvalidCertificates == true, let setting = scope.blamed(keys) else { return }
    // A missing set, or an error in it, has already been reported.
    if effective.settings["pins"] != nil, effective.pinSet == nil { return }
    if let set = effective.pinSet, set.isPinning {
      guard let why = leniency(set) else { return }
      warning(setting, "any certificate is accepted, \(why)")
    } else if effective.validatesDomainName ?? true {
      error(
        setting,
        "invalid certificates are allowed, and the name on one proves nothing, because anyone can write it; pin the "
          + "server's key ('pins' with mode \"public-key\" or \"certificate\"), or trust its authority with 'anchors' "
          + "and leave 'allow_invalid_certificates' out")
    } else {
      warning(
        setting,
        "any certificate is accepted, because nothing is checked and nothing is pinned; anyone on the "
          + "way can read and change what is sent")
    }
  }

  /// Why a set of pins would refuse nothing at present; nil if it would.
  private func leniency(_ set: PinSet) -> String? {
    if !set.enforce { return "for the set \(set.name.quoted) has enforce = false" }
    if !set.failsOnExpiry, set.isExpired(at: now) {
      return "for the set \(set.name.quoted) has expired with on_expiry = \"report\""
    }
    return nil
  }

  // MARK: Versions and revocation

  private func checkVersions(_ scope: SecurityScope) {
    let standard = SecurityPolicy.Settings()
    let minimum = scope.effective.minimumVersion ?? standard.minimumVersion
    let maximum = scope.effective.maximumVersion ?? standard.maximumVersion
    warnOfOldVersions(scope, minimum, maximum)
    guard minimum > maximum, let setting = scope.blamed(["min_tls", "max_tls"]) else { return }
    let isMinimum = setting.key == "min_tls"
    let other = isMinimum ? "max_tls" : "min_tls"
    let place = scope.effective.settings[other] == nil ? " when it is not set" : ""
    error(
      setting,
      isMinimum
        ? "\"\(minimum.rawValue)\" is above 'max_tls', which is \"\(maximum.rawValue)\"\(place)"
        : "\"\(maximum.rawValue)\" is below 'min_tls', which is \"\(minimum.rawValue)\"\(place)")
  }

  /// OpenSSL supports TLS 1.0 and 1.1 only at its lowest security level, whatever the versions say.
  private func warnOfOldVersions(_ scope: SecurityScope, _ minimum: TLSVersion, _ maximum: TLSVersion) {
    guard minimum < .tls12, let setting = scope.blamed(["min_tls"]),
      !(scope.effective.ciphers?.text.contains("@SECLEVEL=0") ?? false)
    else { return }
    let instead = maximum < .tls12 ? "no server can be reached" : "TLS below 1.2 is never spoken"
    warning(setting, "\(instead) unless 'ciphers' lowers OpenSSL's security level: \"DEFAULT:@SECLEVEL=0\"")
  }

  private func checkRevocation(_ scope: SecurityScope) {
    let effective = scope.effective
    if effective.revocation == .crl, effective.settings["crl_file"] == nil, let setting = scope.blamed(["revocation"]) {
      error(setting, "\"crl\" needs the revocation lists: set 'crl_file' to a file of them, PEM or DER")
    }
    let isKnown = effective.settings["revocation"] == nil || effective.revocation != nil
    if isKnown, effective.revocation != .crl, let setting = scope.own.settings["crl_file"] {
      error(setting, "the lists are looked at with revocation = \"crl\" only; set it, or leave 'crl_file' out")
    }
  }
}

/// A security table, and the result of merging it with what it inherits.
private struct SecurityScope {
  let own: SecurityDraft
  let effective: SecurityDraft

  /// The first of the keys that the table itself sets; nil if all of them are inherited.
  func blamed(_ keys: [String]) -> Setting? { keys.lazy.compactMap { own.settings[$0] }.first }
}
