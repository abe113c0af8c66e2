// The pipes through which one conversation's bytes move without being copied.

import Transport

/// A pipe for each direction that has needed one, and what is in it.
final class SplicedStreams {
  var requestPipe: Pipe?
  var requestBytes = 0
  var responsePipe: Pipe?
  var responseBytes = 0

  var holdsRequest: Bool { requestBytes > 0 }
  var holdsResponse: Bool { responseBytes > 0 }

  /// nil where no pipe can be had.
  func takeRequestPipe(_ pool: inout PipePool) -> Pipe? {
    if requestPipe == nil { requestPipe = pool.take() }
    return requestPipe
  }

  func takeResponsePipe(_ pool: inout PipePool) -> Pipe? {
    if responsePipe == nil { responsePipe = pool.take() }
    return responsePipe
  }

  func abandonRequest(_ pool: inout PipePool) {
    if let requestPipe { pool.give(requestPipe, holding: requestBytes) }
    requestPipe = nil
    requestBytes = 0
  }

  func abandonResponse(_ pool: inout PipePool) {
    if let responsePipe { pool.give(responsePipe, holding: responseBytes) }
    responsePipe = nil
    responseBytes = 0
  }

  func abandon(_ pool: inout PipePool) {
    abandonRequest(&pool)
    abandonResponse(&pool)
  }
}
