// The destinations of requests, and the connections to them that are kept for the next request.
//
// A destination is a host as it was asked for, a port, its security policy, if any, and the route that leads there. So
// no request uses a connection that was opened under another policy or goes another way. A destination lives as long as
// something uses it: an exchange, or a kept connection. Each request has to find its destination, so that allocates
// nothing.

import Bytes
import Policy
import Session
import Sharing
import Transport
import Upstream

/// A host and port under one security policy: the scope of a verdict on its certificate. Two policies are equal if they
/// are one object.
struct OriginKey: Hashable {
  let host: [UInt8]
  let port: UInt16
  let security: OriginSecurity

  static func == (left: OriginKey, right: OriginKey) -> Bool {
    left.security === right.security && left.port == right.port && left.host == right.host
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(security))
    hasher.combine(port)
    hasher.combine(host)
  }
}

extension TLSSession: Resumable {}

/// One host and port, under one security policy, by one route.
final class Destination {
  let host: [UInt8]
  let port: UInt16
  /// nil: without TLS.
  let security: OriginSecurity?
  /// Set if the host is a literal address.
  let literal: IPAddress?
  /// nil for a parent proxy, which belongs to its route.
  let via: RouteState?
  /// Kept connections; the last one was used most recently.
  var idle: [Upstream] = []
  /// Connections that carry the streams of many exchanges and still accept more.
  var multiplexed: [any MultiplexedConnection] = []
  /// It has refused a stream and asked for HTTP/1.1 (RFC 9113, 7).
  var speaksHTTP11Alone = false
  /// Its last connection with streams opens no tunnels on streams (RFC 8441).
  var opensNoTunnels = false
  /// Who opens a connection that may serve everyone, and who waits for it.
  var opening = SharedOpening<Connector>()
  /// The addresses of the name, and how long they are valid.
  var addresses: [SocketAddress] = []
  var validUntil: Int64 = 0
  /// Exchanges and connections that refer to it.
  fileprivate(set) var uses = 0
  fileprivate let hash: UInt64

  fileprivate init(
    host: [UInt8], port: UInt16, _ security: OriginSecurity?, literal: IPAddress?, via: RouteState, hash: UInt64
  ) {
    self.host = host
    self.port = port
    self.security = security
    self.literal = literal
    self.via = via
    self.hash = hash
  }

  /// A parent, which is in no table.
  init(_ host: CanonicalHost, port: UInt16, _ security: OriginSecurity?) {
    self.host = host.bytes
    self.port = port
    self.security = security
    literal = host.address
    via = nil
    hash = 0
  }

  var isParent: Bool { via == nil }
  /// nil without TLS.
  var key: OriginKey? { security.map { OriginKey(host: host, port: port, security: $0) } }

  /// Where its connections lead and are kept: at the parent, if that accepts requests in absolute-form.
  func carrier(isTunnel: Bool) -> Destination {
    guard security == nil, !isTunnel, let via, via.takesAbsoluteForm, let parent = via.parent else { return self }
    return parent
  }

  var place: ConnectionQuota.Place { ConnectionQuota.Place(host: host, port: port) }

  var name: String { String(decoding: host, as: UTF8.self) }
}

/// The destinations in use, by host, port and security: open addressing with linear probing.
struct DestinationTable {
  private var slots: [Destination?] = Array(repeating: nil, count: 64)
  private var count = 0
  /// Clients choose the names, so without a seed they could guess the hash.
  private let seed: UInt64

  init(seed: UInt64) { self.seed = seed }

  /// Finds or makes the destination, and counts one more use.
  mutating func acquire(
    _ host: CanonicalHost, port: UInt16, _ security: OriginSecurity?, via: RouteState
  ) -> Destination {
    let hash = hash(host.bytes, port)
    var slot = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while let found = slots[slot] {
      if found.hash == hash, found.port == port, found.security === security, found.via === via,
        found.host == host.bytes
      {
        found.uses += 1
        return found
      }
      slot = (slot + 1) & (slots.count - 1)
    }
    let made = Destination(
      host: host.copiedBytes, port: port, security, literal: host.address, via: via, hash: hash)
    made.uses = 1
    insert(made)
    return made
  }

  func forEach(_ body: (Destination) -> Void) { for case .some(let destination) in slots { body(destination) } }

  /// Counts another use of a destination in use.
  func retain(_ destination: Destination) { if !destination.isParent { destination.uses += 1 } }

  /// Counts one use less; the last one removes it from the table.
  mutating func release(_ destination: Destination, now: Int64) {
    if destination.isParent { return }
    destination.uses -= 1
    precondition(destination.uses >= 0, "a destination was released more often than acquired")
    if destination.uses == 0 { remove(destination) }
  }

  private mutating func insert(_ destination: Destination) {
    if (count + 1) * 2 > slots.count {
      let old = slots
      slots = Array(repeating: nil, count: old.count * 2)
      for case .some(let kept) in old { place(kept) }
    }
    place(destination)
    count += 1
  }

  private mutating func place(_ destination: Destination) {
    var slot = Int(truncatingIfNeeded: destination.hash) & (slots.count - 1)
    while slots[slot] != nil { slot = (slot + 1) & (slots.count - 1) }
    slots[slot] = destination
  }

  /// Closes the gap after the removed entry, so that no search stops early.
  private mutating func remove(_ destination: Destination) {
    let mask = slots.count - 1
    var gap = Int(truncatingIfNeeded: destination.hash) & mask
    while slots[gap] !== destination {
      if slots[gap] == nil { return }
      gap = (gap + 1) & mask
    }
    slots[gap] = nil
    count -= 1
    var next = (gap + 1) & mask
    while let candidate = slots[next] {
      let home = Int(truncatingIfNeeded: candidate.hash) & mask
      if (next - home) & mask >= (next - gap) & mask {
        slots[gap] = candidate
        slots[next] = nil
        gap = next
      }
      next = (next + 1) & mask
    }
  }

  private func hash(_ host: [UInt8], _ port: UInt16) -> UInt64 {
    var hash = seed ^ UInt64(port) &* 0x9e37_79b9_7f4a_7c15
    for byte in host { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
    hash ^= hash >> 29
    return hash &* 0xbf58_476d_1ce4_e5b9 ^ hash >> 32
  }
}

/// A connection to a destination: used by one exchange, or kept.
final class Upstream {
  let slot: Int
  let stream: ByteStream
  let address: SocketAddress
  let destination: Destination
  let route: RouteState
  /// The path by which it left this machine when it was opened.
  let path: NetworkPath
  /// The same, as the session of each request needs it.
  private(set) var way: UpstreamWay
  /// Whether its next request shows the parent a ticket.
  private var showsToken = false
  /// The network change after which its path was last checked.
  private(set) var checkedAt: UInt32
  /// The interest registered with the poller; nil if it is not registered.
  var interest: Interest? = .read
  /// When it is closed while it is kept, in milliseconds of the loop's clock.
  var keptUntil: Int64 = 0
  /// The longest time it is kept idle, if a rule sets one, in milliseconds.
  private(set) var idleMilliseconds: Int64? = nil
  /// Whether its last response was long, as its next one may be.
  var sendsLongBodies = false
  /// The mark of its packets.
  var codePoint: UInt8 = 0
  /// Whether it counts for `connections_per_host`.
  var holdsPlace = false
  /// The client it counts for; nil while it is kept.
  var holder: Claimant? = nil
  var report: CertificateReport? = nil
  /// Whether a connector that waited for a place is about to use it.
  var isReserved = false
  /// Whether it has been closed, for those who still refer to it.
  private(set) var isClosed = false
  /// The conversation whose exchange it serves; nil while it is kept.
  var owner: Conversation?

  init(
    slot: Int, stream: ByteStream, address: SocketAddress, destination: Destination, by route: RouteState,
    over path: NetworkPath, checkedAt: UInt32 = 0
  ) {
    self.slot = slot
    self.checkedAt = checkedAt
    self.route = route
    self.path = path
    self.stream = stream
    self.address = address
    self.destination = destination
    way = UpstreamWay(
      route: route.route.name, link: path.status, leadsHome: path.leadsHome,
      parent: destination.isParent ? route.route.parent?.authority : nil,
      parentLines: destination.isParent ? route.parentLines : [],
      digest: destination.isParent ? route.digest : nil)
  }

  /// One of the streams of the connection `line`.
  convenience init(slot: Int, _ stream: ByteStream, of line: Upstream, on wire: HTTPProtocol) {
    self.init(
      slot: slot, stream: stream, address: line.address, destination: line.destination, by: line.route, over: line.path,
      checkedAt: line.checkedAt)
    codePoint = line.codePoint
    way.wire = wire
    report = line.report
  }

  var descriptor: Descriptor { stream.descriptor }

  /// Whether the policy refuses the certificate of the destination and the rule, unenforced, allowed it.
  var isForgiven: Bool { report?.isForgiven ?? false }

  /// Whether what comes from it may be from another than the destination, and passes because nothing is enforced. A
  /// parent's certificate does not matter where TLS with the destination is inside.
  var isDoubtful: Bool {
    guard let report else { return false }
    return !report.isOfParent || destination.isParent || destination.security == nil
  }

  /// Whether it is one stream of a connection that others share: it serves one exchange. (TLS with the destination over
  /// a stream of a parent is a connection of its own.)
  var isStream: Bool { stream.carried != nil && stream.tls == nil }

  /// Its path is still the one to its peer.
  func pathChecked(at change: UInt32) { checkedAt = change }

  /// How long it may stay idle, by the rule of the exchange that it served last; nil: that rule sets no time.
  func noteIdle(_ milliseconds: Int64?) { idleMilliseconds = milliseconds }

  /// `aborts`: the peer must not take what it got for the whole.
  func close(aborts: Bool) {
    if aborts { stream.abort() } else { stream.close() }
    isClosed = true
  }

  /// Shows the parent a ticket with the first request. It covers those that follow on the connection (RFC 4559, 6).
  func show(_ token: [UInt8]) {
    way.parentLines = ParentRequest.authorizationLine(token) + route.parentLines
    showsToken = true
  }

  /// A request has left.
  func shown() {
    if !showsToken { return }
    way.parentLines = route.parentLines
    showsToken = false
  }

  /// TLS with the destination itself; nil if it has none.
  var tls: TLSStream? { destination.security == nil ? nil : stream.tls }
  /// TLS with the parent on the way there.
  var parentTLS: TLSStream? {
    if destination.isParent { return nil }
    return destination.security == nil ? stream.tls : stream.tls?.carrier
  }
}
