// Verifies one path by OpenSSL: X509_verify_cert gets these certificates and no others, so it has no choice.

import COpenSSL

/// A path from the leaf to an anchor, and the conditions of its verification.
struct PathVerification {
  /// Debian's default and that of the handshake: 112 bits, which rejects SHA-1 and RSA below 2048 bits.
  static let securityLevel: Int32 = 2
  /// Names and name constraints use only subjectAltName, and a wildcard is a whole label.
  static let hostFlags = UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)

  let seconds: Int64
  /// The lists against which the path is checked; nil: none.
  var revocationLists: RevocationLists? = nil

  /// Verifies `path`, leaf first. The last certificate is the anchor; a single one is both. If the path does not end at
  /// an anchor, OpenSSL reports what is missing. The result is valid while the objects of `path` live.
  func verify(_ path: [OpaquePointer], endsAtAnchor: Bool = true) -> PathVerdict {
    withStack(path.dropFirst().dropLast(endsAtAnchor ? 1 : 0)) { between in
      withStack(path.suffix(endsAtAnchor ? 1 : 0)) { trusted in
        guard let context = X509_STORE_CTX_new() else { fatalError("no memory to verify a certificate") }
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, nil, path[0], between) == 1,
          X509_STORE_CTX_set_default(context, "ssl_server") == 1
        else { return .fails(PathFault(code: X509_V_ERR_UNSPECIFIED, depth: 0, certificate: path[0])) }
        X509_STORE_CTX_set0_trusted_stack(context, trusted)
        configure(context, path, anchor: endsAtAnchor ? path.last : nil)
        if X509_verify_cert(context) == 1 { return .holds(elements(ofStack: X509_STORE_CTX_get0_chain(context))) }
        return .fails(fault(in: context, leaf: path[0]))
      }
    }
  }

  /// The same, followed by the requirements of `profile` if OpenSSL accepts the path.
  func verify(_ path: [OpaquePointer], in profile: TrustProfile) -> PathVerdict {
    let verdict = verify(path)
    guard case .holds(let chain) = verdict, let violation = PathRequirement.violation(of: chain, in: profile) else {
      return verdict
    }
    return .fails(
      PathFault(
        code: X509_V_ERR_APPLICATION_VERIFICATION, depth: Int32(violation.depth),
        certificate: chain[violation.depth], violation: violation))
  }

  private func fault(in context: OpaquePointer, leaf: OpaquePointer) -> PathFault {
    let code = X509_STORE_CTX_get_error(context)
    return PathFault(
      code: code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code, depth: X509_STORE_CTX_get_error_depth(context),
      certificate: X509_STORE_CTX_get_current_cert(context) ?? leaf)
  }

  private func configure(_ context: OpaquePointer, _ path: [OpaquePointer], anchor: OpaquePointer?) {
    let parameters = X509_STORE_CTX_get0_param(context)
    X509_VERIFY_PARAM_set_time(parameters, time_t(seconds))
    X509_VERIFY_PARAM_set_auth_level(parameters, Self.securityLevel)
    X509_VERIFY_PARAM_set_hostflags(parameters, Self.hostFlags)
    // The path is followed exactly: an anchor with the name of an intermediate does not replace it.
    X509_VERIFY_PARAM_clear_flags(parameters, UInt(X509_V_FLAG_TRUSTED_FIRST))
    // requireExplicitPolicy requires a policy that is valid from end to end (RFC 5280, 6.1.5). Nothing else does.
    if path.contains(where: { X509_get_ext_by_NID($0, NID_policy_constraints, -1) >= 0 }) {
      X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_POLICY_CHECK))
    }
    if let anchor, !isSelfIssued(anchor) {
      X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }
    X509_STORE_CTX_set_verify_cb(context, forgiveFaults)
    guard let revocationLists else { return }
    X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL))
    X509_STORE_CTX_set0_crls(context, revocationLists.stack)
  }
}

/// Accepts what OpenSSL considers a fault and we do not.
private func forgiveFaults(_ isVerified: Int32, _ context: OpaquePointer?) -> Int32 {
  switch X509_STORE_CTX_get_error(context) {
  case X509_V_ERR_UNABLE_TO_GET_CRL:
    // A list is required for the leaf's issuer. For the issuers above it, lists count if they were given.
    return X509_STORE_CTX_get_error_depth(context) > 0 ? 1 : isVerified
  case X509_V_ERR_CERT_HAS_EXPIRED:
    // The last second is still valid (RFC 5280, 4.1.2.5).
    let now = X509_VERIFY_PARAM_get_time(X509_STORE_CTX_get0_param(context))
    let end = X509_STORE_CTX_get_current_cert(context).flatMap { seconds(X509_get0_notAfter($0)) }
    return end == Int64(now) ? 1 : isVerified
  default: return isVerified
  }
}

/// Whether a certificate declares itself a root: subject and key are those of its issuer.
func isSelfIssued(_ certificate: OpaquePointer) -> Bool {
  X509_get_extension_flags(certificate) & UInt32(EXFLAG_SS) != 0
}

enum PathVerdict {
  /// The chain that OpenSSL verified, leaf first.
  case holds([OpaquePointer])
  case fails(PathFault)
}

/// Why a path is not valid.
struct PathFault {
  /// X509_V_ERR_…
  let code: Int32
  /// 0: the leaf.
  let depth: Int32
  /// Valid while its chain or anchors live.
  let certificate: OpaquePointer
  /// An additional remark, as a sentence of its own.
  var note: String? = nil
  /// OpenSSL accepts the path, but it does not meet a requirement of the profile.
  var violation: PathViolation? = nil

  /// Whether the fault is in the leaf, so no other path can be better.
  var isOfLeaf: Bool {
    if let violation { return violation.isOfLeafAlone }
    guard depth == 0 else { return false }
    switch code {
    case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_INVALID_PURPOSE,
      X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION:
      return true
    default: return false
    }
  }

  /// Whether no issuer was found, or one with another key: the path goes the wrong way.
  var leadsElsewhere: Bool {
    switch code {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_CERT_UNTRUSTED:
      return true
    default: return false
    }
  }

  var kind: TrustFailure.Kind {
    switch code {
    case X509_V_ERR_CERT_HAS_EXPIRED: .expired
    case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
    default: .untrusted
    }
  }

  /// OpenSSL's words.
  var reason: String { String(cString: X509_verify_cert_error_string(Int(code))) }

  /// What is wrong with which certificate, without a full stop.
  func sentence(at seconds: Int64) -> String {
    let subject = title(certificate)
    if let violation { return violation.sentence(of: subject) }
    let sentence =
      switch code {
      case X509_V_ERR_CERT_HAS_EXPIRED:
        "the certificate \(subject) expired at \(timeText(X509_get0_notAfter(certificate))); it is \(dateText(seconds))"
      case X509_V_ERR_CERT_NOT_YET_VALID:
        "the certificate \(subject) is valid from \(timeText(X509_get0_notBefore(certificate))); it is \(dateText(seconds))"
      default:
        "\(reason), at \(subject), issued by \(quotable(distinguishedName(X509_get_issuer_name(certificate))))"
      }
    return note.map { "\(sentence); \($0)" } ?? sentence
  }

  func trustFailure(trusting anchors: TrustAnchors, at seconds: Int64) -> TrustFailure {
    let trusted =
      kind == .untrusted && violation == nil
      ? "; trusted are the anchors of \(anchors.origin) (\(anchors.count))" : ""
    return TrustFailure(kind, sentence(at: seconds) + trusted)
  }

  private func timeText(_ time: UnsafePointer<ASN1_TIME>?) -> String {
    Security.seconds(time).map(dateText) ?? "a time that cannot be read"
  }
}
