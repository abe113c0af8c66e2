// All reasons to reject a message. Requests are never mended: a proxy that enforces a policy must not guess what the
// next server would have read. Some faults of responses are mended (HeadMender).

/// Why a message is rejected. The raw value is the stable word for logs and tests; `sentence` is for people.
public enum MessageFault: String, Error, Equatable, Sendable, CaseIterable {
  // The start line (RFC 9112, 3 and 4).
  case badMethod = "bad-method"
  case methodCase = "method-case"
  case badTarget = "bad-target"
  case targetNotAbsolute = "target-not-absolute"
  case unsupportedScheme = "unsupported-scheme"
  case userInformationInTarget = "userinfo-in-target"
  case badHost = "bad-host"
  case badPort = "bad-port"
  case missingPort = "missing-port"
  case connectInTunnel = "connect-in-tunnel"
  case badVersion = "bad-version"
  case unsupportedVersion = "unsupported-version"
  case badStatusLine = "bad-status-line"
  // Lines and fields (RFC 9112, 2.2 and 5).
  case bareLineFeed = "bare-lf"
  case bareCarriageReturn = "bare-cr"
  case controlCharacter = "control-character"
  case obsoleteLineFolding = "obs-fold"
  case spaceBeforeColon = "space-before-colon"
  case badFieldName = "bad-field-name"
  case connectionNamesContent = "connection-names-content"
  case tooManyConnectionOptions = "too-many-connection-options"
  // Host (RFC 9112, 3.2).
  case missingHost = "missing-host"
  case severalHosts = "several-hosts"
  case malformedHostField = "malformed-host"
  // Framing (RFC 9112, 6).
  case lengthWithTransferEncoding = "length-with-transfer-encoding"
  case malformedContentLength = "malformed-content-length"
  case differingContentLengths = "differing-content-lengths"
  case badTransferEncoding = "bad-transfer-encoding"
  case transferEncodingInHTTP10 = "transfer-encoding-in-http-1.0"
  case bodyNotAllowed = "body-not-allowed"
  // Chunked coding (RFC 9112, 7.1).
  case badChunkSize = "bad-chunk-size"
  case chunkSizeOverflow = "chunk-size-overflow"
  case badChunkExtension = "bad-chunk-extension"
  case badChunkEnd = "bad-chunk-end"
  case excessiveChunkOverhead = "excessive-chunk-overhead"
  case forbiddenTrailer = "forbidden-trailer"
  // Limits.
  case headTooLarge = "head-too-large"
  case tooManyFields = "too-many-fields"
  // Responses.
  case unexpectedInformational = "unexpected-1xx"
  case unexpectedSwitch = "unexpected-101"
  case truncated = "truncated"

  /// What was expected and what was seen, as the rest of "the request …" or "the response …".
  public var sentence: String {
    switch self {
    case .badMethod: "begins with something that is no method (a token, then one space)"
    case .methodCase: "has a method that is known but for its case; methods are case-sensitive: GET, not get"
    case .badTarget: "has a target with characters that no URI may hold, or one that ends too early"
    case .targetNotAbsolute:
      "has a target that is not absolute; a proxy expects http://host/path, or host:port for CONNECT"
    case .unsupportedScheme: "has a target whose scheme is not http"
    case .userInformationInTarget: "carries user information before the host of its target"
    case .badHost: "names a host that is malformed"
    case .badPort: "names a port that is not a number from 1 to 65535"
    case .missingPort: "is a CONNECT whose target names no port; host:port was expected"
    case .connectInTunnel: "is a CONNECT inside a tunnel; another tunnel needs a connection of its own"
    case .badVersion: "does not say HTTP/1.1 or HTTP/1.0"
    case .unsupportedVersion: "says a version that is not spoken here; HTTP/1.1 was expected"
    case .badStatusLine: "begins with something that is no status line (HTTP/1.1, a space, three digits, a space)"
    case .bareLineFeed: "has a line that ends with LF alone; CR LF was expected"
    case .bareCarriageReturn: "has a CR that no LF follows"
    case .controlCharacter: "has a control character in its head"
    case .obsoleteLineFolding: "has a field that is folded over several lines"
    case .spaceBeforeColon: "has white space between a field name and its colon"
    case .badFieldName: "has a field name that is no token followed by a colon"
    case .connectionNamesContent:
      "names a field in its Connection field that is meant for every recipient, such as Host, Content-Type or Cookie"
    case .tooManyConnectionOptions: "lists more Connection options than any sender needs"
    case .missingHost: "has no Host field"
    case .severalHosts: "has more than one Host field"
    case .malformedHostField: "has a Host field that is no host with an optional port"
    case .lengthWithTransferEncoding: "has both Content-Length and Transfer-Encoding"
    case .malformedContentLength: "has a Content-Length that is not one decimal number"
    case .differingContentLengths: "has Content-Length fields that differ"
    case .badTransferEncoding: "has a Transfer-Encoding that is not exactly chunked"
    case .transferEncodingInHTTP10: "is HTTP/1.0 and has a Transfer-Encoding"
    case .bodyNotAllowed: "has a body where its method allows none"
    case .badChunkSize: "has a chunk size that is not plain hexadecimal digits"
    case .chunkSizeOverflow: "has a chunk size beyond 63 bits"
    case .badChunkExtension: "has a chunk extension that is malformed or too long"
    case .badChunkEnd: "has a chunk that is not followed by CR LF"
    case .excessiveChunkOverhead: "spends far more bytes on chunk framing than on its body"
    case .forbiddenTrailer: "has a trailer field that frames or routes messages"
    case .headTooLarge: "has a head or trailer section larger than limits.header_bytes"
    case .tooManyFields: "has more fields than limits.headers"
    case .unexpectedInformational: "is preceded by more 1xx responses than any exchange needs"
    case .unexpectedSwitch: "switches protocols, which was not asked for"
    case .truncated: "ends before it is complete"
    }
  }

  /// Whether a request with this fault is answered with 431 instead of 400 (RFC 6585, 5).
  public var isHeadLimit: Bool { self == .headTooLarge || self == .tooManyFields }
}
