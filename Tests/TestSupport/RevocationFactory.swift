// What says of certificates that they are revoked, or not: OCSP answers and revocation lists for tests.

import COpenSSL

/// An OCSP answer to be made.
public struct AnswerPlan: Sendable {
  public enum Status: Sendable { case good, revoked, unknown }

  public var status = Status.good
  /// Seconds since 1970.
  public var thisUpdate: Int64
  /// nil: the answer does not say until when it holds.
  public var nextUpdate: Int64?
  public var usesSHA256 = false
  /// The digest of the signature.
  public var isSignedWithSHA1 = false

  public init(thisUpdate: Int64, nextUpdate: Int64?) {
    self.thisUpdate = thisUpdate
    self.nextUpdate = nextUpdate
  }

  /// The DER of a response about `certificate`, issued by `issuer`, that `responder` signs.
  public func response(
    about certificate: TestCertificate, issuedBy issuer: TestCertificate, signedBy responder: TestCertificate
  ) -> [UInt8] {
    defer { withExtendedLifetime((certificate, issuer, responder)) {} }
    guard let basic = OCSP_BASICRESP_new() else { fatalError("no answer") }
    defer { OCSP_BASICRESP_free(basic) }
    guard let id = OCSP_cert_to_id(usesSHA256 ? EVP_sha256() : EVP_sha1(), certificate.x509, issuer.x509) else {
      fatalError("no id")
    }
    defer { OCSP_CERTID_free(id) }
    let from = ASN1_TIME_set(nil, time_t(thisUpdate))
    let until = nextUpdate.map { ASN1_TIME_set(nil, time_t($0)) } ?? nil
    let since = ASN1_TIME_set(nil, time_t(thisUpdate))
    defer { for time in [from, until, since] { ASN1_TIME_free(time) } }
    let code: Int32 =
      switch status {
      case .good: V_OCSP_CERTSTATUS_GOOD
      case .revoked: V_OCSP_CERTSTATUS_REVOKED
      case .unknown: V_OCSP_CERTSTATUS_UNKNOWN
      }
    let generalized = ASN1_TIME_to_generalizedtime(from, nil)
    let generalizedUntil = until.map { ASN1_TIME_to_generalizedtime($0, nil) } ?? nil
    defer { for time in [generalized, generalizedUntil] { ASN1_GENERALIZEDTIME_free(time) } }
    let reason = status == .revoked ? OCSP_REVOKED_STATUS_KEYCOMPROMISE : 0
    OCSP_basic_add1_status(basic, id, code, reason, since, generalized, generalizedUntil)
    let digest = isSignedWithSHA1 ? EVP_sha1() : EVP_sha256()
    guard OCSP_basic_sign(basic, responder.x509, responder.key.pointer, digest, nil, 0) == 1 else {
      fatalError("no signature")
    }
    return Self.response(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic)
  }

  /// The DER of a response that carries a status and nothing else.
  public static func error(_ status: Int32) -> [UInt8] { response(status, nil) }

  private static func response(_ status: Int32, _ basic: OpaquePointer?) -> [UInt8] {
    guard let response = OCSP_response_create(status, basic) else { fatalError("no response") }
    defer { OCSP_RESPONSE_free(response) }
    return written { i2d_OCSP_RESPONSE(response, $0) }
  }
}

/// A revocation list to be made.
public struct ListPlan: Sendable {
  /// Seconds since 1970.
  public var lastUpdate: Int64
  public var nextUpdate: Int64
  public var revokedSerialNumbers: [Int64] = []

  public init(lastUpdate: Int64, nextUpdate: Int64) {
    self.lastUpdate = lastUpdate
    self.nextUpdate = nextUpdate
  }

  /// The DER of a list in `issuer`'s name that `signer` signs, itself where none is given.
  public func list(of issuer: TestCertificate, signedBy signer: TestCertificate? = nil) -> [UInt8] {
    defer { withExtendedLifetime((issuer, signer)) {} }
    guard let list = X509_CRL_new() else { fatalError("no list") }
    defer { X509_CRL_free(list) }
    X509_CRL_set_version(list, 1)
    X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.x509))
    let from = ASN1_TIME_set(nil, time_t(lastUpdate))
    let until = ASN1_TIME_set(nil, time_t(nextUpdate))
    defer { for time in [from, until] { ASN1_TIME_free(time) } }
    X509_CRL_set1_lastUpdate(list, from)
    X509_CRL_set1_nextUpdate(list, until)
    for number in revokedSerialNumbers {
      let entry = X509_REVOKED_new()
      let serial = ASN1_INTEGER_new()
      ASN1_INTEGER_set_int64(serial, number)
      X509_REVOKED_set_serialNumber(entry, serial)
      X509_REVOKED_set_revocationDate(entry, from)
      X509_CRL_add0_revoked(list, entry)
      ASN1_INTEGER_free(serial)
    }
    X509_CRL_sort(list)
    guard X509_CRL_sign(list, (signer ?? issuer).key.pointer, EVP_sha256()) > 0 else { fatalError("no signature") }
    return written { i2d_X509_CRL(list, $0) }
  }
}
