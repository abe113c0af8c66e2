// Certificates that are trusted by themselves. They are loaded once and shared: the system's cost 16 to 19 ms and 0.8
// MB. A table by subject, because a handshake looks up one issuer. Tests: TrustAnchorsTests.

import COpenSSL

public final class TrustAnchors: Sendable, Hashable {
  /// SHA-256 over the certificates, in a fixed order, and the profile.
  public let digest: [UInt8]
  /// For messages: "system", or the file or directory.
  public let origin: String
  public let count: Int
  /// Whether a chain may end at a certificate that is not a self-signed root: true if an operator gave these
  /// certificates, false for a system's store that happens to have one.
  let endsAtIntermediates: Bool
  /// The requirements on chains that end here, unless a policy sets its own.
  public let profile: TrustProfile

  /// By OpenSSL's hash of the subject. Equal names have the same hash in any encoding.
  private let certificates: [UInt: [CertificateObject]]

  /// An operator's anchors.
  public convenience init(_ certificates: [Certificate], origin: String) {
    self.init(
      certificates.compactMap { CertificateObject.decode($0.der) }, origin: origin, endsAtIntermediates: true)
  }

  /// A certificate that is given twice counts once. `profile` nil: the system store's profile if chains end only at
  /// roots, otherwise that of an operator's anchors.
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

  /// A PEM bundle, or one DER certificate; `origin` is its file, for messages. An empty bundle is an error: it would
  /// reject everything, and only show when the first request comes.
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

  /// The DER of each, ordered by digest, for a bundle that programs are given.
  public var certificatesDER: [[UInt8]] {
    certificates.values.joined().compactMap { object in encoded { i2d_X509(object.pointer, $0) } }
      .map { (digest: sha256($0), der: $0) }
      .sorted { $0.digest.lexicographicallyPrecedes($1.digest) }
      .map(\.der)
  }

  /// The anchors that may have issued `certificate`, by name and key.
  func issuers(of certificate: OpaquePointer) -> [CertificateObject] {
    (certificates[X509_issuer_name_hash(certificate)] ?? [])
      .filter { mayHaveIssued($0.pointer, certificate) }
  }

  /// The anchor that is exactly this certificate.
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
