// [rule.response]: which responses are accepted, and what happens to the others.

import Bytes

/// The requirements on a response: AFHTTPResponseSerializer and its subclasses.
public struct ResponseSerialization: Sendable {
  public enum Kind: String, Sendable, CaseIterable { case http, json, xml, plist, image }

  /// What happens to a response with a violation.
  public enum Reaction: String, Sendable, CaseIterable {
    /// It is replaced by 502.
    case reject
    /// It passes unchanged, with the reason in Proxy-Status.
    case annotate
  }

  /// What happens to a head that breaks the grammar in a way that RFC 9112 allows a proxy to mend.
  public enum Malformed: String, Sendable, CaseIterable {
    /// It is rewritten correctly.
    case mend
    /// It is replaced by 502.
    case reject
  }

  /// Whether a 206 must meet the requirements on a whole response.
  public enum Parts: String, Sendable, CaseIterable { case pass, judge }

  /// The allowed root of a JSON text: NSJSONReadingOptions with and without fragments.
  public enum JSONRoot: String, Sendable, CaseIterable {
    case any
    /// An object or an array.
    case container
  }

  /// In order; the first that accepts a response decides.
  public let kinds: [Kind]
  /// The same as text: `json` or `json,http`.
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
  /// Whether responses are judged at all; false if only `malformed` is set.
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
