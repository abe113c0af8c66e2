// The parameters and bodies of [rule.request], encoded once when the policy is read.

import Bytes

/// How the parameters of a rule and re-encoded forms are written: AFHTTPRequestSerializer and its subclasses.
public struct RequestSerialization: Sendable {
  public enum Format: String, Sendable, CaseIterable { case http, json, plist }

  /// What happens to a request whose body cannot be merged or re-encoded.
  public enum ConflictReaction: String, Sendable, CaseIterable { case reject, pass }

  public let format: Format
  public let parameters: [ParameterEntry]
  /// Methods whose parameters go into the query. Case-sensitive (RFC 9110, 9.1).
  public let methodsInURI: [[UInt8]]
  /// The serializer re-encodes a form body.
  public let transcodes: Bool
  public let onConflict: ConflictReaction
  /// How parameters are written into queries and forms, and how arrays in forms are read.
  public let style: QueryStyle
  /// The encoding of parameters in queries and forms, and of forms that are read; nil is UTF-8.
  public let encoding: TextEncoding?
  /// The parameters for the parts of a multipart body.
  let pairs: [QueryPair]
  /// The parameters as a query, percent-encoded.
  public let query: [UInt8]
  /// The same in UTF-8, for a form that declares UTF-8.
  let utf8Query: [UInt8]
  /// The parameters as a body of their own.
  public let body: [UInt8]

  public init(
    format: Format = .http, parameters: [ParameterEntry] = [], methodsInURI: [String] = Self.standardMethodsInURI,
    transcodes: Bool = false, onConflict: ConflictReaction = .reject, style: QueryStyle = QueryStyle(),
    encoding: TextEncoding? = nil
  ) {
    self.format = format
    self.parameters = parameters
    self.methodsInURI = methodsInURI.map { Array($0.utf8) }
    self.transcodes = transcodes
    self.onConflict = onConflict
    self.style = style
    self.encoding = encoding
    let texts = style.pairs(parameters)
    // The configuration reader rejects what the encoding cannot represent.
    pairs = encoding.map { encoding in texts.compactMap { $0.encoded(encoding) } } ?? texts
    query = QueryEncoding.encode(pairs, style.space)
    utf8Query = encoding == nil ? query : QueryEncoding.encode(texts, style.space)
    body = Self.body(format, parameters, query: query)
  }

  private static func body(_ format: Format, _ parameters: [ParameterEntry], query: [UInt8]) -> [UInt8] {
    var body = ByteBuffer()
    switch format {
    case .http: return query
    case .json: JSONWriting.write(parameters, to: &body)
    case .plist: PropertyListWriting.write(parameters, to: &body)
    }
    return body.bytes.array
  }

  /// The type of a body that the serializer makes. AFNetworking 2 adds the charset of a form; later versions only
  /// support UTF-8.
  public var contentType: [UInt8] {
    switch format {
    case .http: encoding.map { Self.formType + "; charset=\($0.name)".utf8 } ?? Self.formType
    case .json: Self.jsonType
    case .plist: Self.plistType
    }
  }

  /// The same without its parameters.
  var bareContentType: [UInt8] { format == .http ? Self.formType : contentType }

  private static let formType = Array("application/x-www-form-urlencoded".utf8)
  private static let jsonType = Array("application/json".utf8)
  private static let plistType = Array("application/x-plist".utf8)

  /// HTTPMethodsEncodingParametersInURI of AFNetworking.
  public static let standardMethodsInURI = ["GET", "HEAD", "DELETE"]

  /// Whether it changes no request.
  public var isNothing: Bool { parameters.isEmpty && !transcodes }
}
