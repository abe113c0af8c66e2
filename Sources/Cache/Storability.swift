// What may be stored (RFC 9111, 3). Tests: StorabilityTests.

import Bytes
import Policy

extension StoredHead {
  /// Why the answer is not stored; nil if it may be.
  /// `isStored`: the content is already here, and HEAD has brought a new head.
  public func refusal(toStoreFor request: CacheRequest, isStored: Bool = false) -> String? {
    if request.method != .get, !isStored { return "the request is no GET" }
    if status < 200 { return "it is not the final answer" }
    // RFC 6585: these are about one client at one moment.
    if Self.neverStored.contains(status) { return "status \(status) is never stored" }
    if request.directives.noStore { return "the request says no-store" }
    // A part is stored as part of a whole, or not at all.
    if status == 206 { return "it is a part" }
    if status == 304 { return "it answers a condition of the client's" }
    if request.isForPart, status != 200 { return "it answers a request for a part" }
    // RFC 9111, 5.2.2.3: this no-store is for caches that do not understand the status.
    let understands = directives.mustUnderstand && Self.understoodStatuses.contains(status)
    if directives.noStore, !understands { return "it says no-store" }
    if directives.mustUnderstand, !understands { return "it must be understood, and status \(status) is not" }
    if directives.isPrivate, request.rule.share != .user { return "it says private" }
    if selecting.contains(where: { $0.name == [0x2a] }) { return "it varies with everything" }
    if request.isAuthorized, !isForAll { return "its request carried credentials" }
    if request.rule.share != .user, fields.contains("set-cookie"), !directives.isPublic {
      return "it sets a cookie and does not say public"
    }
    let isAllowed =
      directives.isPublic || namesLifetime || Self.heuristicStatuses.contains(status)
      || directives.isPrivate && request.rule.share == .user
    return isAllowed ? nil : "status \(status) without a lifetime is not stored"
  }

  /// RFC 9111, 3.5: answers that others may get although the request carried credentials.
  private var isForAll: Bool {
    // `private` takes back what these allow shared caches.
    if directives.isPrivate { return false }
    return directives.isPublic || directives.revalidation == .byAll || directives.sharedMaxAge != nil
  }

  private static let neverStored: Set<Int> = [428, 429, 431, 511]

  /// Final statuses whose meaning for a cache is implemented here: all those of RFC 9110 that are stored at all.
  static let understoodStatuses: Set<Int> = heuristicStatuses.union([
    201, 202, 302, 303, 307, 400, 401, 403, 406, 409, 411, 412, 413, 415, 416, 417, 421, 422, 426, 500, 502, 503, 504,
    505,
  ])
}
