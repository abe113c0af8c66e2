// What a client gets when the proxy itself responds: RFC 9457 problem details, RFC 9209 Proxy-Status, and a telling
// reason phrase, because that is all that most clients show of a refused CONNECT.

import Bytes
import HTTP1
import Serialization

/// A response of the proxy's own: its kind and its details.
public struct Problem: Sendable, Equatable {
  public let kind: Kind
  /// A sentence: what was expected, what was seen. Contains no secret.
  public let detail: String
  /// The same in two parts, if it has them.
  public let difference: Difference?
  /// The violations of a rejected response, one by one.
  public let violations: [ResponseViolation]
  /// The status from the next hop, if it is the cause (RFC 9209, 2.1.4).
  public let receivedStatus: Int?
  /// The methods that are allowed, if the method is not (RFC 9110, 15.5.6).
  public let allowed: [String]
  /// The response that was rejected.
  public let upstream: Upstream?
  /// What the client can do about a refusal; nil: it is not the policy's.
  public internal(set) var advice: Advice?

  /// The status for the client: the origin's own if that is the cause.
  public var status: Int { kind == .originFailed ? receivedStatus ?? kind.status : kind.status }

  /// What the client learns about a response that it does not get.
  public struct Upstream: Sendable, Equatable {
    public let status: Int
    /// Value of Content-Type; nil if there is none.
    public let type: String?
    /// The beginning of its content; nil if it has none, or is not text.
    public let text: String?
  }

  public init(
    _ kind: Kind, _ detail: String, difference: Difference? = nil, violations: [ResponseViolation] = [],
    receivedStatus: Int? = nil, allowed: [String] = [], upstream: Upstream? = nil, advice: Advice? = nil
  ) {
    self.kind = kind
    self.detail = detail
    self.difference = difference ?? violations.first?.difference
    self.violations = violations
    self.receivedStatus = receivedStatus
    self.allowed = allowed
    self.upstream = upstream
    self.advice = advice
  }
}

extension Problem.Kind {
  /// The kind of problem for a request with this fault.
  init(ofRequest fault: MessageFault) {
    self = fault == .unsupportedVersion ? .versionNotSupported : fault.isHeadLimit ? .headTooLarge : .malformedRequest
  }

  /// The kind of problem for a response with this violation.
  init(_ subject: ResponseViolation.Subject) {
    switch subject {
    case .status: self = .unacceptableStatus
    case .contentType: self = .unacceptableContentType
    case .body: self = .malformedContent
    case .contentCoding: self = .undecodableContent
    case .size: self = .responseBodyTooLarge
    }
  }
}

extension Problem {
  /// The path has raw bytes, and the rule that decides, if one does, does not accept them.
  static let rawPath = Problem(
    .malformedRequest,
    "The request has bytes above 0x7F in its path, where they must be percent-encoded; the rule that decides it has no "
      + "encode_path = true.")
}
