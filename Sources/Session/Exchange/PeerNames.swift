// How the texts of problems name the peers of an exchange.

import Bytes

struct PeerNames {
  /// As the log names it.
  let destination: String
  /// The parent that the request was sent to, in absolute-form, and its route; nil: it went to the destination.
  let parent: (name: String, route: String)?

  /// The peer that answers on the connection, for the beginning of a sentence: a parent that takes requests in
  /// absolute-form, otherwise the destination.
  var responder: String { parent == nil ? destination : "The \(parentText)" }

  /// The same, for within a sentence.
  var respondent: String { parent == nil ? destination : "the \(parentText)" }

  private var parentText: String {
    "parent \(parent?.name ?? "") of route '\(parent?.route ?? "-")', asked for \(destination),"
  }

  /// A parent's 407 is about the credentials of the route, not the client's. Passed on, it would look as if this proxy
  /// asked the client for them. `remark`: why the credentials that were sent did not help.
  func wantsCredentials(_ remark: String?) -> Problem {
    Problem(
      .parentAuthentication,
      "The parent \(parent?.name ?? "") of route '\(parent?.route ?? "-")' answered 407 for \(destination): "
        + (remark.map { "the route's digest credentials \($0)." } ?? "it expects other credentials than it was given."),
      receivedStatus: 407)
  }

  /// The end of a connection before the head of a response was complete.
  func problem(of end: UpstreamEnd, isReused: Bool) -> Problem {
    switch end {
    case .alert(let alert):
      return Problem(.tlsAlert, "\(destination) ended the TLS connection with an alert (\(alert)).")
    case .lost(let reason): return Problem(.connectionClosed, "\(destination): \(reason).")
    case .malformed:
      return Problem(.malformedResponse, "The response of \(respondent) is no message of HTTP/2 (RFC 9113, 8.1.1).")
    case .reset(let code):
      return Problem(
        .connectionClosed, "\(responder) reset the stream (\(code)) before the head of a response was complete.")
    case .closed, .broken, .refused:
      let what = isReused ? "a kept connection" : "the connection"
      return Problem(
        .connectionClosed, "\(responder) closed \(what) before the head of a response was complete.")
    }
  }

  /// A gRPC call would leave by HTTP/1.1.
  var needsHTTP2: Problem {
    Problem(
      .protocolNotOffered,
      "\(destination) speaks HTTP/1.1 here, and a gRPC call needs HTTP/2 all the way to its server.",
      difference: Difference(expected: HTTPProtocol.http2.rawValue, seen: HTTPProtocol.http11.rawValue))
  }
}
