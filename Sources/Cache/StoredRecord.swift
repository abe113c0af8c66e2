// What a table keeps of a stored answer so that it can be restored. Tests: StoredRecordTests.

import Bytes
import HTTP1
import Policy

/// A stored head as columns.
public struct StoredRecord: Sendable, Equatable {
  public var status: Int
  public var reason: [UInt8]
  /// Lines, each with its line end.
  public var fields: [UInt8]
  /// Milliseconds since 1970.
  public var requested: Int64
  public var received: Int64
  /// Seconds.
  public var initialAge: Int64
  public var lifetime: Int64
  public var lifetimeSource: String
  /// The names and values that the answer varies with; see `encoded`.
  public var selecting: [UInt8]
  public var namesLifetime: Bool
  /// It belongs to one user, for whom s-maxage does not count.
  public var isPrivate: Bool

  public init(
    status: Int, reason: [UInt8], fields: [UInt8], requested: Int64, received: Int64, initialAge: Int64,
    lifetime: Int64, lifetimeSource: String, selecting: [UInt8], namesLifetime: Bool, isPrivate: Bool
  ) {
    self.status = status
    self.reason = reason
    self.fields = fields
    self.requested = requested
    self.received = received
    self.initialAge = initialAge
    self.lifetime = lifetime
    self.lifetimeSource = lifetimeSource
    self.selecting = selecting
    self.namesLifetime = namesLifetime
    self.isPrivate = isPrivate
  }
}

extension StoredRecord {
  /// What is kept of `head`.
  public init(_ head: StoredHead) {
    self.init(
      status: head.status, reason: head.reason, fields: head.fields.text, requested: head.requested,
      received: head.received, initialAge: head.initialAge, lifetime: head.lifetime,
      lifetimeSource: head.lifetimeSource.rawValue, selecting: Self.encoded(head.selecting),
      namesLifetime: head.namesLifetime, isPrivate: head.isPrivateStore)
  }

  /// `name NUL 1 value NUL`, or `name NUL 0 NUL` if the request did not have the field. Fields cannot contain NUL.
  private static func encoded(_ selecting: [StoredHead.SelectingField]) -> [UInt8] {
    var bytes: [UInt8] = []
    for field in selecting {
      bytes += field.name
      bytes += [0, field.value == nil ? 0x30 : 0x31]
      bytes += field.value ?? []
      bytes.append(0)
    }
    return bytes
  }

  static func decoded(_ selecting: [UInt8]) -> [StoredHead.SelectingField] {
    let parts = selecting.split(separator: 0, omittingEmptySubsequences: false)
    return stride(from: 0, to: parts.count - 1, by: 2).map { at in
      StoredHead.SelectingField(
        name: Array(parts[at]), value: parts[at + 1].first == 0x31 ? Array(parts[at + 1].dropFirst()) : nil)
    }
  }
}
