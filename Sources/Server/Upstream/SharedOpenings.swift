// Connections that one connector opens for itself and others, and those that it has waited for: to a parent, and by way
// of it to the destination. Which of them opens is decided by `SharedOpening`. Tests: SharedOpeningTests,
// test_http2.py.

import Upstream

struct SharedOpenings {
  private var opened: [Destination] = []
  private var followed: [Destination] = []

  /// Whether the connector opens the connection; otherwise it waits for the one that another opens.
  mutating func begin(_ shared: Destination, _ connector: Connector) -> Bool {
    switch shared.opening.begin(connector, hasFollowed: hasFollowed(shared)) {
    case .follow: return false
    case .open:
      opened.append(shared)
      return true
    }
  }

  func hasFollowed(_ shared: Destination) -> Bool { followed.contains { $0 === shared } }
  mutating func noteFollowed(_ shared: Destination) { followed.append(shared) }
  /// It may wait for one again.
  mutating func forgetFollowed(_ shared: Destination) { followed.removeAll { $0 === shared } }

  /// The connections are open, or have failed. Returns who waited for them.
  mutating func endAll() -> [Connector] {
    if opened.isEmpty { return [] }
    let followers = opened.flatMap { $0.opening.ended() }
    opened = []
    return followers
  }

  /// The same for one of them.
  mutating func end(_ shared: Destination) -> [Connector] {
    guard let index = opened.firstIndex(where: { $0 === shared }) else { return [] }
    opened.remove(at: index)
    return shared.opening.ended()
  }
}
