// The head of a response that is kept, with all that its reuse is decided by: when it came, how old it was then, for how long it
// is fresh, what it answers (RFC 9111, 4). It does not change; one that an origin has validated is another.
//
// Tests: FreshnessTests, StorabilityTests, ReuseTests, ValidationTests.

import Bytes
import HTTP1
import Policy

public struct StoredHead: Sendable {
  public let status: Int
  public let reason: [UInt8]
  /// Without the fields of the hop, Age and Content-Length.
  public let fields: MessageFields
  /// When the request left and when the head came, in milliseconds since 1970.
  public let requested: Int64
  public let received: Int64
  /// What Vary names, in lower case, and what the request that it answers said of that (RFC 9111, 4.1).
  public let selecting: [SelectingField]
  public let directives: CacheDirectives
  /// nil: none, or more than one.
  public let entityTag: EntityTag?
  /// In seconds since 1970.
  public let lastModified: Int64?
  /// The origin's clock when it answered, in seconds since 1970.
  public let date: Int64
  /// How old it was when it came, in seconds (RFC 9111, 4.2.3).
  public let initialAge: Int64
  /// It belongs to one user.
  let isPrivateStore: Bool
  /// The origin names a lifetime of its own, in the field that speaks to this cache.
  let namesLifetime: Bool
  /// For how long it is fresh, in seconds, and by whose word.
  public let lifetime: Int64
  public let lifetimeSource: LifetimeSource

  public struct SelectingField: Sendable, Equatable {
    public let name: [UInt8]
    /// nil: the request had none.
    public let value: [UInt8]?
  }

  /// Where a freshness lifetime came from.
  public enum LifetimeSource: String, Sendable {
    case rule = "the rule's fresh_for"
    case sharedMaxAge = "s-maxage"
    case maxAge = "max-age"
    case expires = "Expires"
    case heuristic = "a tenth of the time since Last-Modified"
    case none = "nothing"
  }

  /// Statuses that are stored without a word of their own about it (RFC 9110, 15.1), but for 206.
  static let heuristicStatuses: Set<Int> = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]

  /// Longest heuristic freshness: after a day a document that says nothing is asked for again (RFC 9111, 4.2.2 had warned of more).
  static let longestHeuristic: Int64 = 86_400
  /// Part of the time since the last change, the one that RFC 9111, 4.2.2 gives.
  static let heuristicDivisor: Int64 = 10

  /// `fields`: without those of the hop. `wall`: the time of the machine, where `received` is of a clock that is never set back.
  /// `targets`: names of fields that speak to this cache, in lower case.
  public init(
    status: Int, reason: [UInt8], _ fields: MessageFields, answering request: CacheRequest, requested: Int64,
    received: Int64, wall: Int64? = nil, targets: [[UInt8]] = []
  ) {
    self.status = status
    self.reason = reason
    self.requested = requested
    self.received = received
    var (directives, isTargeted) = CacheDirectives.ofResponse(fields, targets: targets)
    // A store of one user is a private cache, to which s-maxage says nothing (RFC 9111, 5.2.2.10).
    isPrivateStore = request.rule.share == .user
    if isPrivateStore { directives.sharedMaxAge = nil }
    self.directives = directives
    entityTag = fields.only("etag").flatMap { EntityTag($0) }
    // What the origin's clock says is held against that of the machine.
    let seconds = (wall ?? received) / 1000
    namesLifetime =
      directives.maxAge != nil || directives.sharedMaxAge != nil || !isTargeted && fields.contains("expires")
    lastModified = fields.only("last-modified").flatMap { HTTPDate.read($0.span, now: seconds) }
    let date = fields.only("date").flatMap { HTTPDate.read($0.span, now: seconds) }
    self.date = date ?? seconds
    selecting = Self.selectingFields(fields, request.fields)
    let age = Self.age(fields)
    initialAge = max(max(0, seconds - self.date), age + max(0, received - requested) / 1000)
    (lifetime, lifetimeSource) = Self.lifetime(
      status, fields, directives, isTargeted: isTargeted, rule: request.rule, date: self.date,
      lastModified: lastModified, now: seconds)
    // A range belongs to an answer that is a part, which is not stored.
    var kept = fields.without(["age", "content-length", "content-range"])
    if date == nil {
      // RFC 9110, 6.6.1: who keeps a response without a date says when it came.
      var text = ByteBuffer()
      CalendarTime(secondsSince1970: seconds).writeIMFFixdate(to: &text)
      kept = kept.without(["date"])
      kept.append("Date", text.bytes.array)
    }
    self.fields = kept
  }

  /// As it was stored. `targets`: as for a new one.
  public init(_ record: StoredRecord, targets: [[UInt8]]) {
    status = record.status
    reason = record.reason
    fields = MessageFields(text: record.fields)
    requested = record.requested
    received = record.received
    selecting = Self.decoded(record.selecting)
    var (directives, _) = CacheDirectives.ofResponse(fields, targets: targets)
    isPrivateStore = record.isPrivate
    if isPrivateStore { directives.sharedMaxAge = nil }
    self.directives = directives
    entityTag = fields.only("etag").flatMap { EntityTag($0) }
    let seconds = received / 1000
    lastModified = fields.only("last-modified").flatMap { HTTPDate.read($0.span, now: seconds) }
    date = fields.only("date").flatMap { HTTPDate.read($0.span, now: seconds) } ?? seconds
    initialAge = record.initialAge
    namesLifetime = record.namesLifetime
    lifetime = record.lifetime
    lifetimeSource = LifetimeSource(rawValue: record.lifetimeSource) ?? .none
  }

  /// RFC 9111, 5.1: the first of a list, and nothing where that is no number.
  private static func age(_ fields: MessageFields) -> Int64 {
    guard let list = fields.combined("age") else { return 0 }
    var elements = ListElements(0..<list.count)
    guard let element = elements.next(list.span) else { return 0 }
    return CacheDirectives.seconds(Array(list[element])) ?? 0
  }

  /// RFC 9111, 4.2.1 and 4.2.2.
  private static func lifetime(
    _ status: Int, _ fields: MessageFields, _ directives: CacheDirectives, isTargeted: Bool, rule: CacheRule,
    date: Int64, lastModified: Int64?, now: Int64
  ) -> (Int64, LifetimeSource) {
    if let fresh = rule.freshFor { return (fresh, .rule) }
    if let age = directives.sharedMaxAge { return (age, .sharedMaxAge) }
    if let age = directives.maxAge { return (age, .maxAge) }
    if !isTargeted, fields.contains("expires") {
      // What is no date, or comes twice, is past.
      let expires = fields.only("expires").flatMap { HTTPDate.read($0.span, now: now) }
      return (max(0, (expires ?? date) - date), .expires)
    }
    guard heuristicStatuses.contains(status) || directives.isPublic, let lastModified, lastModified < date else {
      return (0, .none)
    }
    return (min((date - lastModified) / heuristicDivisor, longestHeuristic), .heuristic)
  }

  // MARK: Age

  /// How old it is, in seconds; nil where the clock stands before the time at which it came, and nothing is known of its age.
  public func age(at now: Int64) -> Int64? { now < received ? nil : initialAge + (now - received) / 1000 }

  /// How much longer it is fresh, in seconds; negative: for how long it has been stale.
  public func timeToLive(at now: Int64) -> Int64 {
    guard let age = age(at: now) else { return -CacheDirectives.longest }
    return lifetime - age
  }

  // MARK: Vary

  /// What is held against the request for each name of Vary; nil names nothing that any request meets.
  private static func selectingFields(_ fields: MessageFields, _ request: MessageFields) -> [SelectingField] {
    var selecting: [SelectingField] = []
    fields.forEachElement("vary") { element in
      let name = element.array.map(\.asciiLowercased)
      if !selecting.contains(where: { $0.name == name }) {
        selecting.append(SelectingField(name: name, value: normalized(name, request)))
      }
    }
    return selecting
  }

  /// As two requests are compared (RFC 9111, 4.1): the lines of a list as one. Of fields of negotiation the blanks are left out that
  /// their syntax allows, at commas, semicolons and equals signs, and of those whose words know no case the case of letters; of
  /// others nothing is known.
  static func normalized(_ name: [UInt8], _ request: MessageFields) -> [UInt8]? {
    guard let value = request.combined(name.span) else { return nil }
    guard name.starts(with: "accept".utf8) else { return value }
    let knowsNoCase = caselessFields.contains { name.span.equals(0..<name.count, ignoringCase: $0) }
    guard knowsNoCase || name == Array("accept".utf8) else { return value }
    var normalized: [UInt8] = []
    normalized.reserveCapacity(value.count)
    var quotation = Quotation()
    // What a parameter is set to may know case (RFC 9110, 5.6.6).
    var isValue = false
    for byte in value {
      if quotation.holds(byte) {
        normalized.append(byte)
      } else if byte.isBlank {
        if normalized.last.map({ !isDelimiter($0) && !$0.isBlank }) ?? false { normalized.append(0x20) }
      } else {
        if isDelimiter(byte), normalized.last == 0x20 { normalized.removeLast() }
        if isDelimiter(byte) { isValue = byte == 0x3d }
        normalized.append(knowsNoCase || !isValue ? byte.asciiLowercased : byte)
      }
    }
    return normalized
  }

  private static func isDelimiter(_ byte: UInt8) -> Bool { byte == 0x2c || byte == 0x3b || byte == 0x3d }

  private static let caselessFields: [StaticString] = ["accept-encoding", "accept-language", "accept-charset"]

  /// Where a quoted string is, from byte to byte (RFC 9110, 5.6.4).
  private struct Quotation {
    private var isOpen = false
    private var isEscaped = false

    /// Whether the byte belongs to one, its quotation marks included.
    mutating func holds(_ byte: UInt8) -> Bool {
      let wasOpen = isOpen
      if isEscaped {
        isEscaped = false
      } else if byte == 0x22 {
        isOpen.toggle()
      } else if isOpen, byte == 0x5c {
        isEscaped = true
      }
      return wasOpen || isOpen
    }
  }

  /// Whether it answers a request with these fields.
  public func answers(_ request: MessageFields) -> Bool {
    selecting.allSatisfy { $0.name != [0x2a] && Self.normalized($0.name, request) == $0.value }
  }

  // MARK: Validation

  /// What the origin said when it was asked whether it still holds (RFC 9111, 4.3.4 and 4.3.5): its fields take the place of those
  /// that are stored, but for what belongs to the content.
  public func freshened(
    by update: MessageFields, answering request: CacheRequest, requested: Int64, received: Int64, wall: Int64? = nil,
    targets: [[UInt8]] = []
  ) -> StoredHead {
    let kept = update.without([
      "content-length", "content-encoding", "content-range", "content-md5", "content-digest", "repr-digest",
    ])
    var fields = fields.updated(by: kept)
    // A 304 without a date is as old as it looks.
    if !update.contains("date") { fields = fields.without(["date"]) }
    return StoredHead(
      status: status, reason: reason, fields, answering: request, requested: requested, received: received,
      wall: wall, targets: targets)
  }
}
