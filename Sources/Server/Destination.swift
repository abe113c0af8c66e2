// Where requests go, and the connections to it that are kept for the next one.
//
// A destination is a host as it was asked for, a port, and the security policy under which it is spoken to, if any: no
// request rides on a connection that another policy opened. It lives as long as something uses it: an exchange, or a kept
// connection. What is asked for every request, finding it, allocates nothing.

import Bytes
import Policy
import Session
import Transport

/// One host and port, under one security policy.
final class Destination {
  let host: [UInt8]
  let port: UInt16
  /// nil: no TLS is spoken.
  let security: OriginSecurity?
  /// Set where the host is a literal address.
  let literal: IPAddress?
  /// Kept connections, the one used last at the end.
  var idle: [Upstream] = []
  /// What the name came to, and until when it holds.
  var addresses: [SocketAddress] = []
  var validUntil: Int64 = 0
  /// Exchanges and connections that refer to it.
  fileprivate(set) var uses = 0
  fileprivate let hash: UInt64

  fileprivate init(host: [UInt8], port: UInt16, _ security: OriginSecurity?, literal: IPAddress?, hash: UInt64) {
    self.host = host
    self.port = port
    self.security = security
    self.literal = literal
    self.hash = hash
  }

  var place: ConnectionQuota.Place { ConnectionQuota.Place(host: host, port: port) }

  var name: String { String(decoding: host, as: UTF8.self) }
}

/// The destinations in use, by host, port and security: open addressing with linear probing.
struct DestinationTable {
  private var slots: [Destination?] = Array(repeating: nil, count: 64)
  private var count = 0
  /// Clients choose the names, so that the hash is theirs to guess without it.
  private let seed: UInt64

  init(seed: UInt64) { self.seed = seed }

  /// Finds or makes the destination, and counts one more use of it.
  mutating func acquire(_ host: CanonicalHost, port: UInt16, _ security: OriginSecurity?) -> Destination {
    let hash = hash(host.bytes, port)
    var slot = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while let found = slots[slot] {
      if found.hash == hash, found.port == port, found.security === security, found.host == host.bytes {
        found.uses += 1
        return found
      }
      slot = (slot + 1) & (slots.count - 1)
    }
    // A copy of its own: the bytes of the workspace are written over by the next request.
    let made = Destination(
      host: Array(host.bytes[...]), port: port, security, literal: host.address, hash: hash)
    made.uses = 1
    insert(made)
    return made
  }

  /// Another user of a destination that is in use.
  func retain(_ destination: Destination) { destination.uses += 1 }

  /// One use less; the last one takes it out of the table.
  mutating func release(_ destination: Destination, now: Int64) {
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

  /// Closes the gap behind the one that goes, so that no search stops early.
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

/// A connection to a destination: of one exchange, or kept.
final class Upstream {
  let slot: Int
  let stream: ByteStream
  let address: SocketAddress
  let destination: Destination
  /// What is registered with the poller; nil where nothing is.
  var interest: Interest? = .read
  /// Whether its last response was long, as its next one may be.
  var sendsLongBodies = false
  /// What its packets are marked with.
  var codePoint: UInt8 = 0
  /// Whether it counts for `connections_per_host`.
  var holdsPlace = false
  /// What the security policy would have refused of its certificate, were it or its pins enforced.
  var report: Problem.Kind? = nil
  /// Whether the rule, unenforced, let pass what its policy refuses.
  var isForgiven = false
  /// Whether a connector that waited for a place is about to take it.
  var isReserved = false
  /// Whether it has been closed, for those who still refer to it.
  var isClosed = false
  /// Whose exchange it serves; nil while it is kept.
  var owner: Conversation?

  init(slot: Int, stream: ByteStream, address: SocketAddress, destination: Destination) {
    self.slot = slot
    self.stream = stream
    self.address = address
    self.destination = destination
  }

  var descriptor: Descriptor { stream.descriptor }
}
