// What a client is told when the proxy itself answers: RFC 9457 problem details, RFC 9209 Proxy-Status, and a reason
// phrase that stands out, for it is all that most clients show of a refused CONNECT.

import Bytes
import HTTP1
import Serialization

/// An answer of the proxy's own making: which one, and what is said with it.
public struct Problem: Sendable, Equatable {
  public let kind: Kind
  /// A sentence: what was expected, what was seen. Holds no secret.
  public let detail: String
  /// The same in two parts, where it has them.
  public let difference: Difference?
  /// What is wrong with a response that is rejected, one by one.
  public let violations: [ResponseViolation]
  /// The status that the next hop answered with, where that is why (RFC 9209, 2.1.4).
  public let receivedStatus: Int?
  /// The methods that are allowed, where one is not (RFC 9110, 15.5.6).
  public let allowed: [String]
  /// What was answered, where it is rejected.
  public let upstream: Upstream?
  /// What the client can do about a refusal; nil: it is none of the policy's.
  public internal(set) var advice: Advice?

  /// What the client is answered with: the origin's own status, where that is why.
  public var status: Int { kind == .originFailed ? receivedStatus ?? kind.status : kind.status }

  /// A response that does not reach the client, as far as the client is told of it.
  public struct Upstream: Sendable, Equatable {
    public let status: Int
    /// Value of Content-Type; nil where there is none.
    public let type: String?
    /// How its content begins; nil where it has none, or is no text.
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
  /// What a request with such a fault is answered.
  init(ofRequest fault: MessageFault) {
    self = fault == .unsupportedVersion ? .versionNotSupported : fault.isHeadLimit ? .headTooLarge : .malformedRequest
  }

  /// What a response with such a violation is.
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
