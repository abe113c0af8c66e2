// The length of a body by itself: decimals, and the steps of RFC 9112, 6.3. How it shows in whole heads: the tables of
// RequestHeadTests and ResponseHeadTests.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct BodyFramingTests {
  @Test(
    arguments: [
      ("0", 0), ("00", 0), ("7", 7), ("007", 7), ("1234567890", 1_234_567_890),
      ("9223372036854775807", 9_223_372_036_854_775_807), ("0000000000000000001", 1),
    ] as [(String, UInt64)]) func aLengthIsRead(text: String, value: UInt64)
  {
    let bytes = octets("<" + text + ">")
    #expect(BodyFraming.decimal(bytes.span, 1..<bytes.count - 1) == value)
  }

  @Test(arguments: [
    "", " ", "-1", "+1", "1 ", " 1", "1_0", "0x1", "1e3", "1,1", "1.0", "９", "9223372036854775808",
    "9999999999999999999", "00000000000000000001", "18446744073709551616",
  ]) func aLengthIsRefused(text: String) {
    let bytes = [UInt8](text.utf8)
    #expect(BodyFraming.decimal(bytes.span, 0..<bytes.count) == nil)
  }

  private static func framing(
    _ lines: [String], status: Int?, minorVersion: Int = 1, toHead: Bool = false
  ) -> Result<BodyFraming, MessageFault> {
    let bytes = octets(lines.map { $0 + "\r\n" }.joined() + "\r\n")
    var fields = FieldSection()
    guard case .complete = fields.read(bytes.span, from: 0, limits: usualLimits) else {
      return .success(.none)
    }
    guard let status else { return BodyFraming.ofRequest(fields, bytes.span, minorVersion: minorVersion) }
    return BodyFraming.ofResponse(
      fields, bytes.span, status: status, minorVersion: minorVersion, toHead: toHead)
  }

  @Test func aRequestHasTheBodyThatItsFieldsSay() {
    #expect(Self.framing([], status: nil) == .success(.none))
    #expect(Self.framing(["Content-Length: 3"], status: nil) == .success(.length(3)))
    #expect(Self.framing(["Transfer-Encoding: chunked"], status: nil) == .success(.chunked))
  }

  @Test func aResponseWithoutALengthEndsWithItsConnection() {
    #expect(Self.framing([], status: 200) == .success(.untilClose))
    #expect(Self.framing(["Content-Length: 3"], status: 200) == .success(.length(3)))
    #expect(Self.framing(["Transfer-Encoding: chunked"], status: 404) == .success(.chunked))
  }

  @Test func statusAndMethodMayForbidABody() {
    for status in [100, 101, 103, 199, 204, 304] {
      for lines in [[], ["Content-Length: 3"], ["Transfer-Encoding: chunked"]] {
        #expect(Self.framing(lines, status: status) == .success(.none))
      }
    }
    for lines in [[], ["Content-Length: 3"], ["Transfer-Encoding: chunked"]] {
      #expect(Self.framing(lines, status: 200, toHead: true) == .success(.none))
    }
  }

  @Test func aCodingInHTTP10IsRefusedWhateverItIs() {
    for status in [nil, 200, 304] {
      #expect(
        Self.framing(["Transfer-Encoding: chunked"], status: status, minorVersion: 0)
          == .failure(.transferEncodingInHTTP10))
    }
  }

  @Test func aLengthAndACodingContradictEachOtherWhereverTheyStand() {
    for lines in [
      ["Content-Length: 0", "Transfer-Encoding: chunked"],
      ["Transfer-Encoding: chunked", "Content-Length: 0"],
    ] {
      for status in [nil, 200, 204, 304] {
        #expect(Self.framing(lines, status: status) == .failure(.lengthWithTransferEncoding))
      }
    }
  }
}
