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

extension ConfigurationReading {
  /// Largest certificate file, in bytes: twenty times the bundle of a usual system.
  static let largestCertificateFileBytes = 4 << 20
  /// Most files that one pattern or directory may match: several times the certificates of a usual system.
  static let mostCertificateFiles = 1024

  /// The certificates that `text` names, a file, pattern or directory; nil after an error.
  func certificates(_ setting: Setting, _ text: String, inDirectory pattern: String) -> [NamedCertificate]? {
    guard let paths = certificatePaths(setting, text, inDirectory: pattern) else { return nil }
    let found = paths.map { certificates(setting, file: $0) }
    // Part of the requested certificates is not enough.
    return found.contains { $0 == nil } ? nil : found.flatMap { $0 ?? [] }
  }

  /// The anchors of a bundle, or of every file in a directory; nil after an error.
  func anchors(_ setting: Setting, _ text: String) -> TrustAnchors? {
    guard let path = certificatePath(setting, text) else { return nil }
    if let known = anchorsByPath[path] { return known }
    guard let named = certificates(setting, text, inDirectory: "*") else { return nil }
    var ders: Set<[UInt8]> = []
    let distinct = named.map(\.certificate).filter { ders.insert($0.der).inserted }
    let anchors = TrustAnchors(distinct, origin: path)
    anchorsByPath[path] = anchors
    return anchors
  }

  /// A path. People put the PEM itself here, sometimes with its key, so that is not quoted.
  func certificatePath(_ setting: Setting, _ text: String) -> String? {
    guard !text.contains("-----BEGIN") else {
      error(setting, "expected the path of a file, found PEM; put it into a file")
      return nil
    }
    return path(setting, text)
  }

  // MARK: Paths

  private func certificatePaths(_ setting: Setting, _ text: String, inDirectory pattern: String) -> [String]? {
    guard let path = certificatePath(setting, text) else { return nil }
    if ConfigurationPath.isPattern(text) {
      let directory = ConfigurationPath.directory(of: setting.source.name)
      return matches(setting, text, in: directory, orElse: "no file matches \(text.quoted)")
    }
    guard files.isDirectory(path) else { return [path] }
    let what = pattern == "*" ? "no file" : "no \(pattern) file"
    return matches(setting, pattern, in: path, orElse: "the directory \(path.quoted) has \(what) in it")
  }

  /// The files, without directories, that match; `none` is reported if there are none.
  private func matches(_ setting: Setting, _ pattern: String, in directory: String, orElse none: String) -> [String]? {
    switch files.expand(pattern, in: directory) {
    case .failure(let fault):
      error(setting, "cannot list \(ConfigurationPath.join(directory, pattern).quoted): \(fault)")
      return nil
    case .success(let matches):
      let paths = matches.filter { !files.isDirectory($0) }
      let most = Self.mostCertificateFiles
      if (1...most).contains(paths.count) { return paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }
      error(setting, paths.isEmpty ? none : "expected at most \(most) files, found \(paths.count)")
      return nil
    }
  }

  // MARK: Files

  /// The certificates of one file; nil after an error.
  func certificates(_ setting: Setting, file path: String) -> [NamedCertificate]? {
    let content = certificateFiles[path] ?? readCertificates(path)
    certificateFiles[path] = content
    switch content {
    case .failure(let fault):
      error(setting, fault.description)
      return nil
    case .success(let certificates):
      let named = certificates.map { NamedCertificate(certificate: $0, path: path) }
      for certificate in named { warnOfExpiry(setting, certificate) }
      return named
    }
  }

  private func readCertificates(_ path: String) -> Result<[Certificate], FileFault> {
    switch files.read(path, limit: Self.largestCertificateFileBytes) {
    case .failure(let fault): return .failure(FileFault("cannot read \(path.quoted): \(fault)"))
    case .success(let bytes):
      noteRead(path)
      return Certificate.read(bytes).mapError { FileFault("\(path.quoted): \($0)") }
    }
  }

  private func warnOfExpiry(_ setting: Setting, _ named: NamedCertificate) {
    let end = named.certificate.notAfter
    guard let notice = expiryNotice(end, on: CalendarDate.text(end)),
      agedCertificates.insert(named.certificate).inserted
    else { return }
    warning(setting, "the certificate \(named.title) \(notice)")
  }

  func expiryNotice(_ end: Int64, on date: String) -> String? { ExpiryNotice.words(end, on: date, now: now) }
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
