// What the sessions of one loop share: storage that is reused for every message, and facts that every message needs.

import Bytes
import HTTP1
import Policy
import Reachability
import Security
import Serialization

/// Scratch storage and the identity of the proxy. One per loop, lent to each call of a session.
public struct Workspace: ~Copyable {
  private let byAddress = ByAddress()
  public var pool = BufferPool()
  public var decisions = DecisionWorkspace()
  public var request = RequestHead()
  public var response = ResponseHead()
  public var trailers = FieldSection()
  private var references: ReferenceSource
  /// Nonces from origins.
  public var nonces = NonceMemory()
  /// Tools that check bodies.
  var tools = ContentTools()
  /// The memory of all held bodies, in all loops.
  let heldBytes: ByteBudget
  /// `Via` element of this proxy, without the protocol: its pseudonym, and as comment its mark, which reveals a loop.
  public let via: [UInt8]
  public let name: [UInt8]
  /// The kind of link that carries the machine's default route, maintained by the loop.
  public private(set) var link = ReachabilityStatus.unknown
  /// What operators have allowed and denied for a time, maintained by the loop.
  public var temporary = TemporaryRules.none
  /// This machine's addresses, maintained by the loop.
  public private(set) var own = OwnAddresses.unknown
  /// `Sun, 06 Nov 1994 08:49:37 GMT`, maintained by the loop.
  public private(set) var date: ByteBuffer
  private var dateSecond: Int64 = -1
  /// Milliseconds since 1970, maintained by the loop.
  public private(set) var wallMilliseconds: Int64 = 0
  /// Microseconds of the monotonic clock at the beginning of the loop's turn, maintained by the loop.
  public private(set) var turnMicroseconds: Int64 = 0

  public init(name: String, mark: ViaMark, references: ReferenceSource, heldBytes: ByteBudget = ByteBudget()) {
    self.heldBytes = heldBytes
    self.name = Array(name.utf8)
    via = Array("\(name) (".utf8) + mark.text + Array(")".utf8)
    self.references = references
    date = ByteBuffer()
  }

  /// The machine's network, as the loop learns of it.
  public mutating func setNetwork(_ link: ReachabilityStatus, _ own: OwnAddresses) {
    self.link = link
    self.own = own
  }

  /// A turn of the loop begins at this time of the monotonic clock.
  public mutating func beginTurn(microseconds: Int64) { turnMicroseconds = microseconds }

  mutating func nextReference() -> Reference { references.take() }

  public mutating func setWallClock(milliseconds: Int64) {
    wallMilliseconds = milliseconds
    let second = milliseconds / 1000
    if second == dateSecond { return }
    dateSecond = second
    date.removeAll()
    CalendarTime(secondsSince1970: second).writeIMFFixdate(to: &date)
  }

  /// The problem with the request in `request` if it has come back; nil if nothing shows that it has.
  func loopProblem(_ bytes: Span<UInt8>) -> Problem? {
    switch request.fields.passage(bytes, through: name, own: via) {
    case .new: nil
    case .again: Problem(.loop, "The request has passed through this proxy already, as its Via field says.")
    case .endless:
      Problem(
        .loop,
        "The request has passed through more than \(FieldSection.maximumNamesakes) proxies of this name, as its Via field says."
      )
    }
  }

  /// What is decided of a request now: by `policy`, and then by an operator's temporary rule, if one applies. The host
  /// is in `decisions`.
  public mutating func decide(
    _ facts: borrowing RequestFacts, by policy: Policy
  ) -> (decision: Decision, rule: TemporaryRule?) {
    temporary.amend(policy.decide(facts, in: &decisions), facts, wall: wallMilliseconds, in: &decisions)
  }
}

/// Bytes on their way out of a session.
public struct Outputs: ~Copyable {
  public var toClient = ByteBuffer()
  public var toUpstream = ByteBuffer()
  /// The request as far as it has been sent, to be sent again on another connection, until the first byte of its
  /// response; empty: it is not sent again.
  public var replay = ByteBuffer()
  /// Method and target of the exchange, and the type of its response, where the record says. The log, the cache and
  /// what is decided again read them here.
  public var text = ByteBuffer()

  public init() {}
}
