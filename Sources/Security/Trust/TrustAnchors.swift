// Certificates that are trusted without anybody vouching for them. Loaded once and shared: the system's cost 16 to 19 ms
// and 0.8 MB. Kept in a table by subject, for a handshake asks for one issuer and not for all. Tests: TrustAnchorsTests.

import COpenSSL

public final class TrustAnchors: Sendable, Hashable {
  /// SHA-256 over the certificates, in an order of its own, and the profile.
  public let digest: [UInt8]
  /// For messages: "system", or the file or directory.
  public let origin: String
  public let count: Int
  /// Whether a certificate that is no self-signed root ends a chain: where an operator gave just these, not where a
  /// system's store happens to hold it.
  let endsAtIntermediates: Bool
  /// What is asked of the chains that end here, where a policy does not say.
  public let profile: TrustProfile

  /// By OpenSSL's hash of the subject, which is that of equal names however they are encoded.
  private let certificates: [UInt: [CertificateObject]]

  /// Anchors that an operator gave.
  public convenience init(_ certificates: [Certificate], origin: String) {
    self.init(
      certificates.compactMap { CertificateObject.decode($0.der) }, origin: origin, endsAtIntermediates: true)
  }

  /// One certificate that is given twice counts once. `profile` nil: that of a system's store where chains end at roots
  /// alone, and that of an operator's own anchors else.
  init(
    _ objects: [CertificateObject], origin: String, endsAtIntermediates: Bool, profile: TrustProfile? = nil
  ) {
    self.origin = origin
    self.endsAtIntermediates = endsAtIntermediates
    let profile = profile ?? (endsAtIntermediates ? .private : .public)
    self.profile = profile
    var table: [UInt: [CertificateObject]] = [:]
    var digests: Set<[UInt8]> = []
    for object in objects {
      guard let der = encoded({ i2d_X509(object.pointer, $0) }), digests.insert(sha256(der)).inserted else { continue }
      table[X509_subject_name_hash(object.pointer), default: []].append(object)
    }
    certificates = table
    count = digests.count
    let sorted = digests.sorted { $0.lexicographicallyPrecedes($1) }
    digest = sha256([endsAtIntermediates ? 1 : 0, profile == .public ? 1 : 0] + sorted.flatMap { $0 })
  }

  /// The same anchors with another profile.
  public func with(profile: TrustProfile) -> TrustAnchors {
    profile == self.profile
      ? self
      : TrustAnchors(
        certificates.values.flatMap { $0 }, origin: origin, endsAtIntermediates: endsAtIntermediates, profile: profile)
  }

  /// A bundle of PEM, or one certificate of DER; `origin` is its file, for messages. None at all is a fault: anchors of
  /// nothing would refuse everything, and say so only when the first request comes.
  public static func read(pem bytes: [UInt8], origin: String) -> Result<TrustAnchors, CertificateFault> {
    Certificate.readDER(bytes).flatMap { all in
      guard !all.isEmpty else { return .failure(CertificateFault("expected a certificate, found none")) }
      var objects: [CertificateObject] = []
      for der in all {
        guard let object = CertificateObject.decode(der) else {
          let place = all.count == 1 ? "" : " as number \(objects.count + 1) of \(all.count)"
          return .failure(CertificateFault("expected a certificate\(place), found \(DERContent.describe(der))"))
        }
        objects.append(object)
      }
      return .success(TrustAnchors(objects, origin: origin, endsAtIntermediates: true))
    }
  }

  /// The DER of each, for a bundle that programs are pointed at; in the order of their digests.
  public var certificatesDER: [[UInt8]] {
    certificates.values.joined().compactMap { object in encoded { i2d_X509(object.pointer, $0) } }
      .map { (digest: sha256($0), der: $0) }
      .sorted { $0.digest.lexicographicallyPrecedes($1.digest) }
      .map(\.der)
  }

  /// The anchors by whose name and key `certificate` may have been issued.
  func issuers(of certificate: OpaquePointer) -> [CertificateObject] {
    (certificates[X509_issuer_name_hash(certificate)] ?? [])
      .filter { mayHaveIssued($0.pointer, certificate) }
  }

  /// The anchor that is this very certificate.
  func anchor(equalTo certificate: OpaquePointer) -> CertificateObject? {
    certificates[X509_subject_name_hash(certificate)]?.first { X509_cmp($0.pointer, certificate) == 0 }
  }

  /// Every anchor that has the name of the issuer of `certificate`.
  func named(asIssuerOf certificate: OpaquePointer) -> [CertificateObject] {
    (certificates[X509_issuer_name_hash(certificate)] ?? [])
      .filter { X509_NAME_cmp(X509_get_subject_name($0.pointer), X509_get_issuer_name(certificate)) == 0 }
  }

  public static func == (left: TrustAnchors, right: TrustAnchors) -> Bool { left.digest == right.digest }
  public func hash(into hasher: inout Hasher) { hasher.combine(digest) }
}
