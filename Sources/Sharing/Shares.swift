// Divides a limited pool among clients: how much each has, which has to give way, and which is served next.
//
// With only a limit, the first client that takes all of it shuts the others out. So each pool counts what each identity
// has. As long as none waits, that changes nothing: one client may use all of it. When a client with less than the
// share waits, the client with the most gives something back, down to the share. An identity at its share or above
// takes nothing from others: it waits for what becomes free.
//
// Values without I/O, used by every pool: client connections, held bodies, connections to a host, name look-ups, event
// readers. Tests: SharesTests, FairQueueTests.

/// What each identity has of one pool.
public struct Shares<Identity: Hashable & Sendable>: Sendable {
  private var held: [Identity: Int] = [:]
  /// What all have together.
  public private(set) var total = 0

  public init() {}

  public func held(by identity: Identity) -> Int { held[identity] ?? 0 }

  public mutating func take(_ count: Int = 1, for identity: Identity) {
    if count == 0 { return }
    held[identity, default: 0] += count
    total += count
  }

  public mutating func giveBack(_ count: Int = 1, of identity: Identity) {
    let before = held[identity] ?? 0
    // A wrong count is a bug of this program, and no reason for a shipped daemon to end.
    assert(before >= count, "more given back than was taken")
    let given = min(before, count)
    held[identity] = before == given ? nil : before - given
    total -= given
  }

  /// How much of `limit` one identity may have while others wait: at least one, so that a small limit still serves.
  public static func allowance(of limit: Int, share: Double) -> Int { max(1, Int(Double(limit) * share)) }

  /// The identity that has to give something back so that `identity` gets `count` of a full pool; nil: none has to,
  /// because no identity has more than the share, or `identity` itself would.
  public func whoYields(to identity: Identity, _ count: Int = 1, of limit: Int, share: Double) -> Identity? {
    let allowance = Self.allowance(of: limit, share: share)
    guard held(by: identity) + count <= allowance else { return nil }
    return greediest(above: allowance)
  }

  /// The identity with the most; nil if that is no more than `allowance`.
  public func greediest(above allowance: Int) -> Identity? {
    guard let most = held.max(by: { $0.value < $1.value }), most.value > allowance else { return nil }
    return most.key
  }
}

/// The waiters for a pool. The next is the one whose identity has least; among equals, the one that came first. Within
/// an identity it is first in, first out.
public struct FairQueue<Identity: Hashable & Sendable, Element> {
  fileprivate struct Line {
    var entries: [(number: UInt64, element: Element)] = []
    /// Entries before it have left: taking the first moves nothing.
    var first = 0

    var count: Int { entries.count - first }

    mutating func takeFirst() -> Element {
      let element = entries[first].element
      first += 1
      if first > 32, first * 2 > entries.count {
        entries.removeFirst(first)
        first = 0
      }
      return element
    }
  }

  private var lines: [Identity: Line] = [:]
  private var arrivals: UInt64 = 0
  public private(set) var count = 0

  public init() {}

  public var isEmpty: Bool { count == 0 }

  public func count(of identity: Identity) -> Int { lines[identity]?.count ?? 0 }

  public mutating func append(_ element: Element, of identity: Identity) {
    arrivals += 1
    lines[identity, default: Line()].entries.append((arrivals, element))
    count += 1
  }

  /// The next in turn. `held`: how much of the pool each identity has.
  public func next(by held: (Identity) -> Int) -> (element: Element, identity: Identity)? {
    guard let identity = nextIdentity(by: held), let line = lines[identity] else { return nil }
    return (line.entries[line.first].element, identity)
  }

  public mutating func takeNext(by held: (Identity) -> Int) -> (element: Element, identity: Identity)? {
    guard let identity = nextIdentity(by: held), var line = lines.removeValue(forKey: identity) else { return nil }
    let element = line.takeFirst()
    if line.count > 0 { lines[identity] = line }
    count -= 1
    return (element, identity)
  }

  private func nextIdentity(by held: (Identity) -> Int) -> Identity? {
    if lines.count == 1 { return lines.keys.first }
    return lines.min { one, other in
      let (first, second) = (held(one.key), held(other.key))
      return first != second
        ? first < second
        : one.value.entries[one.value.first].number
          < other.value.entries[other.value.first].number
    }?.key
  }

  /// Removes the last arrival of the identity that has most entries in the queue: for a full queue.
  public mutating func takeLastOfLongest() -> (element: Element, identity: Identity)? {
    guard let longest = lines.max(by: { $0.value.count < $1.value.count })?.key, var line = lines[longest] else {
      return nil
    }
    let element = line.entries.removeLast().element
    lines[longest] = line.count > 0 ? line : nil
    count -= 1
    return (element, longest)
  }

  /// Removes everything that is gone, for all identities.
  public mutating func removeAll(where isGone: (Element) -> Bool) {
    for identity in Array(lines.keys) { remove(of: identity, where: isGone) }
  }

  /// Removes what is gone. Returns whether there was any.
  @discardableResult
  public mutating func remove(of identity: Identity, where isGone: (Element) -> Bool) -> Bool {
    guard var line = lines[identity] else { return false }
    line.entries.removeFirst(line.first)
    line.first = 0
    let before = line.count
    line.entries.removeAll { isGone($0.element) }
    count -= before - line.count
    lines[identity] = line.count > 0 ? line : nil
    return line.count < before
  }
}

extension FairQueue: Sendable where Element: Sendable {}
extension FairQueue.Line: Sendable where Element: Sendable {}
