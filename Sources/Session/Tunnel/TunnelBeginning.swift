// Classifies a client's first bytes in a plain tunnel: TLS, whose hello is read next; a request in the clear; or
// something else, which passes.
//
// On the https port they must be TLS. On other ports they may be anything. There a server may speak first, and a client
// of any protocol must not wait longer than it takes to distinguish its bytes from TLS and requests.
// Tests: PlainTunnelTests.

import Bytes
import Policy
import TLSWire

struct TunnelBeginning {
  enum Reading: Equatable {
    /// Undecided: nothing may pass yet.
    case incomplete
    /// TLS, whose hello has to be read.
    case tls
    /// Nothing more has to be checked.
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

  /// `input` is everything that the client has sent. `isLast`: nothing more will come.
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
