// What a client's first bytes in a plain tunnel are: TLS, of which the hello is then read, a request in the clear, or
// something else, which passes.
//
// Where the tunnel leads to the port of https they must be TLS. On other ports they may be anything; there a server may
// speak first, and a client of any protocol must not wait for more than it takes to tell its bytes from the beginnings
// that count. Tests: PlainTunnelTests.

import Bytes
import Policy
import TLSWire

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
      switch TLSBeginning.isMet(by: input) {
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
}
