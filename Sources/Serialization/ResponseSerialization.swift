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

  /// In order; the first that accepts a response decides.
  public let kinds: [Kind]
  public let acceptableStatus: StatusRanges
  /// nil: each serializer's own list.
  public let acceptableTypes: [MediaRange]?
  public let removesNulls: Bool
  public let onStatus: Reaction
  public let onContentType: Reaction
  public let onBody: Reaction
  public let onOversize: Reaction

  public init(
    kinds: [Kind] = [.http], acceptableStatus: StatusRanges = .successful, acceptableTypes: [MediaRange]? = nil,
    removesNulls: Bool = false, onStatus: Reaction = .annotate, onContentType: Reaction = .reject,
    onBody: Reaction = .reject, onOversize: Reaction = .annotate
  ) {
    self.kinds = kinds
    self.acceptableStatus = acceptableStatus
    self.acceptableTypes = acceptableTypes
    self.removesNulls = removesNulls
    self.onStatus = onStatus
    self.onContentType = onContentType
    self.onBody = onBody
    self.onOversize = onOversize
  }
}
