// A normalized URL for comparing URLs that people write: the scheme and host are case-insensitive, the scheme's default
// port may be omitted, and an empty path is `/` (RFC 9110, 4.2.3). Tests: ComparableURLTests.

import Bytes

public struct ComparableURL: Hashable, Sendable {
  private let bytes: [UInt8]

  /// The host, without a port, as listings show it; nil if the URL has none.
  public let host: String?

  public init(_ url: [UInt8]) {
    bytes = Self.normalized(url)
    host = Self.host(of: bytes)
  }

  private static func normalized(_ url: [UInt8]) -> [UInt8] {
    var url = url[...]
    if let fragment = url.firstIndex(of: 0x23) { url = url[..<fragment] }
    guard let colon = url.firstIndex(of: 0x3a), url[colon...].starts(with: "://".utf8) else {
      return Array(url)
    }
    let scheme = url[..<colon].map(\.asciiLowercased)
    let rest = url[(colon + 3)...]
    let end = rest.firstIndex { $0 == 0x2f || $0 == 0x3f } ?? rest.endIndex
    var authority = rest[..<end].map(\.asciiLowercased)
    let port = Array((scheme.elementsEqual("https".utf8) ? ":443" : ":80").utf8)
    if authority.suffix(port.count).elementsEqual(port) { authority.removeLast(port.count) }
    let path = rest[end...]
    return scheme + "://".utf8 + authority + (path.first == 0x2f ? [] : [0x2f]) + path
  }

  private static func host(of bytes: [UInt8]) -> String? {
    guard let begin = bytes.firstIndex(of: 0x2f).map({ $0 + 2 }), begin <= bytes.count else { return nil }
    let authority = bytes[begin...].prefix { $0 != 0x2f }
    if authority.first == 0x5b { return String(decoding: authority.dropFirst().prefix { $0 != 0x5d }, as: UTF8.self) }
    return String(decoding: authority.prefix { $0 != 0x3a }, as: UTF8.self)
  }
}
