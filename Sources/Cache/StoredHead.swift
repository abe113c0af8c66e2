// The head of a stored response, with everything that decides its reuse: when it came, how old it was then, how long it
// is fresh, and which requests it matches (RFC 9111, 4). It is immutable; validation by the origin makes a new one.
//
// Tests: FreshnessTests, StorabilityTests, ReuseTests, ValidationTests.

import Bytes
import HTTP1
import Policy

public struct StoredHead: Sendable {
  public let status: Int
  public let reason: [UInt8]
  /// Without the hop-by-hop fields, Age and Content-Length.
  public let fields: MessageFields
  /// When the request was sent and when the head arrived, in milliseconds since 1970.
  public let requested: Int64
  public let received: Int64
  /// The fields that Vary names, in lower case, with their values in the original request (RFC 9111, 4.1).
  public let selecting: [SelectingField]
  public let directives: CacheDirectives
  /// nil: none, or more than one.
  public let entityTag: EntityTag?
  /// In seconds since 1970.
  public let lastModified: Int64?
  /// The origin's clock when it answered, in seconds since 1970.
  public let date: Int64
  /// How old it was on arrival, in seconds (RFC 9111, 4.2.3).
  public let initialAge: Int64
  /// It belongs to one user.
  let isPrivateStore: Bool
  /// The origin gives an explicit lifetime, in the field that applies to this cache.
  let namesLifetime: Bool
  /// How long it is fresh, in seconds, and where that comes from.
  public let lifetime: Int64
  public let lifetimeSource: LifetimeSource

  public struct SelectingField: Sendable, Equatable {
    public let name: [UInt8]
    /// nil: the request did not have the field.
    public let value: [UInt8]?
  }

  /// Where a freshness lifetime comes from.
  public enum LifetimeSource: String, Sendable {
    case rule = "the rule's fresh_for"
    case sharedMaxAge = "s-maxage"
    case maxAge = "max-age"
    case expires = "Expires"
    case heuristic = "a tenth of the time since Last-Modified"
    case none = "nothing"
  }

  /// Statuses that are stored by default (RFC 9110, 15.1), except 206.
  static let heuristicStatuses: Set<Int> = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]

  /// The longest heuristic freshness: after a day, a document without an explicit lifetime is requested again
  /// (RFC 9111, 4.2.2 had warned of more).
  static let longestHeuristic: Int64 = 86_400
  /// The fraction of the time since the last change, as RFC 9111, 4.2.2 suggests.
  static let heuristicDivisor: Int64 = 10

  /// `fields`: without the hop-by-hop fields. `wall`: the machine's time, if `received` is from a clock that is never
  /// set back. `targets`: names of the targeted fields for this cache, in lower case.
  public init(
    status: Int, reason: [UInt8], _ fields: MessageFields, answering request: CacheRequest, requested: Int64,
    received: Int64, wall: Int64? = nil, targets: [[UInt8]] = []
  ) {
    self.status = status
    self.reason = reason
    self.requested = requested
    self.received = received
    var (directives, isTargeted) = CacheDirectives.ofResponse(fields, targets: targets)
    // The store of one user is a private cache, which ignores s-maxage (RFC 9111, 5.2.2.10).
    isPrivateStore = request.rule.share == .user
    if isPrivateStore { directives.sharedMaxAge = nil }
    self.directives = directives
    entityTag = fields.only("etag").flatMap { EntityTag($0) }
    // The origin's dates are compared with the machine's clock.
    let seconds = (wall ?? received) / 1000
    namesLifetime =
      directives.maxAge != nil || directives.sharedMaxAge != nil || !isTargeted && fields.contains("expires")
    lastModified = fields.only("last-modified").flatMap { HTTPDate.read($0.span, now: seconds) }
    let date = fields.only("date").flatMap { HTTPDate.read($0.span, now: seconds) }
    self.date = date ?? seconds
    selecting = Self.selectingFields(fields, request.fields)
    let age = Self.age(fields)
    let corrected = age + max(0, received - requested) / 1000
    // Where the rule says how long it is fresh, the origin's clock has no say.
    initialAge = request.rule.freshFor == nil ? max(seconds - self.date, corrected) : corrected
    (lifetime, lifetimeSource) = Self.lifetime(
      status, fields, directives: directives, isTargeted: isTargeted, rule: request.rule, date: self.date,
      lastModified: lastModified, now: seconds)
    // Content-Range belongs to a partial answer, and this is not stored as one.
    var kept = fields.without(["age", "content-length", "content-range"])
    if date == nil {
      // RFC 9110, 6.6.1: a cache adds the time of arrival to a response without a date.
      var text = ByteBuffer()
      CalendarTime(secondsSince1970: seconds).writeIMFFixdate(to: &text)
      kept = kept.without(["date"])
      kept.append("Date", text.bytes.array)
    }
    self.fields = kept
  }

  /// From a stored record. `targets`: as for a new head.
  public init(_ record: StoredRecord, targets: [[UInt8]]) {
    status = record.status
    reason = record.reason
    fields = MessageFields(text: record.fields)
    requested = record.requested
    received = record.received
    selecting = StoredRecord.decoded(record.selecting)
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

  /// RFC 9111, 5.1: the first of a list, ignored if it is not a number.
  private static func age(_ fields: MessageFields) -> Int64 {
    guard let list = fields.combined("age") else { return 0 }
    var elements = ListElements(0..<list.count)
    guard let element = elements.next(list.span) else { return 0 }
    return CacheDirectives.seconds(Array(list[element])) ?? 0
  }

  /// RFC 9111, 4.2.1 and 4.2.2.
  private static func lifetime(
    _ status: Int, _ fields: MessageFields, directives: CacheDirectives, isTargeted: Bool, rule: CacheRule,
    date: Int64, lastModified: Int64?, now: Int64
  ) -> (Int64, LifetimeSource) {
    if let fresh = rule.freshFor { return (fresh, .rule) }
    if let age = directives.sharedMaxAge { return (age, .sharedMaxAge) }
    if let age = directives.maxAge { return (age, .maxAge) }
    if !isTargeted, fields.contains("expires") {
      // A value that is not a date, or a field that occurs twice, counts as expired.
      let expires = fields.only("expires").flatMap { HTTPDate.read($0.span, now: now) }
      return (max(0, (expires ?? date) - date), .expires)
    }
    guard heuristicStatuses.contains(status) || directives.isPublic, let lastModified, lastModified < date else {
      return (0, .none)
    }
    return (min((date - lastModified) / heuristicDivisor, longestHeuristic), .heuristic)
  }

  // MARK: Age

  /// Its age in seconds; nil if the clock is earlier than the time of arrival, because its age is then unknown.
  public func age(at now: Int64) -> Int64? { now < received ? nil : initialAge + (now - received) / 1000 }

  /// How much longer it is fresh, in seconds. If negative: how long it has been stale.
  public func timeToLive(at now: Int64) -> Int64 {
    guard let age = age(at: now) else { return -CacheDirectives.longest }
    return lifetime - age
  }

  /// The same for a request of `rule`, whose `fresh_for` may be another than when it was stored.
  public func timeToLive(at now: Int64, by rule: CacheRule) -> Int64 {
    guard let age = age(at: now) else { return -CacheDirectives.longest }
    return rule.freshFor.map { $0 - age } ?? (lifetimeSource == .rule ? -age : lifetime - age)
  }

  // MARK: Vary

  /// The value to compare for each name in Vary; nil if the request lacks the field.
  private static func selectingFields(_ fields: MessageFields, _ request: MessageFields) -> [SelectingField] {
    var selecting: [SelectingField] = []
    fields.forEachElement("vary") { element in
      var name = element.array.map(\.asciiLowercased)
      // What cannot be a name may mean anything.
      if !name.allSatisfy(\.isTokenCharacter) { name = [0x2a] }
      if !selecting.contains(where: { $0.name == name }) {
        selecting.append(SelectingField(name: name, value: normalized(name, request)))
      }
    }
    return selecting
  }

  /// The form in which two requests are compared (RFC 9111, 4.1): the lines of a list are joined. Negotiation fields
  /// lose the blanks that their syntax allows at commas, semicolons and equals signs. They are also lowercased where
  /// their words are case-insensitive. The syntax of other fields is unknown, so they stay as they are.
  static func normalized(_ name: [UInt8], _ request: MessageFields) -> [UInt8]? {
    guard let value = request.combined(name.span) else { return nil }
    guard name.starts(with: "accept".utf8) else { return value }
    let knowsNoCase = caselessFields.contains { name.span.equals(0..<name.count, ignoringCase: $0) }
    guard knowsNoCase || name == Array("accept".utf8) else { return value }
    var normalized: [UInt8] = []
    normalized.reserveCapacity(value.count)
    var quotation = Quotation()
    // The value of a parameter may be case-sensitive (RFC 9110, 5.6.6).
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

  /// Follows quoted strings byte by byte (RFC 9110, 5.6.4).
  private struct Quotation {
    private var isOpen = false
    private var isEscaped = false

    /// Whether the byte belongs to a quoted string, including its quotation marks.
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

  /// Whether it is an answer to a request with these fields.
  public func answers(_ request: MessageFields) -> Bool {
    selecting.allSatisfy { $0.name != [0x2a] && Self.normalized($0.name, request) == $0.value }
  }

  // MARK: Validation

  /// The head after validation by the origin (RFC 9111, 4.3.4 and 4.3.5): the new fields replace the stored ones,
  /// except those that belong to the content.
  public func freshened(
    by update: MessageFields, answering request: CacheRequest, requested: Int64, received: Int64, wall: Int64? = nil,
    targets: [[UInt8]] = []
  ) -> StoredHead {
    let kept = update.without([
      "content-length", "content-encoding", "content-range", "content-md5", "content-digest", "repr-digest",
    ])
    var fields = fields.updated(by: kept)
    // A 304 without a date counts as having been made when it arrived.
    if !update.contains("date") { fields = fields.without(["date"]) }
    return StoredHead(
      status: status, reason: reason, fields, answering: request, requested: requested, received: received,
      wall: wall, targets: targets)
  }
}
