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
        Row(
          "malformed-request", 400, fault: .client, errorType: "http_request_error", nsurlError: -1000,
          grpcStatus: .unavailable, title: "The request is malformed")
      case .headTooLarge:
        Row(
          "head-too-large", 431, fault: .client, errorType: "http_request_error", nsurlError: -1000,
          grpcStatus: .resourceExhausted,
          title: "The head of the request is too large")
      case .slowRequest:
        Row(
          "slow-request", 408, fault: .client, errorType: "http_request_error", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The request did not come in time")
      case .versionNotSupported:
        Row(
          "version-not-supported", 505, fault: .client, errorType: "http_request_error", nsurlError: -1000,
          grpcStatus: .unavailable,
          title: "The version of HTTP is not supported")
      case .clientNotIdentified:
        Row(
          "client-not-identified", 503, fault: .proxy, errorType: "proxy_internal_response", nsurlError: -1001,
          grpcStatus: .unavailable,
          title: "The proxy could not find out in time who asks")
      case .denied:
        Row(
          "denied", 403, fault: .policy, errorType: "http_request_denied", nsurlError: -1102,
          grpcStatus: .permissionDenied, title: "The policy denies this request")
      case .unanswered:
        Row(
          "unanswered", 403, fault: .policy, errorType: "http_request_denied", nsurlError: -1102,
          grpcStatus: .permissionDenied, title: "No operator answered in time")
      case .cancelled:
        Row(
          "cancelled", 403, fault: .policy, errorType: "http_request_denied", nsurlError: -999,
          grpcStatus: .permissionDenied, title: "An operator has ended the request"
        )
      case .methodNotAllowed:
        Row(
          "method-not-allowed", 405, fault: .policy, errorType: "http_request_denied", nsurlError: -1102,
          grpcStatus: .permissionDenied,
          title: "The policy does not allow the method")
      case .authenticationRequired:
        Row(
          "authentication-required", 407, fault: .client, errorType: "http_request_denied", nsurlError: -1013,
          grpcStatus: .unauthenticated,
          title: "The proxy asks for credentials")
      case .addressDenied:
        Row(
          "address-denied", 403, fault: .policy, errorType: "destination_ip_prohibited", nsurlError: -1102,
          grpcStatus: .permissionDenied,
          title: "The policy denies the address of this host")
      case .schemeNotSupported:
        Row(
          "scheme-not-supported", 501, fault: .client, errorType: "http_request_error", nsurlError: -1002,
          grpcStatus: .unavailable,
          title: "The scheme of the target is not supported")
      case .loop:
        Row(
          "loop", 502, fault: .client, errorType: "proxy_loop_detected", nsurlError: -1007, grpcStatus: .unavailable,
          title: "The request came back to the proxy")
      case .nameNotFound:
        Row(
          "name-not-found", 502, fault: .network, errorType: "dns_error", nsurlError: -1003, grpcStatus: .unavailable,
          title: "The name of the host does not exist")
      case .nameFailed:
        Row(
          "name-failed", 502, fault: .network, errorType: "dns_error", nsurlError: -1003, grpcStatus: .unavailable,
          title: "The name of the host could not be looked up")
      case .nameTimeout:
        Row(
          "name-timeout", 504, fault: .network, errorType: "dns_timeout", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The look-up of the name of the host took too long")
      case .connectionRefused:
        Row(
          "connection-refused", 502, fault: .network, errorType: "connection_refused", nsurlError: -1004,
          grpcStatus: .unavailable,
          title: "The host refused the connection")
      case .connectionTimeout:
        Row(
          "connection-timeout", 504, fault: .network, errorType: "connection_timeout", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The host did not take the connection in time")
      case .connectionFailed:
        Row(
          "connection-failed", 502, fault: .network, errorType: "destination_unavailable", nsurlError: -1004,
          grpcStatus: .unavailable,
          title: "The connection to the host failed")
      case .notReachable:
        Row(
          "not-reachable", 503, fault: .network, errorType: "destination_ip_unroutable", nsurlError: -1009,
          grpcStatus: .unavailable, title: "The host cannot be reached"
        )
      case .connectionClosed:
        Row(
          "connection-closed", 502, fault: .network, errorType: "connection_terminated", nsurlError: -1005,
          grpcStatus: .unavailable,
          title: "The host closed the connection without an answer")
      case .malformedResponse:
        Row(
          "malformed-response", 502, fault: .upstream, errorType: "http_protocol_error", nsurlError: -1011,
          grpcStatus: .unavailable, title: "The response is malformed")
      case .responseHeadTooLarge:
        Row(
          "response-head-too-large", 502, fault: .upstream, errorType: "http_response_header_section_size",
          nsurlError: -1011, grpcStatus: .resourceExhausted,
          title: "The head of the response is too large")
      case .responseTimeout:
        Row(
          "response-timeout", 504, fault: .network, errorType: "http_response_timeout", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The host did not answer in time")
      case .exchangeTimeout:
        Row(
          "exchange-timeout", 504, fault: .network, errorType: "http_response_timeout", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The exchange took longer than its rule allows")
      case .stalled:
        Row(
          "stalled", 408, fault: .client, errorType: "http_request_error", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The body of the request did not come in time")
      case .hostBusy:
        Row(
          "host-busy", 503, fault: .proxy, errorType: "connection_limit_reached", nsurlError: -1001,
          grpcStatus: .resourceExhausted,
          title: "Too many connections to the host are open")
      case .misdirected:
        Row(
          "misdirected", 421, fault: .client, errorType: "http_request_error", nsurlError: -1000,
          grpcStatus: .unavailable,
          title: "The request is for another host than its tunnel")
      case .interceptionFailed:
        Row(
          "interception-failed", 502, fault: .proxy, errorType: "proxy_configuration_error", nsurlError: -1200,
          grpcStatus: .unavailable,
          title: "The proxy cannot play the part of the host")
      case .shuttingDown:
        Row(
          "shutting-down", 503, fault: .proxy, errorType: "proxy_internal_error", nsurlError: -1004,
          grpcStatus: .unavailable, title: "The proxy is stopping")
      case .cellularNotAllowed:
        Row(
          "cellular-not-allowed", 503, fault: .policy, errorType: "http_request_denied", nsurlError: -1020,
          grpcStatus: .permissionDenied,
          title: "The policy does not allow this request over a cellular link")
      case .parentRefused:
        Row(
          "parent-refused", 502, fault: .upstream, errorType: "destination_unavailable", nsurlError: -1004,
          grpcStatus: .unavailable,
          title: "The parent proxy refused the connection to the host")
      case .parentAuthentication:
        Row(
          "parent-authentication", 502, fault: .proxy, errorType: "proxy_configuration_error", nsurlError: -1013,
          grpcStatus: .unavailable,
          title: "The parent proxy asks for other credentials")
      case .parentFailed:
        Row(
          "parent-failed", 502, fault: .upstream, errorType: "http_protocol_error", nsurlError: -1011,
          grpcStatus: .unavailable,
          title: "The parent proxy gave no answer that makes sense")
      case .requestBodyTooLarge:
        Row(
          "request-body-too-large", 413, fault: .client, errorType: "http_request_error", nsurlError: -1103,
          grpcStatus: .resourceExhausted,
          title: "The body of the request is too large to be re-written")
      case .unsupportedBody:
        Row(
          "unsupported-body", 415, fault: .client, errorType: "http_request_error", nsurlError: -1000,
          grpcStatus: .unavailable,
          title: "The body of the request cannot be re-written")
      case .heldBodiesSpent:
        Row(
          "held-bodies-spent", 503, fault: .proxy, errorType: "proxy_internal_response", nsurlError: -1,
          grpcStatus: .resourceExhausted,
          title: "The proxy holds as many bodies as it may")
      case .descriptorsSpent:
        Row(
          "descriptors-spent", 503, fault: .proxy, errorType: "connection_limit_reached", nsurlError: -1,
          grpcStatus: .resourceExhausted,
          title: "The proxy may open no more connections")
      case .spoolFailed:
        Row(
          "spool-failed", 507, fault: .proxy, errorType: "proxy_internal_error", nsurlError: -1,
          grpcStatus: .unavailable,
          title: "The proxy could not keep the body of the request")
      case .incompleteResponse:
        Row(
          "incomplete-response", 502, fault: .network, errorType: "http_response_incomplete", nsurlError: -1005,
          grpcStatus: .unavailable,
          title: "The host broke the response off")
      case .unacceptableStatus:
        Row(
          "unacceptable-status", 502, fault: .upstream, errorType: "http_protocol_error", nsurlError: -1011,
          grpcStatus: .unavailable,
          title: "The status of the response is not acceptable")
      case .unacceptableContentType:
        Row(
          "unacceptable-content-type", 502, fault: .upstream, errorType: "http_protocol_error", nsurlError: -1016,
          grpcStatus: .unavailable,
          title: "The content type of the response is not acceptable")
      case .malformedContent:
        Row(
          "malformed-content", 502, fault: .upstream, errorType: "http_protocol_error", nsurlError: -1016,
          grpcStatus: .unavailable,
          title: "The content of the response is malformed")
      case .undecodableContent:
        Row(
          "undecodable-content", 502, fault: .upstream, errorType: "http_response_content_coding", nsurlError: -1016,
          grpcStatus: .unavailable,
          title: "The content of the response cannot be decoded")
      case .responseBodyTooLarge:
        Row(
          "response-body-too-large", 502, fault: .upstream, errorType: "http_response_body_size", nsurlError: -1103,
          grpcStatus: .resourceExhausted,
          title: "The content of the response is too large to be checked")
      case .redirectRefused:
        Row(
          "redirect-refused", 502, fault: .policy, errorType: "http_protocol_error", nsurlError: -1010,
          grpcStatus: .permissionDenied,
          title: "The response leads to where the policy does not allow")
      case .originFailed:
        Row(
          "origin-failed", 502, fault: .upstream, errorType: "destination_unavailable", nsurlError: -1011,
          grpcStatus: .unavailable,
          title: "The host answered that it fails")
      case .tlsFailed:
        Row(
          "tls-failed", 502, fault: .upstream, errorType: "tls_protocol_error", nsurlError: -1200,
          grpcStatus: .unavailable,
          title: "The TLS handshake with the host failed")
      case .tlsAlert:
        Row(
          "tls-alert", 502, fault: .upstream, errorType: "tls_alert_received", nsurlError: -1200,
          grpcStatus: .unavailable, title: "The host broke the TLS handshake off"
        )
      case .tlsTimeout:
        Row(
          "tls-timeout", 504, fault: .network, errorType: "connection_timeout", nsurlError: -1001,
          grpcStatus: .deadlineExceeded,
          title: "The TLS handshake with the host took too long")
      case .protocolNotOffered:
        Row(
          "protocol-not-offered", 502, fault: .upstream, errorType: "http_protocol_error", nsurlError: -1011,
          grpcStatus: .unavailable,
          title: "The host does not speak the protocol that is needed")
      case .notStored:
        Row(
          "not-stored", 504, fault: .policy, errorType: "proxy_internal_response", nsurlError: -2000,
          grpcStatus: .unavailable,
          title: "No stored answer can be used")
      case .certificateUntrusted:
        Row(
          "certificate-untrusted", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1202,
          grpcStatus: .unavailable,
          title: "The certificate of the host is not trusted")
      case .certificateExpired:
        Row(
          "certificate-expired", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1201,
          grpcStatus: .unavailable,
          title: "The certificate of the host has expired")
      case .certificateNotYetValid:
        Row(
          "certificate-not-yet-valid", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1204,
          grpcStatus: .unavailable,
          title: "The certificate of the host is not valid yet")
      case .certificateNameMismatch:
        Row(
          "certificate-name-mismatch", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1202,
          grpcStatus: .unavailable,
          title: "The certificate is not for this host")
      case .certificateRevoked:
        Row(
          "certificate-revoked", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1202,
          grpcStatus: .unavailable,
          title: "The certificate of the host has been revoked")
      case .revocationUnknown:
        Row(
          "revocation-unknown", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1202,
          grpcStatus: .unavailable,
          title: "Nothing shows that the certificate of the host has not been revoked")
      case .pinMismatch:
        Row(
          "pin-mismatch", 502, fault: .upstream, errorType: "tls_certificate_error", nsurlError: -1202,
          grpcStatus: .unavailable,
          title: "The certificate of the host carries no pinned key")
      case .pinsExpired:
        Row(
          "pins-expired", 502, fault: .proxy, errorType: "tls_certificate_error", nsurlError: -1202,
          grpcStatus: .unavailable,
          title: "The pins for this host have expired")
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
      _ token: StaticString, _ status: Int, fault: Fault, errorType: StaticString, nsurlError: Int,
      grpcStatus: GRPCStatus, title: StaticString
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
