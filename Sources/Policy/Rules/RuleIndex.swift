// Finds the rules that may match a host, without checking the others.
//
// Host conditions go into one table keyed by (kind, text): exact names, parents of `*.`, parents of `**.`, and blocks
// by (length, masked address). A request looks up its own name and each of its parents. The results are lists of rule
// numbers in file order; walking them side by side finds the first rule whose other conditions hold. The cost depends
// on the labels of the name, not on the number of rules.

import Bytes

/// The table. Immutable once built.
struct RuleIndex: Sendable {
  enum Kind: UInt8, Sendable { case name, parent, tree, block }

  private struct Entry: Sendable {
    var hash: UInt64
    var keyStart: Int32
    var keyCount: Int32
    /// Range of `numbers`; the count is zero in a free slot.
    var first: Int32
    var count: Int32
  }

  private var slots: [Entry] = []
  private var keys: [UInt8] = []
  private var numbers: [Int32] = []
  /// Rules that name no host, or `*`.
  private var anyHost: Range<Int32> = 0..<0
  /// Lengths of the IPv4 and IPv6 blocks that occur: only those are looked up.
  private var blockLengths4: [Int] = []
  private var blockLengths6: [Int] = []
  private var hasNames = false

  init(rules: [Rule]) {
    var lists: [[UInt8]: [Int32]] = [:]
    var any: [Int32] = []
    func add(_ kind: Kind, _ text: [UInt8], number: Int32) {
      let key = [kind.rawValue] + text
      if lists[key, default: []].last != number { lists[key, default: []].append(number) }
    }
    for (index, rule) in rules.enumerated() {
      let number = Int32(index)
      if rule.conditions.hosts.isEmpty || rule.conditions.hosts.contains(.any) {
        any.append(number)
        continue
      }
      for host in rule.conditions.hosts {
        switch host {
        case .any: break
        case .name(let name): add(.name, Array(name.utf8), number: number)
        case .oneLabelBelow(let name): add(.parent, Array(name.utf8), number: number)
        case .atOrBelow(let name): add(.tree, Array(name.utf8), number: number)
        case .block(let block):
          add(.block, Self.blockKey(block.address, block.length), number: number)
          if block.address.isIPv4 {
            if !blockLengths4.contains(block.length) { blockLengths4.append(block.length) }
          } else if !blockLengths6.contains(block.length) {
            blockLengths6.append(block.length)
          }
        }
      }
    }
    numbers = any
    anyHost = 0..<Int32(any.count)
    var size = 16
    while size < lists.count * 2 { size *= 2 }
    slots = Array(repeating: Entry(hash: 0, keyStart: 0, keyCount: 0, first: 0, count: 0), count: size)
    for (key, list) in lists {
      let text = Array(key.dropFirst())
      let kind = Kind(rawValue: key[0]) ?? .name
      if kind != .block { hasNames = true }
      let hash = Self.seal(Self.hash(text, from: 0), kind)
      var slot = Int(truncatingIfNeeded: hash) & (size - 1)
      while slots[slot].count != 0 { slot = (slot + 1) & (size - 1) }
      slots[slot] = Entry(
        hash: hash, keyStart: Int32(keys.count), keyCount: Int32(key.count), first: Int32(numbers.count),
        count: Int32(list.count))
      keys += key
      numbers += list
    }
  }

  /// Calls `visit` with the numbers of the rules whose host condition holds, in order, until it returns true. `lists`
  /// is reused storage.
  func forEachCandidate(
    of host: CanonicalHost, lists: inout [Range<Int32>], until visit: (Int) -> Bool
  ) {
    lists.removeAll(keepingCapacity: true)
    if !anyHost.isEmpty { lists.append(anyHost) }
    if let address = host.address {
      findBlocks(address, &lists)
      if let mapped = address.mappedIPv4 { findBlocks(mapped, &lists) }
    } else if hasNames {
      findNames(host.bytes, &lists)
    }
    // Side by side: the smallest number at the head of any list is the next candidate.
    while true {
      var best = -1
      var smallest = Int32.max
      for index in 0..<lists.count where !lists[index].isEmpty {
        let number = numbers[Int(lists[index].lowerBound)]
        if number < smallest {
          smallest = number
          best = index
        }
      }
      if best < 0 { return }
      for index in 0..<lists.count where !lists[index].isEmpty {
        if numbers[Int(lists[index].lowerBound)] == smallest {
          lists[index] = lists[index].lowerBound + 1..<lists[index].upperBound
        }
      }
      if visit(Int(smallest)) { return }
    }
  }

  /// Hashes the name from its end, so one pass also gives the hash of every parent.
  private func findNames(_ name: [UInt8], _ lists: inout [Range<Int32>]) {
    var hash = Self.offset
    var index = name.count
    // Shows which parent is exactly one label up.
    var firstLabel = 0
    while firstLabel < name.count, name[firstLabel] != 0x2e { firstLabel += 1 }
    while index > 0 {
      index -= 1
      let byte = name[index]
      if byte == 0x2e {
        find(.tree, hash, name: name, from: index + 1, lists: &lists)
        if index == firstLabel { find(.parent, hash, name: name, from: index + 1, lists: &lists) }
      }
      hash = (hash ^ UInt64(byte)) &* Self.prime
    }
    find(.tree, hash, name: name, from: 0, lists: &lists)
    find(.name, hash, name: name, from: 0, lists: &lists)
  }

  private func find(_ kind: Kind, _ hash: UInt64, name: [UInt8], from: Int, lists: inout [Range<Int32>]) {
    let sealed = Self.seal(hash, kind)
    var slot = Int(truncatingIfNeeded: sealed) & (slots.count - 1)
    while slots[slot].count != 0 {
      let entry = slots[slot]
      if entry.hash == sealed, Int(entry.keyCount) == name.count - from + 1, keys[Int(entry.keyStart)] == kind.rawValue
      {
        var index = from
        var key = Int(entry.keyStart) + 1
        while index < name.count, keys[key] == name[index] {
          index += 1
          key += 1
        }
        if index == name.count {
          lists.append(entry.first..<entry.first + entry.count)
          return
        }
      }
      slot = (slot + 1) & (slots.count - 1)
    }
  }

  private func findBlocks(_ address: IPAddress, _ lists: inout [Range<Int32>]) {
    for length in address.isIPv4 ? blockLengths4 : blockLengths6 { findBlock(address, length, lists: &lists) }
  }

  private func findBlock(_ address: IPAddress, _ length: Int, lists: inout [Range<Int32>]) {
    let masked = AddressBlock.masked(address, length)
    var hash = Self.offset
    Self.eachBlockByte(masked, length) { hash = (hash ^ UInt64($0)) &* Self.prime }
    let sealed = Self.seal(hash, .block)
    var slot = Int(truncatingIfNeeded: sealed) & (slots.count - 1)
    while slots[slot].count != 0 {
      let entry = slots[slot]
      if entry.hash == sealed, keys[Int(entry.keyStart)] == Kind.block.rawValue {
        var key = Int(entry.keyStart) + 1
        let end = Int(entry.keyStart + entry.keyCount)
        var same = entry.keyCount == (address.isIPv4 ? 6 : 18)
        // Stored from the last byte to the first, like the hash.
        if same {
          key = end
          Self.eachBlockByte(masked, length) {
            key -= 1
            if keys[key] != $0 { same = false }
          }
        }
        if same {
          lists.append(entry.first..<entry.first + entry.count)
          return
        }
      }
      slot = (slot + 1) & (slots.count - 1)
    }
  }

  // FNV-1a, 64 bits, over the bytes from the last to the first. The keys are the operator's, so no client can choose
  // them; a request chooses only what is looked up.
  private static let offset: UInt64 = 0xcbf2_9ce4_8422_2325
  private static let prime: UInt64 = 0x0000_0100_0000_01b3

  private static func hash(_ text: [UInt8], from: Int) -> UInt64 {
    var hash = offset
    var index = text.count
    while index > from {
      index -= 1
      hash = (hash ^ UInt64(text[index])) &* prime
    }
    return hash
  }

  /// Mixes in the kind, and the high bits into the low ones, which the table uses.
  private static func seal(_ hash: UInt64, _ kind: Kind) -> UInt64 {
    let mixed = (hash ^ UInt64(kind.rawValue)) &* prime
    return mixed ^ mixed >> 32
  }

  private static func blockKey(_ address: IPAddress, _ length: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    eachBlockByte(address, length) { bytes.append($0) }
    return bytes.reversed()
  }

  /// The length, then the bytes of the address from the last to the first.
  private static func eachBlockByte(_ address: IPAddress, _ length: Int, body: (UInt8) -> Void) {
    body(UInt8(length))
    var low = address.low
    for _ in 0..<(address.isIPv4 ? 4 : 8) {
      body(UInt8(truncatingIfNeeded: low))
      low >>= 8
    }
    if address.isIPv4 { return }
    var high = address.high
    for _ in 0..<8 {
      body(UInt8(truncatingIfNeeded: high))
      high >>= 8
    }
  }
}
