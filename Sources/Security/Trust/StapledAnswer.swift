// A stapled OCSP answer (RFC 6960): signed by the leaf's issuer or a responder that the issuer authorized, about this
// leaf, and current. Tests: RevocationCheckTests.

import COpenSSL

struct StapledAnswer {
  /// The most that the clocks of a responder and this machine may differ, in seconds: as in OpenSSL's own client.
  static let clockSkewSeconds: Int64 = 300
  /// The most answers of one response that are considered; a server staples one.
  private static let answerLimit: Int32 = 16

  /// Verified, leaf first.
  let path: [OpaquePointer]
  let seconds: Int64

  /// nil if the response says that the leaf is good.
  func failure(of response: [UInt8]?) -> TrustFailure? {
    guard let response, !response.isEmpty else { return unknown("the server stapled none") }
    guard path.count > 1 else { return unknown("the certificate is itself an anchor, and has no issuer to ask") }
    guard let message = decoded(response, freedBy: OCSP_RESPONSE_free, { d2i_OCSP_RESPONSE(nil, $0, $1) }) else {
      return unknown("the stapled one is malformed")
    }
    defer { OCSP_RESPONSE_free(message) }
    let status = OCSP_response_status(message)
    guard status == OCSP_RESPONSE_STATUS_SUCCESSFUL else {
      return unknown("the responder says '\(String(cString: OCSP_response_status_str(Int(status))))'")
    }
    guard let basic = OCSP_response_get1_basic(message) else { return unknown("the stapled one is of another kind") }
    defer { OCSP_BASICRESP_free(basic) }
    return signatureFailure(basic) ?? answerFailure(basic)
  }

  private func unknown(_ seen: String) -> TrustFailure {
    TrustFailure(.revocationUnknown, "expected a current OCSP answer for \(title(path[0])): \(seen)")
  }

  /// The issuer is the only anchor. It must have certified a delegated responder directly, and for this purpose.
  private func signatureFailure(_ basic: OpaquePointer) -> TrustFailure? {
    guard let store = X509_STORE_new(), X509_STORE_add_cert(store, path[1]) == 1 else {
      fatalError("no memory to verify an OCSP answer")
    }
    defer { X509_STORE_free(store) }
    let parameters = X509_STORE_get0_param(store)
    X509_VERIFY_PARAM_set_time(parameters, time_t(seconds))
    X509_VERIFY_PARAM_set_auth_level(parameters, PathVerification.securityLevel)
    X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    // Entries already in the queue belong to other calls, and a failure need not add one.
    let before = ERR_peek_last_error()
    let isVerified = withStack([path[1]]) { OCSP_basic_verify(basic, $0, store, UInt(OCSP_NOEXPLICIT)) == 1 }
    guard isVerified else {
      let code = ERR_peek_last_error()
      let reason = code == before ? nil : ERR_reason_error_string(code)
      return unknown("the stapled one is not the issuer's\(reason.map { " (\(String(cString: $0)))" } ?? "")")
    }
    return isSignatureWeak(basic) ? unknown("the stapled one is signed with SHA-1 or less") : nil
  }

  private func isSignatureWeak(_ basic: OpaquePointer) -> Bool {
    var object: OpaquePointer?
    X509_ALGOR_get0(&object, nil, nil, OCSP_resp_get0_tbs_sigalg(basic))
    var digest: Int32 = 0
    guard OBJ_find_sigid_algs(OBJ_obj2nid(object), &digest, nil) == 1 else { return true }
    return [NID_sha1, NID_md5, NID_md5_sha1, NID_md4, NID_md2].contains(digest)
  }

  private func answerFailure(_ basic: OpaquePointer) -> TrustFailure? {
    for index in 0..<min(OCSP_resp_count(basic), Self.answerLimit) {
      guard let answer = OCSP_resp_get0(basic, index), isAboutLeaf(answer) else { continue }
      return failure(ofAnswer: answer)
    }
    return unknown("the stapled one is about another certificate")
  }

  /// The certificate is identified by hashes. The responder chooses the hash function.
  private func isAboutLeaf(_ answer: OpaquePointer) -> Bool {
    let id = OCSP_SINGLERESP_get0_id(answer)
    var algorithm: OpaquePointer?
    OCSP_id_get0_info(nil, &algorithm, nil, nil, id)
    guard let name = OBJ_nid2sn(OBJ_obj2nid(algorithm)), let digest = EVP_get_digestbyname(name),
      let wanted = OCSP_cert_to_id(digest, path[0], path[1])
    else { return false }
    defer { OCSP_CERTID_free(wanted) }
    return OCSP_id_cmp(wanted, id) == 0
  }

  private func failure(ofAnswer answer: OpaquePointer) -> TrustFailure? {
    var reason: Int32 = 0
    var revocationTime: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
    var thisUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
    var nextUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
    switch OCSP_single_get0_status(answer, &reason, &revocationTime, &thisUpdate, &nextUpdate) {
    case V_OCSP_CERTSTATUS_GOOD: return ageFailure(thisUpdate, nextUpdate)
    case V_OCSP_CERTSTATUS_REVOKED:
      // Of any age: a revoked certificate stays revoked.
      let time = Security.seconds(revocationTime).map { " at \(dateText($0))" } ?? ""
      let why = reason < 0 ? "" : " (\(String(cString: OCSP_crl_reason_str(Int(reason)))))"
      return TrustFailure(.revoked, "the certificate \(title(path[0])) was revoked\(time)\(why), says its issuer")
    default: return unknown("the responder does not know the certificate")
    }
  }

  /// An answer without an end of validity could be replayed for ever.
  private func ageFailure(
    _ thisUpdate: UnsafePointer<ASN1_GENERALIZEDTIME>?, _ nextUpdate: UnsafePointer<ASN1_GENERALIZEDTIME>?
  ) -> TrustFailure? {
    guard let from = Security.seconds(thisUpdate) else { return unknown("the stapled one has no time") }
    guard let until = Security.seconds(nextUpdate) else {
      return unknown("the stapled one says not until when it holds")
    }
    if from - Self.clockSkewSeconds > seconds {
      return unknown("the stapled one holds from \(dateText(from)); it is \(dateText(seconds))")
    }
    if until + Self.clockSkewSeconds < seconds {
      return unknown("the stapled one held until \(dateText(until)); it is \(dateText(seconds))")
    }
    return nil
  }
}
