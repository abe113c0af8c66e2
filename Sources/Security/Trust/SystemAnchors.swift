// The anchors of the system, from where OpenSSL would take them: its file and its directories, or those that SSL_CERT_FILE
// and SSL_CERT_DIR name in their place; what either holds counts. Read with plain files and not through X509_STORE, so
// that the directory is read once, and not from within a handshake. For start and reload only.

import Bytes
import COpenSSL
import Glibc

extension TrustAnchors {
  /// The system's anchors. A file that SSL_CERT_FILE names and that cannot be read is a fault, and so is no anchor at all.
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
    guard !reading.objects.isEmpty else {
      return .failure(CertificateFault("expected the system's anchors in \(path) or \(directories), found none"))
    }
    return .success(TrustAnchors(reading.objects, origin: "system", endsAtIntermediates: false))
  }

  private static func variable(_ name: UnsafePointer<CChar>?) -> String? {
    name.flatMap { getenv($0) }.map { String(cString: $0) }
  }
}

private struct SystemReading {
  /// The largest file that is read, in bytes; a whole bundle has 220 KB.
  private static let largestFileBytes = 16 << 20

  private(set) var objects: [CertificateObject] = []
  /// Digests of what was read already: on Debian the directory holds once more what the file does, and a digest is
  /// cheaper than decoding.
  private var seen: Set<[UInt8]> = []

  /// The certificates of a PEM text. What is none is left out: this trusts less, not more.
  mutating func add(_ bytes: [UInt8]) {
    guard case .success(let blocks) = PEM.blocks(bytes) else { return }
    for block in blocks where Certificate.labels.contains(block.label) && seen.insert(sha256(block.der)).inserted {
      if let object = CertificateObject.decode(block.der) { objects.append(object) }
    }
  }

  /// The files of a directory under whose names OpenSSL would look: a hash of eight digits, a dot, a number.
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
    var part = [UInt8](repeating: 0, count: 64 << 10)
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
