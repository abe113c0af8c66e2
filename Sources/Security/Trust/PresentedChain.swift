// What a server showed, as OpenSSL's objects.

import COpenSSL

/// What a server showed: its certificates, leaf first, and the OCSP answer that it stapled. Holds OpenSSL's X509 objects,
/// for decoding one costs 0.2 ms.
public final class PresentedChain {
  /// The most certificates of one chain that are looked at. Chains of the web have five at most; the search compares each
  /// with each.
  public static let certificateLimit = 64

  let certificates: [OpaquePointer]
  let stapledResponse: [UInt8]?

  /// Takes another reference to each X509, leaf first.
  public init(retaining certificates: [OpaquePointer], stapledResponse: [UInt8]? = nil) {
    for certificate in certificates { X509_up_ref(certificate) }
    self.certificates = certificates
    self.stapledResponse = stapledResponse
  }

  /// What the X509_STORE_CTX holds that SSL_CTX_set_cert_verify_callback hands over. Takes references of its own.
  public convenience init(storeContext: OpaquePointer, stapledResponse: [UInt8]? = nil) {
    let leaf = X509_STORE_CTX_get0_cert(storeContext)
    let others = elements(ofStack: X509_STORE_CTX_get0_untrusted(storeContext))
    // libssl puts the leaf among the others as well.
    self.init(retaining: (leaf.map { [$0] } ?? []) + others.filter { $0 != leaf }, stapledResponse: stapledResponse)
  }

  deinit { for certificate in certificates { X509_free(certificate) } }

  /// From DER, leaf first, as a Certificate message carries them.
  public static func decode(
    _ certificates: [[UInt8]], stapledResponse: [UInt8]? = nil
  ) -> Result<PresentedChain, TrustFailure> {
    guard certificates.count <= certificateLimit else {
      return .failure(
        TrustFailure(
          .untrusted,
          "the server showed \(certificates.count) certificates, of which at most \(certificateLimit) are read"))
    }
    var objects: [CertificateObject] = []
    for der in certificates {
      guard let object = CertificateObject.decode(der) else {
        let place = "\(objects.count + 1) of \(certificates.count)"
        return .failure(TrustFailure(.untrusted, "certificate \(place) that the server showed cannot be read"))
      }
      objects.append(object)
    }
    return withExtendedLifetime(objects) {
      .success(PresentedChain(retaining: objects.map(\.pointer), stapledResponse: stapledResponse))
    }
  }

  /// What each certificate says, leaf first, for people; one that cannot be written down is left out.
  public func summary() -> [Certificate] { certificates.compactMap { Certificate(x509: $0) } }
}
