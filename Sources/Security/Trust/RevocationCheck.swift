// Whether a verified chain has been revoked, according to an operator's lists or the server's stapled OCSP answer.
// Without an answer the chain is rejected, because the policy requires one. Tests: RevocationCheckTests.

import COpenSSL

struct RevocationCheck {
  let policy: SecurityPolicy
  /// Verified, leaf first.
  let path: [OpaquePointer]
  let seconds: Int64

  /// nil if the leaf is known to be good.
  func failure(stapled: [UInt8]?) -> TrustFailure? {
    switch policy.settings.revocation {
    case .none: return nil
    case .staple: return StapledAnswer(path: path, seconds: seconds).failure(of: stapled)
    case .crl: return listFailure()
    }
  }

  /// Verifies the path again, with lists. One is required for the leaf's issuer; lists of other issuers count if they
  /// were given.
  private func listFailure() -> TrustFailure? {
    guard let lists = policy.revocationLists else {
      return TrustFailure(.revocationUnknown, "the revocation lists of the policy cannot be read")
    }
    guard case .fails(let fault) = PathVerification(seconds: seconds, revocationLists: lists).verify(path) else {
      return nil
    }
    if fault.code == X509_V_ERR_CERT_REVOKED {
      return TrustFailure(.revoked, "the certificate \(title(fault.certificate)) is on its issuer's revocation list")
    }
    let subject = title(fault.certificate)
    return TrustFailure(
      .revocationUnknown,
      "expected a current revocation list for \(subject): \(fault.reason); it is \(dateText(seconds))")
  }
}
