// gRPC calls: which requests are some, and what the proxy answers them itself.

import Bytes
import HTTP1
import Testing

@testable import Session

@Suite struct GRPCTests {
  @Test(arguments: [
    ("application/grpc", true), ("application/grpc+proto", true), ("Application/GRPC; x=y", true),
    ("application/grpc-web", false), ("application/grpc-web+proto", false), ("application/json", false), ("", false),
  ])
  func theTypeSaysSo(_ type: String, _ isCall: Bool) { #expect(GRPC.isType(Array(type.utf8).span) == isCall) }

  /// Of a head that is refused, wherever that is found; and nothing that follows the head.
  @Test(arguments: [
    ("POST /a\\b HTTP/1.1\r\nHost: a\r\nContent-Type:  application/grpc+proto \r\n", true),
    ("POST / HTTP/1.1\r\nCONTENT-TYPE:application/grpc\r\nX: y", true),
    ("POST / HTTP/1.1\r\nX-Content-Type: application/grpc\r\n\r\n", false),
    ("POST / HTTP/1.1\r\nHost: a\r\n\r\ncontent-type: application/grpc\r\n", false),
    ("POST / HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Type: application/grpc\r\n", false),
    ("POST / HTTP/1.1\r\nContent-Type: application/grpc", false), ("", false), ("\n\n:\n", false),
  ])
  func aRefusedHeadMaySaySoToo(_ head: String, _ isCall: Bool) {
    #expect(GRPC.isAsked(inHead: Array(head.utf8).span) == isCall)
  }

  @Test(
    arguments: [
      (Problem.Kind.denied, 7), (.addressDenied, 7), (.methodNotAllowed, 7), (.authenticationRequired, 16),
      (.responseTimeout, 4), (.connectionTimeout, 4), (.stalled, 4), (.hostBusy, 8), (.heldBodiesSpent, 8),
      (.headTooLarge, 8), (.connectionRefused, 14), (.pinMismatch, 14), (.protocolNotOffered, 14),
    ] as [(Problem.Kind, UInt64)])
  func theStatusSaysWhoseFaultItIs(_ kind: Problem.Kind, _ status: UInt64) {
    #expect(Problem(kind, "").grpcStatus == status)
  }

  /// Its outcome stands in the head, which is all there is.
  @Test func theAnswerIsItsHeadAlone() {
    var out = ByteBuffer()
    ProblemWriter(
      problem: Problem(.denied, "nö 100%"), rule: "no", reference: Reference(value: 0x2a_bcde),
      proxyName: Array("sallyport".utf8), form: .grpc, isHead: false, closes: false
    ).write(to: &out, date: Array("Sun, 06 Nov 1994 08:49:37 GMT".utf8).span)
    let text = out.bytes.string
    #expect(text.hasPrefix("HTTP/1.1 200 denied rule=no ref="))
    #expect(text.contains("\r\nContent-Type: application/grpc\r\ngrpc-status: 7\r\ngrpc-message: denied rule=no ref="))
    #expect(text.contains(": n%C3%B6 100%25\r\nContent-Length: 0\r\n"))
    #expect(text.contains("\r\nProxy-Status: sallyport; error=http_request_denied") && text.hasSuffix("\r\n\r\n"))
  }
}
