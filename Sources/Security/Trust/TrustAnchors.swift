// Certificates that are trusted by themselves. They are loaded once and shared. A table by subject, because a handshake
// looks up one issuer. The system's are decoded when a chain first leads to them: all 140 of Debian's would cost each
// start 45 ms and 0.8 MB, and a machine uses a handful. Tests: TrustAnchorsTests.

import Bytes
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
  private let anchors: [UInt: [Anchor]]

  /// An operator's anchors.
  public convenience init(_ certificates: [Certificate], origin: String) {
    self.init(
      certificates.compactMap { CertificateObject.decode($0.der) }, origin: origin, endsAtIntermediates: true)
  }

  /// Certificates that have been decoded. `profile` nil: the system store's profile if chains end only at roots,
  /// otherwise that of an operator's anchors.
  convenience init(
    _ objects: [CertificateObject], origin: String, endsAtIntermediates: Bool, profile: TrustProfile? = nil
  ) {
    self.init(
      objects.compactMap { Anchor($0) }, origin: origin, endsAtIntermediates: endsAtIntermediates,
      profile: profile ?? (endsAtIntermediates ? .private : .public))
  }

  /// A system's certificates, which are decoded one by one when they are needed. What has no subject is left out, and
  /// what turns out to be no certificate is passed over: both can only reduce trust.
  convenience init(systems certificates: [[UInt8]]) {
    self.init(
      certificates.compactMap { Anchor(encoded: $0) }, origin: "system", endsAtIntermediates: false, profile: .public)
  }

  /// A certificate that is given twice counts once.
  private init(_ all: [Anchor], origin: String, endsAtIntermediates: Bool, profile: TrustProfile) {
    self.origin = origin
    self.endsAtIntermediates = endsAtIntermediates
    self.profile = profile
    var table: [UInt: [Anchor]] = [:]
    var digests: Set<[UInt8]> = []
    for anchor in all where digests.insert(anchor.digest).inserted { table[anchor.subject, default: []].append(anchor) }
    anchors = table
    count = digests.count
    let sorted = digests.sorted { $0.lexicographicallyPrecedes($1) }
    digest = sha256([endsAtIntermediates ? 1 : 0, profile == .public ? 1 : 0] + sorted.flatMap { $0 })
  }

  /// The same anchors with another profile.
  public func with(profile: TrustProfile) -> TrustAnchors {
    profile == self.profile
      ? self
      : TrustAnchors(
        anchors.values.flatMap { $0 }, origin: origin, endsAtIntermediates: endsAtIntermediates, profile: profile)
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
    anchors.values.joined().filter { $0.object != nil }
      .sorted { $0.digest.lexicographicallyPrecedes($1.digest) }
      .map(\.der)
  }

  /// The anchors that may have issued `certificate`, by name and key.
  func issuers(of certificate: OpaquePointer) -> [CertificateObject] {
    objects(X509_issuer_name_hash(certificate)).filter { mayHaveIssued($0.pointer, certificate) }
  }

  /// The anchor that is exactly this certificate.
  func anchor(equalTo certificate: OpaquePointer) -> CertificateObject? {
    objects(X509_subject_name_hash(certificate)).first { X509_cmp($0.pointer, certificate) == 0 }
  }

  /// Every anchor that has the name of the issuer of `certificate`.
  func named(asIssuerOf certificate: OpaquePointer) -> [CertificateObject] {
    objects(X509_issuer_name_hash(certificate))
      .filter { X509_NAME_cmp(X509_get_subject_name($0.pointer), X509_get_issuer_name(certificate)) == 0 }
  }

  /// Whether at least one is a certificate.
  var hasAny: Bool { anchors.values.joined().contains { $0.object != nil } }

  private func objects(_ subject: UInt) -> [CertificateObject] { (anchors[subject] ?? []).compactMap(\.object) }

  public static func == (left: TrustAnchors, right: TrustAnchors) -> Bool { left.digest == right.digest }
  public func hash(into hasher: inout Hasher) { hasher.combine(digest) }
}

/// One of them, which threads share.
private final class Anchor: Sendable {
  private enum State {
    case encoded
    /// nil: it is no certificate.
    case decoded(CertificateObject?)
  }

  /// In bytes: no root's has a thousand, and `DER.element` takes no more.
  private static let longestSubject = 0xffff

  let der: [UInt8]
  /// SHA-256 over `der`.
  let digest: [UInt8]
  /// OpenSSL's hash of the subject.
  let subject: UInt
  private let state: Locked<State>

  private init(_ der: [UInt8], subject: UInt, _ state: State) {
    self.der = der
    digest = sha256(der)
    self.subject = subject
    self.state = Locked(state)
  }

  convenience init?(_ object: CertificateObject) {
    guard let der = encoded({ i2d_X509(object.pointer, $0) }) else { return nil }
    self.init(der, subject: X509_subject_name_hash(object.pointer), .decoded(object))
  }

  /// nil if `der` has no subject where a certificate has one.
  convenience init?(encoded der: [UInt8]) {
    guard let subject = Self.subjectHash(der) else { return nil }
    self.init(der, subject: subject, .encoded)
  }

  /// nil if it is no certificate. The first call decodes it, in 0.1 to 0.2 ms.
  var object: CertificateObject? {
    state.withLock { state in
      if case .decoded(let object) = state { return object }
      let object = CertificateObject.decode(der)
      state = .decoded(object)
      return object
    }
  }

  /// RFC 5280, 4.1: the version may be absent; serial number, signature, issuer and validity precede the subject.
  private static func subjectHash(_ der: [UInt8]) -> UInt? {
    der.withUnsafeBufferPointer { bytes -> UInt? in
      guard let tbs = DERReader.sequence(bytes)?.first?.elements, let first = tbs.first else { return nil }
      let index = first.tag == DERElement.integer ? 4 : 5
      guard tbs.indices.contains(index), tbs[index].tag == DER.sequence, tbs[index].content.count <= longestSubject
      else { return nil }
      let name = DER.element(DER.sequence, Array(tbs[index].content))
      return withErrorsOfItsOwn {
        decoded(name, freedBy: X509_NAME_free) { d2i_X509_NAME(nil, $0, $1) }.map { name in
          defer { X509_NAME_free(name) }
          return X509_NAME_hash_ex(name, nil, nil, nil)
        }
      }
    }
  }
}
