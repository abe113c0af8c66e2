// The supported content codings (RFC 9110, 8.4.1), and the Content-Encoding field that lists them.
//
// How it is tested: Tests/SerializationTests/ContentCodingTests.swift.

import Bytes

/// A content coding; `identity` means none. The raw value is its registered name.
public enum ContentCoding: String, Sendable, CaseIterable {
  case gzip
  /// The zlib format (RFC 1950), or deflate without a wrapper (RFC 1951), which some servers send under this name.
  case deflate
  /// RFC 7932
  case br
  /// RFC 8878
  case zstd

  /// The coding with this name, in any case. `x-gzip` is gzip (RFC 9110, 8.4.1.3).
  init?(_ bytes: Span<UInt8>, _ name: Range<Int>) {
    if bytes.equals(name, ignoringCase: "gzip") || bytes.equals(name, ignoringCase: "x-gzip") {
      self = .gzip
    } else if bytes.equals(name, ignoringCase: "deflate") {
      self = .deflate
    } else if bytes.equals(name, ignoringCase: "br") {
      self = .br
    } else if bytes.equals(name, ignoringCase: "zstd") {
      self = .zstd
    } else {
      return nil
    }
  }
}

/// Reads the Content-Encoding fields of a message, one value after the other.
public struct ContentEncoding: Sendable {
  /// The result.
  public enum Reading: Equatable, Sendable {
    /// The codings in the order in which they were applied, at most `mostCodings`; empty for a body without a coding.
    case codings([ContentCoding])
    /// An unsupported coding: its name, shortened and made printable.
    case unknown(String)
    /// More codings than `mostCodings`.
    case tooMany
  }

  /// The most codings of one body. Two occur when a server encodes what is already encoded. Each further one would
  /// multiply the size that a small body can expand to.
  public static let mostCodings = 2
  /// The most characters of an unknown name that are shown; the longest registered name has 15.
  static let longestShownName = 32

  public private(set) var reading = Reading.codings([])

  public init() {}

  /// Reads the value of the next field. The first error stays.
  public mutating func read(_ value: Span<UInt8>) {
    guard case .codings(var codings) = reading else { return }
    var elements = ListElements(0..<value.count)
    while let element = elements.next(value) {
      if value.equals(element, ignoringCase: "identity") { continue }
      guard let coding = ContentCoding(value, element) else {
        reading = .unknown(Self.shown(value.extracting(element)))
        return
      }
      if codings.count == Self.mostCodings {
        reading = .tooMany
        return
      }
      codings.append(coding)
    }
    reading = .codings(codings)
  }

  private static func shown(_ name: Span<UInt8>) -> String {
    var text = ""
    for index in 0..<min(name.count, longestShownName) {
      let isPrintable = name[index] > 0x20 && name[index] < 0x7f
      text.unicodeScalars.append(isPrintable ? Unicode.Scalar(name[index]) : "?")
    }
    return name.count > longestShownName ? text + "…" : text
  }
}
