// The answers that are in files, by file number. The table says whether there may be a file for a request, and which
// files to remove when the disk is full. An entry has a few hundred bytes; the database has the rest.
// Tests: DiskTableTests.

public struct DiskTable: Sendable {
  private struct Entry: Sendable {
    let hash: Int
    let resourceHash: Int
    let bytes: UInt64
    var used: UInt64
  }

  private var entries: [UInt64: Entry] = [:]
  private var byKey: [Int: [UInt64]] = [:]
  private var byResource: [Int: [UInt64]] = [:]
  private var clock: UInt64 = 0
  public private(set) var bytes: UInt64 = 0
  public private(set) var evictions: UInt64 = 0
  private let limit: UInt64
  private let lowWater: UInt64

  public init(limit: Int, purgeTo: Double) {
    self.limit = UInt64(limit)
    lowWater = UInt64(Double(limit) * purgeTo)
  }

  public var count: Int { entries.count }
  public func contains(_ file: UInt64) -> Bool { entries[file] != nil }
  public var files: Set<UInt64> { Set(entries.keys) }

  /// What a file costs besides its content, in bytes: its name, its inode and its row.
  static let overheadBytes: UInt64 = 1024

  /// Files must be added in the order of their use.
  public mutating func insert(_ file: UInt64, _ key: CacheKey, content: UInt64) {
    clock += 1
    let resourceHash = key.resourceHash
    entries[file] = Entry(
      hash: key.hashValue, resourceHash: resourceHash, bytes: content + Self.overheadBytes, used: clock)
    byKey[key.hashValue, default: []].append(file)
    byResource[resourceHash, default: []].append(file)
    bytes += content + Self.overheadBytes
  }

  /// The files that may contain an answer for this key.
  public func files(of key: CacheKey) -> [UInt64] { byKey[key.hashValue] ?? [] }

  /// The files of the key's resource, for all owners. If the hashes of two collide, this returns more files than
  /// necessary.
  public func files(ofResource key: CacheKey) -> [UInt64] { byResource[key.resourceHash] ?? [] }

  public mutating func touch(_ file: UInt64) {
    clock += 1
    entries[file]?.used = clock
  }

  public mutating func remove(_ file: UInt64) {
    guard let entry = entries.removeValue(forKey: file) else { return }
    bytes -= entry.bytes
    byKey[entry.hash]?.removeAll { $0 == file }
    if byKey[entry.hash]?.isEmpty ?? false { byKey[entry.hash] = nil }
    byResource[entry.resourceHash]?.removeAll { $0 == file }
    if byResource[entry.resourceHash]?.isEmpty ?? false { byResource[entry.resourceHash] = nil }
  }

  /// When the disk is over its limit, removes the least recently used files from the table until it is at the low-water
  /// mark. Returns the removed files.
  public mutating func purge() -> [UInt64] {
    if bytes <= limit { return [] }
    var purged: [UInt64] = []
    for (file, _) in entries.sorted(by: { $0.value.used < $1.value.used }) {
      if bytes <= lowWater { break }
      remove(file)
      purged.append(file)
    }
    evictions += UInt64(purged.count)
    return purged
  }
}
