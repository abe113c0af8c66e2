// What a server presented, as OpenSSL's objects.

import COpenSSL

/// What a server presented: its certificates, leaf first, and the OCSP answer that it stapled. It keeps OpenSSL's X509
/// objects, because decoding one costs 0.2 ms.
public final class PresentedChain {
  /// The most certificates of one chain that are considered. Chains on the web have five at most, and the search
  /// compares each with each.
  public static let certificateLimit = 64

  let certificates: [OpaquePointer]
  let stapledResponse: [UInt8]?

  /// Retains each X509, leaf first.
  public init(retaining certificates: [OpaquePointer], stapledResponse: [UInt8]? = nil) {
    for certificate in certificates { X509_up_ref(certificate) }
    self.certificates = certificates
    self.stapledResponse = stapledResponse
  }

  /// The contents of the X509_STORE_CTX that SSL_CTX_set_cert_verify_callback passes. Retains them.
  public convenience init(storeContext: OpaquePointer, stapledResponse: [UInt8]? = nil) {
    let leaf = X509_STORE_CTX_get0_cert(storeContext)
    let others = elements(ofStack: X509_STORE_CTX_get0_untrusted(storeContext))
    // libssl also puts the leaf among the others.
    self.init(retaining: (leaf.map { [$0] } ?? []) + others.filter { $0 != leaf }, stapledResponse: stapledResponse)
  }

  deinit { for certificate in certificates { X509_free(certificate) } }

  /// From DER, leaf first, as in a Certificate message.
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

  /// The certificates as values for people, leaf first. Certificates that cannot be read are left out.
  public func summary() -> [Certificate] { certificates.compactMap { Certificate(x509: $0) } }
}
