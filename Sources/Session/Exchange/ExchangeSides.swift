// What an exchange remembers, by what it is about: the client and its connection, the request, the upstream, the
// response, the bodies that are held or paced on either way, the tunnel, and the times.

import Bytes
import HTTP1
import Policy
import Serialization

extension Exchange {
  /// The client, and what was agreed with it.
  public struct ClientSide: Sendable {
    /// Where it connects from.
    var address: IPAddress? = nil
    var terms = ClientTerms()
    /// The format of the proxy's own responses to it.
    var answerForm = ProblemWriter.Form.json
    /// Codings that it accepts, if its response may be rewritten.
    var accepts = AcceptEncoding()
    /// How many bytes it may take for held bodies beyond the common limit. Others hold more than their share and are
    /// about to give it back.
    public var heldOverdraft = 0
  }

  /// The request, as it was asked and as far as it has been read.
  struct RequestSide: Sendable {
    var progress = Progress.head
    var traits = RequestTraits()
    /// Its original query, with the question mark, if the response may be stored.
    var query: [UInt8] = []
    /// The protocol that its Upgrade asks for, in lower case; empty: none.
    var upgrade: [UInt8] = []
    var webSocketProof = WebSocketProof()
    /// Field names in Connection: trailers of those names also end at this hop.
    var namedFields: [UInt8] = []
    /// Method and target, if its body is awaited; kept after 417, since only this request may follow.
    var expectation: [UInt8] = []
    /// It has a Range. Known only if its rule checks responses.
    var asksForPart = false
    /// What was asked, if it is refused or an operator is asked about it.
    var question: Question? = nil
  }

  /// The way to the destination, and the connection of the request.
  public struct UpstreamSide: Sendable {
    /// Port of the destination.
    public internal(set) var port: UInt16 = 0
    var way = WayTraits()
    var carrier = CarrierTraits()
    /// The parent proxy that the request was sent to, in absolute-form; nil: none.
    var parent: String? = nil
    /// The proxies before this one as Via of the request lists them, each followed by a comma. Kept if CONNECT may have
    /// to pass them to a parent, because nothing else reveals a loop of tunnels.
    public internal(set) var passedVia: [UInt8] = []
    /// The request as written for an origin.
    var written = WrittenHead()
    /// How much the request's streams were refused. See `Exchange.mostRefusals`.
    var refusals = 0
  }

  /// The response, as far as it has been read, and how the client gets it.
  struct ResponseSide: Sendable {
    var progress = Progress.head
    var traits = ResponseTraits()
    /// What 1xx responses may still cost.
    var informational = InformationalAllowance()
    /// Field names in Connection: trailers of those names also end at this hop.
    var namedFields: [UInt8] = []
    /// See `noteCache`; empty: no cache took part.
    var cacheStatus = ""
  }

  /// Bodies that do not simply pass.
  struct Bodies: ~Copyable {
    /// A body that is held until it has been checked: the request's while it is collected, otherwise the response's.
    var held: HeldBody? = nil
    /// The request, and the credentials with which the proxy answers a challenge; nil: the client answers challenges.
    var challenged: ChallengedRequest? = nil
    /// The part of a body in a file, until all of it has been read back: it is buffered whole to learn its length.
    var spooled: SpooledBody? = nil
    /// Accounts for the memory of a body that was held, or is sent in place of a response, until the client has it.
    var toClient: HeldBody? = nil
    /// The same for a rewritten body, until the upstream has it.
    var toUpstream: HeldBody? = nil
    /// The pace of each direction; nil: unlimited.
    var pacing: Pacing? = nil
    /// The rest of a rewritten body that leaves at a pace.
    var paced = ByteBuffer()
  }

  /// The tunnel that the exchange is, or that it is inside of.
  public struct TunnelSide {
    /// The intercepted tunnel that the request is inside of, or is about to open.
    public internal(set) var interior: Interior? = nil
    /// Which directions have ended.
    var ends = TunnelEnds()
    /// The policy has changed since it was opened.
    var isUnchecked = false
    /// The inspection of a verified tunnel, for as long as it is needed.
    var inspected: InspectedTunnel? = nil
    /// The rule that allowed it in an earlier process, if the policy in force has no rule of that name.
    var formerRule: String? = nil
  }

  struct Times: Sendable {
    /// When a byte last moved, or the exchange entered its phase.
    var lastProgress: Int64
    /// When the whole exchange must be over.
    var exchangeDeadline = Int64.max
    /// When a client that has closed its sending direction counts as gone.
    var clientGoneAt = Int64.max
    /// Until when an operator may answer.
    var operatorDeadline = Int64.max
  }
}
