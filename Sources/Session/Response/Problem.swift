// What a client is told when the proxy itself answers: RFC 9457 problem details, RFC 9209 Proxy-Status, and a reason
// phrase that stands out, for it is all that most clients show of a refused CONNECT.

import Bytes
import HTTP1
import Serialization

/// An answer of the proxy's own making: which one, and what is said with it.
public struct Problem: Sendable, Equatable {
  /// What went wrong.
  public enum Kind: Sendable, CaseIterable {
    case malformedRequest, headTooLarge, slowRequest, versionNotSupported, clientNotIdentified
    case denied, unanswered, cancelled, methodNotAllowed, authenticationRequired, addressDenied, schemeNotSupported,
      loop
    case nameNotFound, nameFailed, nameTimeout
    case connectionRefused, connectionTimeout, connectionFailed, notReachable, connectionClosed
    case malformedResponse, responseHeadTooLarge, responseTimeout, exchangeTimeout, stalled
    case hostBusy, misdirected, interceptionFailed, shuttingDown
    case cellularNotAllowed, parentRefused, parentAuthentication, parentFailed
    case requestBodyTooLarge, unsupportedBody, heldBodiesSpent, spoolFailed, incompleteResponse
    case unacceptableStatus, unacceptableContentType, malformedContent, undecodableContent, responseBodyTooLarge
    case redirectRefused, originFailed
    case tlsFailed, tlsAlert, tlsTimeout, protocolNotOffered, notStored
    case certificateUntrusted, certificateExpired, certificateNotYetValid, certificateNameMismatch
    case certificateRevoked, revocationUnknown, pinMismatch, pinsExpired

    public var status: Int {
      switch self {
      case .malformedRequest: 400
      case .denied, .unanswered, .cancelled, .addressDenied: 403
      case .methodNotAllowed: 405
      case .authenticationRequired: 407
      case .slowRequest, .stalled: 408
      case .requestBodyTooLarge: 413
      case .unsupportedBody: 415
      case .misdirected: 421
      case .headTooLarge: 431
      case .schemeNotSupported: 501
      case .versionNotSupported: 505
      case .spoolFailed: 507
      case .loop, .nameNotFound, .nameFailed, .connectionRefused, .connectionFailed, .connectionClosed,
        .malformedResponse, .responseHeadTooLarge, .tlsFailed, .tlsAlert, .protocolNotOffered, .certificateUntrusted,
        .certificateExpired,
        .certificateNotYetValid, .certificateNameMismatch, .certificateRevoked, .revocationUnknown, .pinMismatch,
        .pinsExpired, .interceptionFailed, .incompleteResponse, .unacceptableStatus, .unacceptableContentType,
        .malformedContent, .undecodableContent, .responseBodyTooLarge, .redirectRefused, .originFailed, .parentRefused,
        .parentAuthentication, .parentFailed:
        502
      case .notReachable, .cellularNotAllowed, .hostBusy, .heldBodiesSpent, .clientNotIdentified, .shuttingDown: 503
      case .nameTimeout, .connectionTimeout, .responseTimeout, .exchangeTimeout, .tlsTimeout, .notStored: 504
      }
    }

    var title: StaticString {
      switch self {
      case .malformedRequest: "The request is malformed"
      case .headTooLarge: "The head of the request is too large"
      case .slowRequest: "The request did not come in time"
      case .clientNotIdentified: "The proxy could not find out in time who asks"
      case .versionNotSupported: "The version of HTTP is not supported"
      case .denied: "The policy denies this request"
      case .unanswered: "No operator answered in time"
      case .cancelled: "An operator has ended the request"
      case .methodNotAllowed: "The policy does not allow the method"
      case .authenticationRequired: "The proxy asks for credentials"
      case .addressDenied: "The policy denies the address of this host"
      case .schemeNotSupported: "The scheme of the target is not supported"
      case .loop: "The request came back to the proxy"
      case .nameNotFound: "The name of the host does not exist"
      case .nameFailed: "The name of the host could not be looked up"
      case .nameTimeout: "The look-up of the name of the host took too long"
      case .connectionRefused: "The host refused the connection"
      case .connectionTimeout: "The host did not take the connection in time"
      case .connectionFailed: "The connection to the host failed"
      case .notReachable: "The host cannot be reached"
      case .connectionClosed: "The host closed the connection without an answer"
      case .malformedResponse: "The response is malformed"
      case .responseHeadTooLarge: "The head of the response is too large"
      case .responseTimeout: "The host did not answer in time"
      case .exchangeTimeout: "The exchange took longer than its rule allows"
      case .stalled: "The body of the request did not come in time"
      case .hostBusy: "Too many connections to the host are open"
      case .shuttingDown: "The proxy is stopping"
      case .interceptionFailed: "The proxy cannot play the part of the host"
      case .cellularNotAllowed: "The policy does not allow this request over a cellular link"
      case .parentRefused: "The parent proxy refused the connection to the host"
      case .parentAuthentication: "The parent proxy asks for other credentials"
      case .parentFailed: "The parent proxy gave no answer that makes sense"
      case .misdirected: "The request is for another host than its tunnel"
      case .requestBodyTooLarge: "The body of the request is too large to be re-written"
      case .unsupportedBody: "The body of the request cannot be re-written"
      case .heldBodiesSpent: "The proxy holds as many bodies as it may"
      case .spoolFailed: "The proxy could not keep the body of the request"
      case .incompleteResponse: "The host broke the response off"
      case .unacceptableStatus: "The status of the response is not acceptable"
      case .unacceptableContentType: "The content type of the response is not acceptable"
      case .malformedContent: "The content of the response is malformed"
      case .undecodableContent: "The content of the response cannot be decoded"
      case .responseBodyTooLarge: "The content of the response is too large to be checked"
      case .redirectRefused: "The response leads to where the policy does not allow"
      case .originFailed: "The host answered that it fails"
      case .tlsFailed: "The TLS handshake with the host failed"
      case .protocolNotOffered: "The host does not speak the protocol that is needed"
      case .notStored: "No stored answer can be used"
      case .tlsAlert: "The host broke the TLS handshake off"
      case .tlsTimeout: "The TLS handshake with the host took too long"
      case .certificateUntrusted: "The certificate of the host is not trusted"
      case .certificateExpired: "The certificate of the host has expired"
      case .certificateNotYetValid: "The certificate of the host is not valid yet"
      case .certificateNameMismatch: "The certificate is not for this host"
      case .certificateRevoked: "The certificate of the host has been revoked"
      case .revocationUnknown: "Nothing shows that the certificate of the host has not been revoked"
      case .pinMismatch: "The certificate of the host carries no pinned key"
      case .pinsExpired: "The pins for this host have expired"
      }
    }

    /// The registered proxy error type (RFC 9209, 2.3).
    public var errorType: StaticString {
      switch self {
      case .malformedRequest, .headTooLarge, .slowRequest, .versionNotSupported, .schemeNotSupported, .stalled:
        "http_request_error"
      case .misdirected, .requestBodyTooLarge, .unsupportedBody: "http_request_error"
      case .heldBodiesSpent, .clientNotIdentified, .notStored: "proxy_internal_response"
      case .incompleteResponse: "http_response_incomplete"
      case .unacceptableStatus, .unacceptableContentType, .malformedContent, .redirectRefused: "http_protocol_error"
      case .undecodableContent: "http_response_content_coding"
      case .responseBodyTooLarge: "http_response_body_size"
      case .interceptionFailed, .parentAuthentication: "proxy_configuration_error"
      case .hostBusy: "connection_limit_reached"
      case .shuttingDown, .spoolFailed: "proxy_internal_error"
      case .tlsFailed: "tls_protocol_error"
      case .protocolNotOffered: "http_protocol_error"
      case .tlsAlert: "tls_alert_received"
      case .tlsTimeout: "connection_timeout"
      case .certificateUntrusted, .certificateExpired, .certificateNotYetValid, .certificateNameMismatch,
        .certificateRevoked, .revocationUnknown, .pinMismatch, .pinsExpired:
        "tls_certificate_error"
      case .denied, .unanswered, .cancelled, .methodNotAllowed, .authenticationRequired, .cellularNotAllowed:
        "http_request_denied"
      case .addressDenied: "destination_ip_prohibited"
      case .loop: "proxy_loop_detected"
      case .nameNotFound, .nameFailed: "dns_error"
      case .nameTimeout: "dns_timeout"
      case .connectionRefused: "connection_refused"
      case .connectionTimeout: "connection_timeout"
      case .connectionFailed, .parentRefused, .originFailed: "destination_unavailable"
      case .notReachable: "destination_ip_unroutable"
      case .connectionClosed: "connection_terminated"
      case .malformedResponse, .parentFailed: "http_protocol_error"
      case .responseHeadTooLarge: "http_response_header_section_size"
      case .responseTimeout, .exchangeTimeout: "http_response_timeout"
      }
    }

    /// The code that AFNetworking's users know the condition by (NSURLErrorDomain).
    var nsurlError: StaticString {
      switch self {
      case .heldBodiesSpent, .spoolFailed: "-1"
      case .malformedRequest, .headTooLarge, .versionNotSupported, .misdirected, .unsupportedBody: "-1000"
      case .slowRequest, .nameTimeout, .connectionTimeout, .responseTimeout, .exchangeTimeout, .stalled, .tlsTimeout,
        .hostBusy, .clientNotIdentified:
        "-1001"
      case .schemeNotSupported: "-1002"
      case .nameNotFound, .nameFailed: "-1003"
      case .connectionRefused, .connectionFailed, .parentRefused, .shuttingDown: "-1004"
      case .connectionClosed, .incompleteResponse: "-1005"
      case .cancelled: "-999"
      case .loop: "-1007"
      case .redirectRefused: "-1010"
      case .notReachable: "-1009"
      case .malformedResponse, .responseHeadTooLarge, .unacceptableStatus, .parentFailed, .originFailed,
        .protocolNotOffered:
        "-1011"
      case .authenticationRequired, .parentAuthentication: "-1013"
      case .unacceptableContentType, .malformedContent, .undecodableContent: "-1016"
      case .cellularNotAllowed: "-1020"
      case .denied, .unanswered, .methodNotAllowed, .addressDenied: "-1102"
      case .requestBodyTooLarge, .responseBodyTooLarge: "-1103"
      case .tlsFailed, .tlsAlert, .interceptionFailed: "-1200"
      case .certificateExpired: "-1201"
      case .certificateUntrusted, .certificateNameMismatch, .certificateRevoked, .revocationUnknown, .pinMismatch,
        .pinsExpired:
        "-1202"
      case .certificateNotYetValid: "-1204"
      case .notStored: "-2000"
      }
    }

    /// The stable word: in the reason phrase, the log, and at the end of the problem's type URN.
    public var token: StaticString {
      switch self {
      case .malformedRequest: "malformed-request"
      case .headTooLarge: "head-too-large"
      case .slowRequest: "slow-request"
      case .clientNotIdentified: "client-not-identified"
      case .versionNotSupported: "version-not-supported"
      case .denied: "denied"
      case .unanswered: "unanswered"
      case .cancelled: "cancelled"
      case .methodNotAllowed: "method-not-allowed"
      case .authenticationRequired: "authentication-required"
      case .addressDenied: "address-denied"
      case .schemeNotSupported: "scheme-not-supported"
      case .loop: "loop"
      case .nameNotFound: "name-not-found"
      case .nameFailed: "name-failed"
      case .nameTimeout: "name-timeout"
      case .connectionRefused: "connection-refused"
      case .connectionTimeout: "connection-timeout"
      case .connectionFailed: "connection-failed"
      case .notReachable: "not-reachable"
      case .connectionClosed: "connection-closed"
      case .malformedResponse: "malformed-response"
      case .responseHeadTooLarge: "response-head-too-large"
      case .responseTimeout: "response-timeout"
      case .exchangeTimeout: "exchange-timeout"
      case .stalled: "stalled"
      case .hostBusy: "host-busy"
      case .shuttingDown: "shutting-down"
      case .interceptionFailed: "interception-failed"
      case .cellularNotAllowed: "cellular-not-allowed"
      case .parentRefused: "parent-refused"
      case .parentAuthentication: "parent-authentication"
      case .parentFailed: "parent-failed"
      case .misdirected: "misdirected"
      case .requestBodyTooLarge: "request-body-too-large"
      case .unsupportedBody: "unsupported-body"
      case .heldBodiesSpent: "held-bodies-spent"
      case .spoolFailed: "spool-failed"
      case .incompleteResponse: "incomplete-response"
      case .unacceptableStatus: "unacceptable-status"
      case .unacceptableContentType: "unacceptable-content-type"
      case .malformedContent: "malformed-content"
      case .undecodableContent: "undecodable-content"
      case .responseBodyTooLarge: "response-body-too-large"
      case .redirectRefused: "redirect-refused"
      case .originFailed: "origin-failed"
      case .tlsFailed: "tls-failed"
      case .protocolNotOffered: "protocol-not-offered"
      case .notStored: "not-stored"
      case .tlsAlert: "tls-alert"
      case .tlsTimeout: "tls-timeout"
      case .certificateUntrusted: "certificate-untrusted"
      case .certificateExpired: "certificate-expired"
      case .certificateNotYetValid: "certificate-not-yet-valid"
      case .certificateNameMismatch: "certificate-name-mismatch"
      case .certificateRevoked: "certificate-revoked"
      case .revocationUnknown: "revocation-unknown"
      case .pinMismatch: "pin-mismatch"
      case .pinsExpired: "pins-expired"
      }
    }
  }

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
