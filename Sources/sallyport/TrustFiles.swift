// The files that make programs trust the local authority: authorities.pem, bundle.pem, and truststore.jks for Java.
//
// They can be made again at any time. Commands that change an authority do this, and so does `sallyport env` if it may
// write. The expected contents are compared with the actual ones, not dates with dates, so an update of the system's
// anchors, a roll-over and an expired authority are all noticed.

import Security
import Transport

struct TrustFiles {
  /// Where Linux distributions keep the anchors of the system in one PEM file: Debian, Alpine and Arch; Fedora; SUSE;
  /// Alpine again. The variable SSL_CERT_FILE is ignored: in a shell that `sallyport env` has set up, it names
  /// bundle.pem.
  private static let systemBundles = [
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
  ]
  /// In bytes; a system's bundle has 220 KB.
  private static let largestBundleBytes = 16 << 20
  private static let mode: UInt32 = 0o644

  /// The state of a file.
  enum State {
    /// It has the expected contents.
    case current
    /// It exists, but has other contents and cannot be written.
    case stale
    /// It does not exist and cannot be written, or the system has no bundle to merge it with.
    case absent
  }

  struct States {
    let authorities: State
    let bundle: State
    let javaStore: State
  }

  let directory: AuthorityDirectory
  /// The certificates of the authorities that have not expired.
  let authorities: [UInt8]
  /// The same, after the anchors of the system and of [trust]; nil if the system has no bundle.
  let bundle: [UInt8]?
  /// The same for Java.
  let javaStore: [UInt8]?

  /// `anchors`: those of [trust], in PEM.
  init(_ directory: AuthorityDirectory, anchors: [UInt8], at seconds: Int64) throws {
    self.directory = directory
    let live = try directory.live(at: seconds).reduce(into: [UInt8]()) { $0 = Self.joined($0, $1.text) }
    authorities = live
    bundle = Self.systemAnchors().map { Self.joined(Self.joined($0, anchors), live) }
    javaStore = bundle.flatMap { JavaTrustStore.make(pem: $0) }
  }

  /// Writes what has changed, where that is allowed.
  func refresh() -> States {
    States(
      authorities: Self.refresh(directory.authoritiesPath, authorities),
      bundle: Self.refresh(directory.bundlePath, bundle),
      javaStore: Self.refresh(directory.javaStorePath, javaStore))
  }

  /// The existing files, if the expected contents are unknown.
  static func found(in directory: AuthorityDirectory) -> States {
    func state(_ path: String) -> State { Files.isReadable(path) ? .current : .absent }
    return States(
      authorities: state(directory.authoritiesPath), bundle: state(directory.bundlePath),
      javaStore: state(directory.javaStorePath))
  }

  private static func refresh(_ path: String, _ wanted: [UInt8]?) -> State {
    let found = try? Files.readGuarded(path, limit: largestBundleBytes).get().bytes
    guard let wanted else { return found == nil ? .absent : .stale }
    if found == wanted { return .current }
    if case .success = Files.replace(path, wanted, mode: mode) { return .current }
    return found == nil ? .absent : .stale
  }

  private static func systemAnchors() -> [UInt8]? {
    for path in systemBundles {
      if case .success(let bytes) = Files.read(path, limit: largestBundleBytes), !bytes.isEmpty { return bytes }
    }
    return nil
  }

  /// PEM texts one after the other, each on lines of its own.
  private static func joined(_ first: [UInt8], _ second: [UInt8]) -> [UInt8] {
    first.isEmpty || first.last == 0x0a ? first + second : first + [0x0a] + second
  }
}
