// Minted leaves, so that only a host's first client waits for the minting. The size is bounded: the least recently used
// leaf is removed. It is a value without a lock. A shared cache must be used under a lock, so simultaneous requests for
// one host mint once. Tests: LeafCacheTests.

public struct LeafCache {
  /// Leaves kept, at about 3 KiB each: more hosts than a machine talks to within a day.
  public static let standardCapacity = 1_024

  private struct Entry {
    var leaf: Leaf
    /// The slots of the neighbours in the order of use; nil at the ends.
    var newer: Int?
    var older: Int?
  }

  private let capacity: Int
  private var places: [ReferenceIdentity: Int] = [:]
  private var entries: [Entry] = []
  private var newest: Int? = nil
  private var oldest: Int? = nil

  public init(capacity: Int = standardCapacity) {
    precondition(capacity > 0, "a cache that keeps nothing is none")
    self.capacity = capacity
  }

  public var count: Int { entries.count }

  /// The leaf for `identity` at `now` (seconds since 1970). `mint` makes one if there is none, or if the present one is
  /// past half of its life. Errors are not cached.
  public mutating func leaf(
    for identity: ReferenceIdentity, now: Int64, mint: (ReferenceIdentity) -> Result<Leaf, MintFault>
  ) -> Result<Leaf, MintFault> {
    let place = places[identity]
    if let place {
      let leaf = entries[place].leaf
      if now >= leaf.notBefore && now < leaf.renewsAt {
        use(place)
        return .success(leaf)
      }
    }
    return mint(identity).map { leaf in
      if let place {
        entries[place].leaf = leaf
        use(place)
      } else {
        insert(leaf, identity)
      }
      return leaf
    }
  }

  private mutating func insert(_ leaf: Leaf, _ identity: ReferenceIdentity) {
    let place: Int
    if entries.count < capacity {
      place = entries.count
      entries.append(Entry(leaf: leaf, newer: nil, older: nil))
    } else {
      guard let oldest else { return }
      place = oldest
      unlink(place)
      places[entries[place].leaf.identity] = nil
      entries[place].leaf = leaf
    }
    places[identity] = place
    linkAsNewest(place)
  }

  private mutating func use(_ place: Int) {
    guard newest != place else { return }
    unlink(place)
    linkAsNewest(place)
  }

  private mutating func unlink(_ place: Int) {
    let entry = entries[place]
    if let newer = entry.newer { entries[newer].older = entry.older } else { newest = entry.older }
    if let older = entry.older { entries[older].newer = entry.newer } else { oldest = entry.newer }
  }

  private mutating func linkAsNewest(_ place: Int) {
    entries[place].newer = nil
    entries[place].older = newest
    if let newest { entries[newest].newer = place }
    newest = place
    if oldest == nil { oldest = place }
  }
}
