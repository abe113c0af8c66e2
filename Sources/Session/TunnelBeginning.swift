// What a client's first bytes in a plain tunnel are: TLS, of which the hello is then read, a request in the clear, or
// something else, which passes.
//
// Where the tunnel leads to the port of https they must be TLS. On other ports they may be anything; there a server may
// speak first, and a client of any protocol must not wait for more than it takes to tell its bytes from the beginnings
// that count. Tests: PlainTunnelTests.

import Bytes
import Policy

struct TunnelBeginning {
  enum Reading: Equatable {
    /// Nothing can be said yet: none of it may pass.
    case incomplete
    /// TLS, of which the hello has to be read.
    case tls
    /// Nothing more has to be looked at.
    case other
    case refused(TunnelFault)
  }

  let opening: TunnelOpening
  private var requestReader = ClearRequestReader()
  private var isRequestExcluded: Bool

  init(_ opening: TunnelOpening) {
    self.opening = opening
    isRequestExcluded = !opening.refusesRequests
  }

  /// `input` is all that the client has sent. `isLast`: nothing more will come.
  mutating func read(_ input: Span<UInt8>, isLast: Bool) -> Reading {
    if input.isEmpty { return .incomplete }
    if opening.requiresHello { return .tls }
    var isUndecided = false
    if opening.sni == .match {
      switch Self.isTLS(input) {
      case true?: return .tls
      case nil: isUndecided = !isLast
      case false?: break
      }
    }
    if !isRequestExcluded {
      switch requestReader.read(input, isLast: isLast) {
      case .incomplete: isUndecided = true
      case .other: isRequestExcluded = true
      case .request(let method): return .refused(.clearRequest(method: method))
      }
    }
    return isUndecided ? .incomplete : .other
  }

  /// Whether it begins as a record does, or as a hello of SSL 2.0, which servers of old take; nil: it may.
  private static func isTLS(_ input: Span<UInt8>) -> Bool? {
    if input[0] & 0x80 == 0 {
      switch RecordHeader.read(input, at: 0) {
      case .invalid(.notTLS): return false
      case .incomplete: return input.count < 2 ? nil : true
      case .complete, .invalid: return true
      }
    }
    // Two bytes of length, 1 for a hello, and the version that is asked for (RFC 5246, E.2).
    if input.count < 3 { return nil }
    if input[2] != 1 { return false }
    if input.count < 5 { return nil }
    return input[3] == 3 || input[3] == 0 && input[4] == 2
  }
}
