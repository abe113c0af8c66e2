// Whether a verified chain has been revoked: by the lists that an operator gave, or by the OCSP answer that the server
// stapled. What is not known is refused, for the policy asked for an answer. Tests: RevocationCheckTests.

import COpenSSL

struct RevocationCheck {
  let policy: SecurityPolicy
  /// Verified, leaf first.
  let path: [OpaquePointer]
  let seconds: Int64

  /// nil where the leaf is known to be good.
  func failure(stapled: [UInt8]?) -> TrustFailure? {
    switch policy.settings.revocation {
    case .none: return nil
    case .staple: return StapledAnswer(path: path, seconds: seconds).failure(of: stapled)
    case .crl: return listFailure()
    }
  }

  /// The path again, with lists: of the leaf's issuer one is required, those of other issuers count where they are given.
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
