// How much is asked of the certificates of a chain beyond what OpenSSL asks. Which requirement holds in which profile, and
// for which certificate of a chain, is in PathRequirements.

/// `profile` in [trust] and [rule.security].
public enum TrustProfile: String, Sendable, CaseIterable {
  /// RFC 5280 and the CA/Browser Forum's baseline requirements: what public authorities are held to. The default for the
  /// system's anchors.
  case `public`
  /// What RFC 5280 forbids, as far as the authorities of companies and of single machines keep to it. The default for
  /// anchors that an operator gives, and what holds for pinned certificates.
  case `private`
}
