// What [rule.response] says: which responses are accepted, and what becomes of those that are not.

import Bytes

/// What a response is held to: AFHTTPResponseSerializer and its kin.
public struct ResponseSerialization: Sendable {
  public enum Kind: String, Sendable, CaseIterable { case http, json, xml, plist, image }

  /// What becomes of a response that violates.
  public enum Reaction: String, Sendable, CaseIterable {
    /// 502 in its place.
    case reject
    /// It passes as it came, with the reason in Proxy-Status.
    case annotate
  }

  /// What becomes of a head that breaks the grammar in a way that RFC 9112 lets a proxy mend.
  public enum Malformed: String, Sendable, CaseIterable {
    /// It is written as it should be.
    case mend
    /// 502 in its place.
    case reject
  }

  /// Whether a 206 is held to what a whole response is.
  public enum Parts: String, Sendable, CaseIterable { case pass, judge }

  /// What JSON may be on its outside: NSJSONReadingOptions with and without fragments.
  public enum JSONRoot: String, Sendable, CaseIterable {
    case any
    /// An object or an array.
    case container
  }

  /// In order; the first that accepts a response decides.
  public let kinds: [Kind]
  /// The same as a text: `json` or `json,http`.
  public let name: String
  public let acceptableStatus: StatusRanges
  /// nil: each serializer's own list.
  public let acceptableTypes: [MediaRange]?
  public let removesNulls: Bool
  public let onStatus: Reaction
  public let onContentType: Reaction
  public let onBody: Reaction
  public let onOversize: Reaction
  public let malformed: Malformed
  public let parts: Parts
  public let jsonRoot: JSONRoot
  /// Whether responses are judged at all; false where nothing but `malformed` is said.
  public let judges: Bool

  public init(
    kinds: [Kind] = [.http], acceptableStatus: StatusRanges = .successful, acceptableTypes: [MediaRange]? = nil,
    removesNulls: Bool = false, onStatus: Reaction = .annotate, onContentType: Reaction = .reject,
    onBody: Reaction = .reject, onOversize: Reaction = .annotate,
    malformed: Malformed = .mend, parts: Parts = .pass, jsonRoot: JSONRoot = .any, judges: Bool = true
  ) {
    self.kinds = kinds
    name = kinds.map(\.rawValue).joined(separator: ",")
    self.acceptableStatus = acceptableStatus
    self.acceptableTypes = acceptableTypes
    self.removesNulls = removesNulls
    self.onStatus = onStatus
    self.onContentType = onContentType
    self.onBody = onBody
    self.onOversize = onOversize
    self.malformed = malformed
    self.parts = parts
    self.jsonRoot = jsonRoot
    self.judges = judges
  }
}
