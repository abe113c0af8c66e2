// The system's anchors, from where OpenSSL would take them: its file and its directories, or those that SSL_CERT_FILE
// and SSL_CERT_DIR name instead. All of them count. They are read as plain files and not through X509_STORE, so that
// the directory is read once and not during a handshake. Only for start and reload.

import Bytes
import COpenSSL
import Glibc

extension TrustAnchors {
  /// The system's anchors. It is an error if a file named by SSL_CERT_FILE cannot be read, or if there is no anchor at
  /// all.
  public static func system() -> Result<TrustAnchors, CertificateFault> {
    let file = variable(X509_get_default_cert_file_env())
    let path = file ?? String(cString: X509_get_default_cert_file())
    let directories = variable(X509_get_default_cert_dir_env()) ?? String(cString: X509_get_default_cert_dir())
    var reading = SystemReading()
    switch SystemReading.contents(of: path) {
    case .success(let bytes): reading.add(bytes)
    case .failure(let fault): if file != nil { return .failure(fault) }
    }
    for directory in directories.split(separator: ":") { reading.addDirectory(String(directory)) }
    let anchors = TrustAnchors(systems: reading.certificates)
    guard anchors.hasAny else {
      return .failure(CertificateFault("expected the system's anchors in \(path) or \(directories), found none"))
    }
    return .success(anchors)
  }

  private static func variable(_ name: UnsafePointer<CChar>?) -> String? {
    name.flatMap { getenv($0) }.map { String(cString: $0) }
  }
}

private struct SystemReading {
  /// The largest file that is read, in bytes; a whole bundle has 220 KB.
  private static let largestFileBytes = 16 << 20

  /// The DER of each, in order.
  private(set) var certificates: [[UInt8]] = []
  /// The same. On Debian, the directory repeats the contents of the file.
  private var seen: Set<[UInt8]> = []

  /// Adds the certificates of a PEM text. Anything else is skipped: this can only reduce trust.
  mutating func add(_ bytes: [UInt8]) {
    guard case .success(let blocks) = PEM.blocks(bytes) else { return }
    for block in blocks where Certificate.labels.contains(block.label) && seen.insert(block.der).inserted {
      certificates.append(block.der)
    }
  }

  /// Adds the files of a directory that have the names OpenSSL looks for: a hash of eight digits, a dot, a number.
  mutating func addDirectory(_ path: String) {
    guard let directory = opendir(path) else { return }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
      }
      if Self.isHashed(name) { names.append(name) }
    }
    for name in names.sorted() {
      if case .success(let bytes) = Self.contents(of: "\(path)/\(name)") { add(bytes) }
    }
  }

  private static func isHashed(_ name: String) -> Bool {
    let parts = name.utf8.split(separator: 0x2e, omittingEmptySubsequences: false)
    return parts.count == 2 && parts[0].count == 8 && parts[0].allSatisfy { $0.hexadecimalValue != nil }
      && !parts[1].isEmpty && parts[1].allSatisfy(\.isASCIIDigit)
  }

  static func contents(of path: String) -> Result<[UInt8], CertificateFault> {
    func fault() -> CertificateFault { CertificateFault("cannot read \(path): \(String(cString: strerror(errno)))") }
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return .failure(fault()) }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    // Most files hold one certificate of 2 KB.
    var part = [UInt8](repeating: 0, count: 4 << 10)
    while true {
      let count = read(descriptor, &part, part.count)
      if count < 0 && errno == EINTR { continue }
      if count < 0 { return .failure(fault()) }
      if count == 0 { return .success(bytes) }
      bytes += part.prefix(count)
      guard bytes.count <= largestFileBytes else {
        return .failure(CertificateFault("cannot read \(path): it is larger than \(largestFileBytes) bytes"))
      }
    }
  }
}
