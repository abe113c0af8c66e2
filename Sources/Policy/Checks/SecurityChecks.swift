// [rule.security], [defaults.security] and [routes.NAME.security] as a whole: names that refer to nothing, and keys
// that contradict each other, one of which may be inherited. A contradiction is reported at the rule's own part in it.
// If all of it is inherited, it has been reported at [defaults.security]. Tests: SecurityReadingTests.

import Security

/// The check of a security table, and of the result of merging it with what it inherits.
struct SecurityCheck {
  let own: SecurityDraft
  let effective: SecurityDraft
  /// [trust]
  let trust: TrustSource
  let reading: ConfigurationReading

  func run() {
    checkAnchors()
    checkInvalidCertificates()
    checkVersions()
    checkRevocation()
  }

  /// The first of the keys that the table itself sets; nil if all of them are inherited.
  private func blamed(_ keys: [String]) -> Setting? { keys.lazy.compactMap { own.settings[$0] }.first }

  // MARK: Anchors

  /// A rule with the system's anchors uses those of [trust], which must then be the system's.
  private func checkAnchors() {
    guard case .system = own.anchors, trust != .system, let setting = own.settings["anchors"]
    else { return }
    reading.error(
      setting,
      "the anchors of [trust] are not the system's; name the system's bundle here, such as "
        + "\"/etc/ssl/certs/ca-certificates.crt\"")
  }

  // MARK: Certificates that nobody vouches for

  private func checkInvalidCertificates() {
    let keys = ["allow_invalid_certificates", "validates_domain_name", "pins"]
    guard effective.allowInvalidCertificates == true, let setting = blamed(keys) else { return }
    // A missing set, or an error in it, has already been reported.
    if effective.settings["pins"] != nil, effective.pinSet == nil { return }
    if let set = effective.pinSet, set.isPinning {
      guard let why = leniency(set) else { return }
      reading.warning(setting, "any certificate is accepted, \(why)")
    } else if effective.validatesDomainName ?? true {
      reading.error(
        setting,
        "invalid certificates are allowed, and the name on one proves nothing, because anyone can write it; pin the "
          + "server's key ('pins' with mode \"public-key\" or \"certificate\"), or trust its authority with 'anchors' "
          + "and leave 'allow_invalid_certificates' out")
    } else {
      reading.warning(
        setting,
        "any certificate is accepted, because nothing is checked and nothing is pinned; anyone on the "
          + "way can read and change what is sent")
    }
  }

  /// Why a set of pins would refuse nothing at present; nil if it would.
  private func leniency(_ set: PinSet) -> String? {
    if !set.enforce { return "for the set \(set.name.quoted) has enforce = false" }
    if !set.failsOnExpiry, set.isExpired(at: reading.files.now) {
      return "for the set \(set.name.quoted) has expired with on_expiry = \"report\""
    }
    return nil
  }

  // MARK: Versions and revocation

  private func checkVersions() {
    let standard = SecurityPolicy.Settings()
    let minimum = effective.minimumVersion ?? standard.minimumVersion
    let maximum = effective.maximumVersion ?? standard.maximumVersion
    warnOfOldVersions(minimum, maximum)
    guard minimum > maximum, let setting = blamed(["min_tls", "max_tls"]) else { return }
    let isMinimum = setting.key == "min_tls"
    let other = isMinimum ? "max_tls" : "min_tls"
    let place = effective.settings[other] == nil ? " when it is not set" : ""
    reading.error(
      setting,
      isMinimum
        ? "\"\(minimum.rawValue)\" is above 'max_tls', which is \"\(maximum.rawValue)\"\(place)"
        : "\"\(maximum.rawValue)\" is below 'min_tls', which is \"\(minimum.rawValue)\"\(place)")
  }

  /// OpenSSL supports TLS 1.0 and 1.1 only at its lowest security level, whatever the versions say.
  private func warnOfOldVersions(_ minimum: TLSVersion, _ maximum: TLSVersion) {
    guard minimum < .tls12, let setting = blamed(["min_tls"]),
      !(effective.ciphers?.text.contains("@SECLEVEL=0") ?? false)
    else { return }
    let instead = maximum < .tls12 ? "no server can be reached" : "TLS below 1.2 is never spoken"
    reading.warning(setting, "\(instead) unless 'ciphers' lowers OpenSSL's security level: \"DEFAULT:@SECLEVEL=0\"")
  }

  private func checkRevocation() {
    if effective.revocation == .crl, effective.settings["crl_file"] == nil, let setting = blamed(["revocation"]) {
      reading.error(setting, "\"crl\" needs the revocation lists: set 'crl_file' to a file of them, PEM or DER")
    }
    let isKnown = effective.settings["revocation"] == nil || effective.revocation != nil
    if isKnown, effective.revocation != .crl, let setting = own.settings["crl_file"] {
      reading.error(setting, "the lists are looked at with revocation = \"crl\" only; set it, or leave 'crl_file' out")
    }
  }
}
