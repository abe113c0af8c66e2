// Every kind of problem, one row each: its words in each standard, and who is at fault.

extension Problem {
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
    case requestBodyTooLarge, unsupportedBody, heldBodiesSpent, descriptorsSpent, spoolFailed, incompleteResponse
    case unacceptableStatus, unacceptableContentType, malformedContent, undecodableContent, responseBodyTooLarge
    case redirectRefused, originFailed
    case tlsFailed, tlsAlert, tlsTimeout, protocolNotOffered, notStored
    case certificateUntrusted, certificateExpired, certificateNotYetValid, certificateNameMismatch
    case certificateRevoked, revocationUnknown, pinMismatch, pinsExpired

    var row: Row {
      switch self {
      case .malformedRequest:
        Row("malformed-request", 400, .client, "http_request_error", -1000, .unavailable, "The request is malformed")
      case .headTooLarge:
        Row(
          "head-too-large", 431, .client, "http_request_error", -1000, .resourceExhausted,
          "The head of the request is too large")
      case .slowRequest:
        Row(
          "slow-request", 408, .client, "http_request_error", -1001, .deadlineExceeded,
          "The request did not come in time")
      case .versionNotSupported:
        Row(
          "version-not-supported", 505, .client, "http_request_error", -1000, .unavailable,
          "The version of HTTP is not supported")
      case .clientNotIdentified:
        Row(
          "client-not-identified", 503, .proxy, "proxy_internal_response", -1001, .unavailable,
          "The proxy could not find out in time who asks")
      case .denied:
        Row("denied", 403, .policy, "http_request_denied", -1102, .permissionDenied, "The policy denies this request")
      case .unanswered:
        Row("unanswered", 403, .policy, "http_request_denied", -1102, .permissionDenied, "No operator answered in time")
      case .cancelled:
        Row(
          "cancelled", 403, .policy, "http_request_denied", -999, .permissionDenied, "An operator has ended the request"
        )
      case .methodNotAllowed:
        Row(
          "method-not-allowed", 405, .policy, "http_request_denied", -1102, .permissionDenied,
          "The policy does not allow the method")
      case .authenticationRequired:
        Row(
          "authentication-required", 407, .client, "http_request_denied", -1013, .unauthenticated,
          "The proxy asks for credentials")
      case .addressDenied:
        Row(
          "address-denied", 403, .policy, "destination_ip_prohibited", -1102, .permissionDenied,
          "The policy denies the address of this host")
      case .schemeNotSupported:
        Row(
          "scheme-not-supported", 501, .client, "http_request_error", -1002, .unavailable,
          "The scheme of the target is not supported")
      case .loop:
        Row("loop", 502, .client, "proxy_loop_detected", -1007, .unavailable, "The request came back to the proxy")
      case .nameNotFound:
        Row("name-not-found", 502, .network, "dns_error", -1003, .unavailable, "The name of the host does not exist")
      case .nameFailed:
        Row(
          "name-failed", 502, .network, "dns_error", -1003, .unavailable, "The name of the host could not be looked up")
      case .nameTimeout:
        Row(
          "name-timeout", 504, .network, "dns_timeout", -1001, .deadlineExceeded,
          "The look-up of the name of the host took too long")
      case .connectionRefused:
        Row(
          "connection-refused", 502, .network, "connection_refused", -1004, .unavailable,
          "The host refused the connection")
      case .connectionTimeout:
        Row(
          "connection-timeout", 504, .network, "connection_timeout", -1001, .deadlineExceeded,
          "The host did not take the connection in time")
      case .connectionFailed:
        Row(
          "connection-failed", 502, .network, "destination_unavailable", -1004, .unavailable,
          "The connection to the host failed")
      case .notReachable:
        Row(
          "not-reachable", 503, .network, "destination_ip_unroutable", -1009, .unavailable, "The host cannot be reached"
        )
      case .connectionClosed:
        Row(
          "connection-closed", 502, .network, "connection_terminated", -1005, .unavailable,
          "The host closed the connection without an answer")
      case .malformedResponse:
        Row(
          "malformed-response", 502, .upstream, "http_protocol_error", -1011, .unavailable, "The response is malformed")
      case .responseHeadTooLarge:
        Row(
          "response-head-too-large", 502, .upstream, "http_response_header_section_size", -1011, .resourceExhausted,
          "The head of the response is too large")
      case .responseTimeout:
        Row(
          "response-timeout", 504, .network, "http_response_timeout", -1001, .deadlineExceeded,
          "The host did not answer in time")
      case .exchangeTimeout:
        Row(
          "exchange-timeout", 504, .network, "http_response_timeout", -1001, .deadlineExceeded,
          "The exchange took longer than its rule allows")
      case .stalled:
        Row(
          "stalled", 408, .client, "http_request_error", -1001, .deadlineExceeded,
          "The body of the request did not come in time")
      case .hostBusy:
        Row(
          "host-busy", 503, .proxy, "connection_limit_reached", -1001, .resourceExhausted,
          "Too many connections to the host are open")
      case .misdirected:
        Row(
          "misdirected", 421, .client, "http_request_error", -1000, .unavailable,
          "The request is for another host than its tunnel")
      case .interceptionFailed:
        Row(
          "interception-failed", 502, .proxy, "proxy_configuration_error", -1200, .unavailable,
          "The proxy cannot play the part of the host")
      case .shuttingDown:
        Row("shutting-down", 503, .proxy, "proxy_internal_error", -1004, .unavailable, "The proxy is stopping")
      case .cellularNotAllowed:
        Row(
          "cellular-not-allowed", 503, .policy, "http_request_denied", -1020, .permissionDenied,
          "The policy does not allow this request over a cellular link")
      case .parentRefused:
        Row(
          "parent-refused", 502, .upstream, "destination_unavailable", -1004, .unavailable,
          "The parent proxy refused the connection to the host")
      case .parentAuthentication:
        Row(
          "parent-authentication", 502, .proxy, "proxy_configuration_error", -1013, .unavailable,
          "The parent proxy asks for other credentials")
      case .parentFailed:
        Row(
          "parent-failed", 502, .upstream, "http_protocol_error", -1011, .unavailable,
          "The parent proxy gave no answer that makes sense")
      case .requestBodyTooLarge:
        Row(
          "request-body-too-large", 413, .client, "http_request_error", -1103, .resourceExhausted,
          "The body of the request is too large to be re-written")
      case .unsupportedBody:
        Row(
          "unsupported-body", 415, .client, "http_request_error", -1000, .unavailable,
          "The body of the request cannot be re-written")
      case .heldBodiesSpent:
        Row(
          "held-bodies-spent", 503, .proxy, "proxy_internal_response", -1, .resourceExhausted,
          "The proxy holds as many bodies as it may")
      case .descriptorsSpent:
        Row(
          "descriptors-spent", 503, .proxy, "connection_limit_reached", -1, .resourceExhausted,
          "The proxy may open no more connections")
      case .spoolFailed:
        Row(
          "spool-failed", 507, .proxy, "proxy_internal_error", -1, .unavailable,
          "The proxy could not keep the body of the request")
      case .incompleteResponse:
        Row(
          "incomplete-response", 502, .network, "http_response_incomplete", -1005, .unavailable,
          "The host broke the response off")
      case .unacceptableStatus:
        Row(
          "unacceptable-status", 502, .upstream, "http_protocol_error", -1011, .unavailable,
          "The status of the response is not acceptable")
      case .unacceptableContentType:
        Row(
          "unacceptable-content-type", 502, .upstream, "http_protocol_error", -1016, .unavailable,
          "The content type of the response is not acceptable")
      case .malformedContent:
        Row(
          "malformed-content", 502, .upstream, "http_protocol_error", -1016, .unavailable,
          "The content of the response is malformed")
      case .undecodableContent:
        Row(
          "undecodable-content", 502, .upstream, "http_response_content_coding", -1016, .unavailable,
          "The content of the response cannot be decoded")
      case .responseBodyTooLarge:
        Row(
          "response-body-too-large", 502, .upstream, "http_response_body_size", -1103, .resourceExhausted,
          "The content of the response is too large to be checked")
      case .redirectRefused:
        Row(
          "redirect-refused", 502, .policy, "http_protocol_error", -1010, .permissionDenied,
          "The response leads to where the policy does not allow")
      case .originFailed:
        Row(
          "origin-failed", 502, .upstream, "destination_unavailable", -1011, .unavailable,
          "The host answered that it fails")
      case .tlsFailed:
        Row(
          "tls-failed", 502, .upstream, "tls_protocol_error", -1200, .unavailable,
          "The TLS handshake with the host failed")
      case .tlsAlert:
        Row(
          "tls-alert", 502, .upstream, "tls_alert_received", -1200, .unavailable, "The host broke the TLS handshake off"
        )
      case .tlsTimeout:
        Row(
          "tls-timeout", 504, .network, "connection_timeout", -1001, .deadlineExceeded,
          "The TLS handshake with the host took too long")
      case .protocolNotOffered:
        Row(
          "protocol-not-offered", 502, .upstream, "http_protocol_error", -1011, .unavailable,
          "The host does not speak the protocol that is needed")
      case .notStored:
        Row(
          "not-stored", 504, .policy, "proxy_internal_response", -2000, .unavailable,
          "No stored answer can be used")
      case .certificateUntrusted:
        Row(
          "certificate-untrusted", 502, .upstream, "tls_certificate_error", -1202, .unavailable,
          "The certificate of the host is not trusted")
      case .certificateExpired:
        Row(
          "certificate-expired", 502, .upstream, "tls_certificate_error", -1201, .unavailable,
          "The certificate of the host has expired")
      case .certificateNotYetValid:
        Row(
          "certificate-not-yet-valid", 502, .upstream, "tls_certificate_error", -1204, .unavailable,
          "The certificate of the host is not valid yet")
      case .certificateNameMismatch:
        Row(
          "certificate-name-mismatch", 502, .upstream, "tls_certificate_error", -1202, .unavailable,
          "The certificate is not for this host")
      case .certificateRevoked:
        Row(
          "certificate-revoked", 502, .upstream, "tls_certificate_error", -1202, .unavailable,
          "The certificate of the host has been revoked")
      case .revocationUnknown:
        Row(
          "revocation-unknown", 502, .upstream, "tls_certificate_error", -1202, .unavailable,
          "Nothing shows that the certificate of the host has not been revoked")
      case .pinMismatch:
        Row(
          "pin-mismatch", 502, .upstream, "tls_certificate_error", -1202, .unavailable,
          "The certificate of the host carries no pinned key")
      case .pinsExpired:
        Row(
          "pins-expired", 502, .proxy, "tls_certificate_error", -1202, .unavailable,
          "The pins for this host have expired")
      }
    }

    public var status: Int { row.status }
    var title: StaticString { row.title }
    /// The registered proxy error type (RFC 9209, 2.3).
    public var errorType: StaticString { row.errorType }
    /// The stable word: in the reason phrase, the log, and at the end of the problem's type URN.
    public var token: StaticString { row.token }
    /// Whether it means that the destination could not be reached.
    public var isAboutReachability: Bool { row.fault == .network }
    /// Whether the destination was reached, and gave no answer that makes sense.
    public var isOfReachedOrigin: Bool {
      switch self {
      case .connectionClosed, .responseTimeout, .incompleteResponse, .malformedResponse, .responseHeadTooLarge: true
      default: false
      }
    }
    /// Whether it says something about the destination that holds for other requests too.
    public var isAboutDestination: Bool {
      (row.fault == .network || row.fault == .upstream) && self != .exchangeTimeout
    }
  }

  /// Who would have to act differently for the request to succeed.
  enum Fault: Sendable {
    case client, policy, network, upstream, proxy
  }

  /// The codes of gRPC (its documentation, "Status codes and their use in gRPC").
  enum GRPCStatus: UInt64, Sendable {
    case deadlineExceeded = 4
    case permissionDenied = 7
    case resourceExhausted = 8
    case unavailable = 14
    case unauthenticated = 16
  }

  struct Row {
    let token: StaticString
    let status: Int
    let fault: Fault
    let errorType: StaticString
    /// The code by which AFNetworking's users know the condition (NSURLErrorDomain).
    let nsurlError: Int
    let grpcStatus: GRPCStatus
    let title: StaticString

    init(
      _ token: StaticString, _ status: Int, _ fault: Fault, _ errorType: StaticString, _ nsurlError: Int,
      _ grpcStatus: GRPCStatus, _ title: StaticString
    ) {
      self.token = token
      self.status = status
      self.fault = fault
      self.errorType = errorType
      self.nsurlError = nsurlError
      self.grpcStatus = grpcStatus
      self.title = title
    }
  }
}
