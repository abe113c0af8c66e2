// Records the last chain that satisfied each pin of a set: when it was seen, and when the certificate with that pin
// expires. All loops write here, at each TLS handshake under pins, which costs ten thousand times as much.
// Tests: PinWatchTests.

import Bytes
import Policy
import Security
import Transport

/// One pin of a set, as a key for look-ups.
struct WatchedPin: Hashable, Sendable {
  let set: String
  let pin: PublicKeyPin
  /// The end of the certificate, if certificates are pinned and not their keys: a renewed one is another pin.
  let end: Int64?

  init(_ pin: PublicKeyPin, in set: PinSet) {
    self.set = set.name
    self.pin = pin
    end = nil
  }

  init(_ certificate: Certificate, in set: PinSet) {
    self.init(certificate.publicKeyPin, end: certificate.notAfter, in: set)
  }

  init(_ match: PinMatch, in set: PinSet) { self.init(match.pin, end: match.notAfter, in: set) }

  private init(_ pin: PublicKeyPin, end: Int64, in set: PinSet) {
    self.set = set.name
    self.pin = pin
    self.end = set.mode == .certificate ? end : nil
  }
}

/// The last chain that had a pin.
struct PinSighting: Sendable, Equatable {
  /// Milliseconds since 1970.
  let wall: Int64
  /// Host and port, as messages write them.
  let place: String
  let match: PinMatch
  /// Whether the same place has since shown another pin of the set: the certificate has been replaced.
  var isSuperseded = false
}

final class PinSightings: Sendable {
  private let sightings = Locked<[WatchedPin: PinSighting]>([:])

  /// Returns whether the certificate differs from the last one that carried this pin.
  func note(_ match: PinMatch, of set: PinSet, at place: String, wall: Int64) -> Bool {
    let pin = WatchedPin(match, in: set)
    return sightings.withLock { sightings in
      let before = sightings[pin]
      sightings[pin] = PinSighting(wall: wall, place: place, match: match)
      for other in sightings.keys where other.set == set.name && other != pin && sightings[other]?.place == place {
        sightings[other]?.isSuperseded = true
      }
      return before?.match != match
    }
  }

  /// Forgets the pins that a policy does not have.
  func keep(_ policy: Policy) {
    let pins = Set(PinWatch(policy).sets.flatMap(\.pins))
    sightings.withLock { sightings in sightings = sightings.filter { pins.contains($0.key) } }
  }

  /// In its own storage: otherwise the next handshake would find it shared and copy it.
  var all: [WatchedPin: PinSighting] { sightings.withLock { sightings in sightings.mapValues { $0 } } }
}
