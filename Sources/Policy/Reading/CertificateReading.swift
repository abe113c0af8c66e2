// Certificates that the configuration names: by file, by pattern, or by directory. Pins, anchors and client
// certificates share this code, so each certificate is read once, and an expired one is reported once.
//
// A path with `*`, `?` or `[` is a pattern. In a directory, a list of pins reads `*.cer`, as AFNetworking finds its
// pinned certificates, and a list of anchors reads every file. Tests: PinReadingTests, TrustReadingTests.

import Bytes
import Security

/// A certificate and the file that it came from.
struct NamedCertificate {
  let certificate: Certificate
  let path: String

  /// `'CN=a.example' in 'pins/a.cer'`
  var title: String { "\(certificate.subject.quoted) in \(path.quoted)" }
}

/// The files of one kind, each read and parsed once, and each fault found once.
private struct ParsedFiles<Value, Fault: Error & CustomStringConvertible> {
  /// Of a file, in bytes.
  let largest: Int
  let parse: ([UInt8]) -> Result<Value, Fault>
  private var byPath: [String: Result<Value, FileFault>] = [:]

  init(largest: Int, parse: @escaping ([UInt8]) -> Result<Value, Fault>) {
    self.largest = largest
    self.parse = parse
  }

  /// nil after an error.
  mutating func content(of path: String, _ setting: Setting, by reading: ConfigurationReading) -> Value? {
    let content = byPath[path] ?? read(path, reading.files)
    byPath[path] = content
    switch content {
    case .success(let value): return value
    case .failure(let fault):
      reading.error(setting, fault.description)
      return nil
    }
  }

  private func read(_ path: String, _ files: RememberedFiles) -> Result<Value, FileFault> {
    files.read(path, limit: largest).mapError { FileFault("cannot read \(path.quoted): \($0)") }
      .flatMap { parse($0).mapError { FileFault("\(path.quoted): \($0)") } }
  }
}

/// The certificates of a load, each file read and parsed once.
final class CertificateMemory {
  /// Largest certificate file, in bytes: twenty times the bundle of a usual system.
  static let largestFileBytes = 4 << 20
  /// Largest file of revocation lists, in bytes: the largest that public authorities publish are of this order.
  private static let largestRevocationListBytes = 16 << 20
  /// Most files that one pattern or directory may match: several times the certificates of a usual system.
  static let mostFiles = 1024

  private var certificates = ParsedFiles(largest: largestFileBytes, parse: Certificate.read)
  private var revocationLists = ParsedFiles(largest: largestRevocationListBytes, parse: Revocation.readList)
  private var anchorsByPath: [String: TrustAnchors] = [:]
  /// Certificates whose expiry has been reported, for whichever file came first.
  private var aged: Set<Certificate> = []

  /// The certificates that `text` names, a file, pattern or directory; nil after an error.
  func certificates(
    _ text: String, _ setting: Setting, inDirectory pattern: String, by reading: ConfigurationReading
  ) -> [NamedCertificate]? {
    guard let paths = Self.paths(text, setting, inDirectory: pattern, by: reading) else { return nil }
    let found = paths.map { certificates(at: $0, setting, by: reading) }
    // Part of the requested certificates is not enough.
    return found.contains { $0 == nil } ? nil : found.flatMap { $0 ?? [] }
  }

  /// The anchors of a bundle, or of every file in a directory; nil after an error.
  func anchors(_ text: String, _ setting: Setting, by reading: ConfigurationReading) -> TrustAnchors? {
    guard let path = Self.path(text, setting, by: reading) else { return nil }
    if let known = anchorsByPath[path] { return known }
    guard let named = certificates(text, setting, inDirectory: "*", by: reading) else { return nil }
    var ders: Set<[UInt8]> = []
    let distinct = named.map(\.certificate).filter { ders.insert($0.der).inserted }
    let anchors = TrustAnchors(distinct, origin: path)
    anchorsByPath[path] = anchors
    return anchors
  }

  // MARK: Paths

  /// A path. People put the PEM itself here, sometimes with its key, so that is not quoted.
  static func path(_ text: String, _ setting: Setting, by reading: ConfigurationReading) -> String? {
    guard !text.contains("-----BEGIN") else {
      reading.error(setting, "expected the path of a file, found PEM; put it into a file")
      return nil
    }
    return reading.path(setting, text)
  }

  private static func paths(
    _ text: String, _ setting: Setting, inDirectory pattern: String, by reading: ConfigurationReading
  ) -> [String]? {
    guard let path = path(text, setting, by: reading) else { return nil }
    if ConfigurationPath.isPattern(text) {
      let directory = ConfigurationPath.directory(of: setting.source.name)
      return matches(text, in: directory, setting, orElse: "no file matches \(text.quoted)", by: reading)
    }
    guard reading.files.isDirectory(path) else { return [path] }
    let what = pattern == "*" ? "no file" : "no \(pattern) file"
    return matches(
      pattern, in: path, setting, orElse: "the directory \(path.quoted) has \(what) in it", by: reading)
  }

  /// The files, without directories, that match; `none` is reported if there are none.
  private static func matches(
    _ pattern: String, in directory: String, _ setting: Setting, orElse none: String, by reading: ConfigurationReading
  ) -> [String]? {
    switch reading.files.expand(pattern, in: directory) {
    case .failure(let fault):
      reading.error(setting, "cannot list \(ConfigurationPath.join(directory, pattern).quoted): \(fault)")
      return nil
    case .success(let matches):
      let paths = matches.filter { !reading.files.isDirectory($0) }
      if (1...mostFiles).contains(paths.count) { return paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }
      reading.error(setting, paths.isEmpty ? none : "expected at most \(mostFiles) files, found \(paths.count)")
      return nil
    }
  }

  // MARK: Files

  /// The certificates of one file; nil after an error.
  func certificates(at path: String, _ setting: Setting, by reading: ConfigurationReading) -> [NamedCertificate]? {
    guard let found = certificates.content(of: path, setting, by: reading) else { return nil }
    let named = found.map { NamedCertificate(certificate: $0, path: path) }
    for certificate in named { warnOfExpiry(of: certificate, setting, by: reading) }
    return named
  }

  /// The revocation lists of one file; nil after an error.
  func revocationLists(_ text: String, _ setting: Setting, by reading: ConfigurationReading) -> [[UInt8]]? {
    guard let path = Self.path(text, setting, by: reading) else { return nil }
    return revocationLists.content(of: path, setting, by: reading)
  }

  private func warnOfExpiry(of named: NamedCertificate, _ setting: Setting, by reading: ConfigurationReading) {
    guard let notice = ExpiryNotice.words(named.certificate.notAfter, now: reading.files.now),
      aged.insert(named.certificate).inserted
    else { return }
    reading.warning(setting, "the certificate \(named.title) \(notice)")
  }
}

/// What is said of something that ends soon or has ended.
public enum ExpiryNotice {
  /// How long before the end, in seconds: time to get a certificate and to roll a policy out.
  public static let seconds = 30 * CalendarTime.secondsPerDay

  /// `has expired on 2027-06-01` or `expires on 2027-06-01, in 3 days`; nil if that is far off. `end`: the first second
  /// in which it no longer holds.
  public static func words(_ end: Int64, on date: String? = nil, now: Int64) -> String? {
    let date = date ?? CalendarDate.text(end)
    let left = end - now
    if left <= 0 { return "has expired on \(date)" }
    guard left <= seconds else { return nil }
    let days = left / CalendarTime.secondsPerDay
    return "expires on \(date), in \(days == 0 ? "less than a day" : .counted(days, "day"))"
  }
}
