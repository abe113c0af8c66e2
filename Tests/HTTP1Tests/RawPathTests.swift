// Bytes above 0x7F in a path: taken there alone, where the caller allows for them, and what becomes of them.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct RawPathTests {
  private static func head(_ target: [UInt8], method: String = "GET") -> [UInt8] {
    octets("\(method) ") + target + octets(" HTTP/1.1\r\nHost: a.example\r\n\r\n")
  }

  private static func absolute(_ path: [UInt8]) -> [UInt8] { octets("http://a.example") + path }

  private static func read(
    _ bytes: [UInt8], takesRawPath: Bool = true, isInTunnel: Bool = false
  ) -> (HeadProgress, RequestHead) {
    var head = RequestHead()
    let progress = head.read(
      bytes.span, limits: HeadLimits(bytes: 4096, fields: 8), isInTunnel: isInTunnel, takesRawPath: takesRawPath)
    return (progress, head)
  }

  @Test func everyByteAbove7FStandsInAPathAndIsEncoded() throws {
    for byte in UInt8(0x80)...0xff {
      for isInTunnel in [false, true] {
        let path: [UInt8] = [0x2f, 0x61, byte, 0x2f, byte]
        let bytes = Self.head(isInTunnel ? path : Self.absolute(path))
        let (progress, head) = Self.read(bytes, isInTunnel: isInTunnel)
        #expect(progress == .complete(count: bytes.count) && head.holdsRawPath && head.understood == .method)
        var encoded = ByteBuffer()
        RawPath.encode(bytes.span, path: head.path, to: &encoded)
        let digits = String(byte, radix: 16, uppercase: true)
        let expected = octets("/a%\(digits)/%\(digits)")
        #expect(encoded.array == Self.head(isInTunnel ? expected : Self.absolute(expected)))
        let (again, read) = Self.read(encoded.array, takesRawPath: false, isInTunnel: isInTunnel)
        #expect(again == .complete(count: encoded.count) && !read.holdsRawPath && read.understood == .target)
      }
      #expect(Self.read(Self.head(Self.absolute([0x2f, byte])), takesRawPath: false).0 == .invalid(.badTarget))
    }
  }

  @Test func nowhereElse() {
    for byte in [UInt8(0x80), 0xc3, 0xff] {
      let rows: [([UInt8], MessageFault)] = [
        (Self.head(Self.absolute([0x2f, 0x3f, byte])), .badTarget),
        (Self.head(Self.absolute([0x2f, byte, 0x3f, byte])), .badTarget),
        (Self.head(Self.absolute([0x3f, byte])), .badTarget),
        (Self.head(octets("http://a") + [byte] + octets("/")), .badHost),
        (Self.head(octets("http://a.example:8") + [byte] + octets("/")), .badPort),
        (Self.head(octets("htt") + [byte] + octets("://a.example/")), .targetNotAbsolute),
        (Self.head([byte]), .targetNotAbsolute),
        (Self.head(octets("a.example") + [byte] + octets(":443"), method: "CONNECT"), .badHost),
        (Self.head(octets("*") + [byte], method: "OPTIONS"), .targetNotAbsolute),
        (octets("G") + [byte] + octets(" http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"), .badMethod),
        (Self.head(Self.absolute([0x2f, byte, 0x5c])), .badTarget),
        (Self.head(Self.absolute([0x2f, byte, 0x20, 0x61])), .badVersion),
        (Self.head(Self.absolute([0x2f, byte, 0x09])), .badTarget),
        (Self.head(Self.absolute([0x2f, byte, 0x01])), .controlCharacter),
        (Self.head(Self.absolute([0x2f, byte, 0x7f])), .controlCharacter),
        (Self.head(Self.absolute([0x2f, byte, 0x22])), .badTarget),
        (Self.head(Self.absolute([0x2f, byte, 0x23])), .badTarget),
      ]
      for (bytes, fault) in rows { #expect(Self.read(bytes).0 == .invalid(fault), "\(shown(bytes))") }
    }
  }

  /// A head that was raw leaves nothing behind for the next.
  @Test func theNextHeadIsNotRaw() {
    var head = RequestHead()
    let limits = HeadLimits(bytes: 4096, fields: 8)
    _ = head.read(Self.head(Self.absolute([0x2f, 0xff])).span, limits: limits, takesRawPath: true)
    #expect(head.holdsRawPath)
    _ = head.read(Self.head(Self.absolute([0x2f, 0x61])).span, limits: limits, takesRawPath: true)
    #expect(!head.holdsRawPath && head.understood == .target)
    _ = head.read(octets("CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n").span, limits: limits, takesRawPath: true)
    #expect(!head.holdsRawPath)
  }
}
