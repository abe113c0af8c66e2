// How much is required of the certificates of a chain beyond OpenSSL's checks. PathRequirements lists each requirement
// with its profiles and certificates.

/// `profile` in [trust] and [rule.security].
public enum TrustProfile: String, Sendable, CaseIterable {
  /// RFC 5280 and the CA/Browser Forum's baseline requirements: the rules for public authorities. The default for the
  /// system's anchors.
  case `public`
  /// What RFC 5280 forbids, as far as the authorities of companies and single machines follow it. The default for an
  /// operator's anchors; always used for pinned certificates.
  case `private`
}
