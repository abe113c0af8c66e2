// Judges a response by [rule.response]: its head first, and its content if a serializer checks it.
//
// The order is AFNetworking's: status and type are judged together, then the content is parsed. A compound serializer
// tries its serializers in order, each with its own types, and the first that accepts decides. If none accepts, the
// response is a violation; AFNetworking's exceptions do not apply here. If a wrong type is only annotated, the content
// is still checked, by all serializers. Tests: ResponseJudgementTests.

import Bytes
import Images

/// The limits of a check.
public struct ContentLimits: Sendable {
  /// The most bytes of content, both as received and decoded.
  public let heldBytes: Int
  public let jsonDepth: Int
  public let imagePixels: Int

  public init(heldBytes: Int, jsonDepth: Int, imagePixels: Int) {
    self.heldBytes = heldBytes
    self.jsonDepth = jsonDepth
    self.imagePixels = imagePixels
  }
}

/// The result for the head of a response.
public struct HeadJudgement: Sendable {
  /// Status before type; empty if both are accepted.
  public internal(set) var violations: [ResponseViolation] = []
  /// The serializers of the rule's list that must check the content, in order.
  var candidates: ResponseSerialization.KindSet = []
  /// Whether the content must be held for a check.
  public internal(set) var looksAtContent = false
  /// Whether the content is rewritten if it has nulls. A partial response, or one that is only annotated, stays as it
  /// came.
  public internal(set) var removesNulls = false
}

/// The result for the content.
public enum ContentJudgement: Sendable {
  case accepted
  /// Accepted and rewritten: nulls have been removed.
  case rewritten
  case violation(ResponseViolation)
}

/// The tools of an event loop, each used for one body at a time.
public struct ContentTools: ~Copyable {
  var json = JSONChecker()

  public init() {}
}

extension ResponseSerialization {
  struct KindSet: OptionSet, Sendable {
    let rawValue: UInt8

    static func only(_ kind: Kind) -> KindSet { KindSet(rawValue: 1 << kind.position) }
  }

  /// The reaction to a violation of `subject`.
  public func reaction(to subject: ResponseViolation.Subject) -> Reaction {
    switch subject {
    case .status: onStatus
    case .contentType: onContentType
    case .body, .contentCoding: onBody
    case .size: onOversize
    }
  }

  /// Judges status and type. `contentType` is the range of the value in `bytes`; nil if the field is missing or occurs
  /// twice. `hasContent` is false if nothing follows the head. `repeated` has the ranges of the values if Content-Type
  /// occurs more than once.
  public func judgeHead(
    status: Int, contentType: Range<Int>?, repeated: [Range<Int>] = [], in bytes: Span<UInt8>, hasContent: Bool
  ) -> HeadJudgement {
    var judgement = HeadJudgement()
    if !acceptableStatus.contains(status) {
      judgement.violations.append(
        ResponseViolation(.status, expected: acceptableStatus.description, seen: "\(status)"))
    }
    for kind in kinds where accepts(contentType, in: bytes, kind, hasContent: hasContent) {
      judgement.candidates.insert(.only(kind))
    }
    if judgement.candidates.isEmpty {
      judgement.violations.append(
        ResponseViolation(
          .contentType, expected: acceptableTypesDescription,
          seen: repeated.isEmpty
            ? MediaType.shown(contentType, in: bytes) : MediaType.shown(repeated: repeated, in: bytes)))
      judgement.candidates = kinds.reduce(into: []) { $0.insert(.only($1)) }
    }
    judgement.looksAtContent = hasContent && looksAtContent(judgement.candidates)
    judgement.removesNulls =
      removesNulls && judgement.violations.isEmpty && status != Self.partialContent
      && kinds.first { judgement.candidates.contains(.only($0)) } == .json
    if judgement.looksAtContent, Self.isEventStream(contentType, in: bytes) {
      // An event stream never ends, and each event is needed at once: it cannot be held.
      judgement.looksAtContent = false
      judgement.violations.append(
        ResponseViolation(.size, expected: "content that ends, to be checked", seen: "an event stream"))
    }
    return judgement
  }

  /// RFC 9110, 15.3.7: partial content, from the position in Content-Range.
  private static let partialContent = 206

  private static func isEventStream(_ contentType: Range<Int>?, in bytes: Span<UInt8>) -> Bool {
    guard let contentType else { return false }
    let value = bytes.extracting(contentType)
    return MediaType(value)?.equals("text", "event-stream", in: value) ?? false
  }

  private func accepts(_ field: Range<Int>?, in bytes: Span<UInt8>, _ kind: Kind, hasContent: Bool) -> Bool {
    let ranges = acceptableTypes ?? kind.standardTypes
    if ranges.contains(where: \.isAny) { return true }
    // Without content, a type would describe nothing.
    guard let field else { return !hasContent }
    let value = bytes.extracting(field)
    guard let type = MediaType(value) else { return false }
    return ranges.contains { $0.matches(type, in: value) }
  }

  /// The first candidate without a check accepts, whatever the candidates before it said.
  private func looksAtContent(_ candidates: KindSet) -> Bool {
    let asked = kinds.filter { candidates.contains(.only($0)) }
    guard let first = asked.first, first != .http else { return false }
    return !asked.contains(.http) || removesNulls && first == .json
  }

  /// Judges complete, decoded content. `content` may have padding after its end. With `.rewritten`, `rewritten`
  /// contains what must be sent instead.
  public func judgeContent(
    _ content: inout ByteBuffer, _ head: HeadJudgement, charset: [UInt8]?, limits: ContentLimits,
    tools: inout ContentTools, rewritten: inout ByteBuffer
  ) -> ContentJudgement {
    // Rails sends one space for empty content. AFNetworking accepts it too.
    if content.isEmpty || content.count == 1 && content.bytes[0] == 0x20 { return .accepted }
    var first: ResponseViolation? = nil
    for kind in kinds where head.candidates.contains(.only(kind)) {
      let fault = fault(
        in: &content, kind, removesNulls: head.removesNulls, charset: charset, limits, tools: &tools, to: &rewritten)
      guard let fault else {
        return rewritten.isEmpty ? .accepted : .rewritten
      }
      rewritten.removeAll()
      if first == nil {
        first = ResponseViolation(.body, expected: kind.expectation, seen: "a fault at \(fault.sentence)")
      }
    }
    return first.map { .violation($0) } ?? .accepted
  }

  private func fault(
    in content: inout ByteBuffer, _ kind: Kind, removesNulls: Bool, charset: [UInt8]?, _ limits: ContentLimits,
    tools: inout ContentTools, to rewritten: inout ByteBuffer
  ) -> ContentFault? {
    switch kind {
    case .http: return nil
    case .json:
      return jsonFault(in: &content, removesNulls: removesNulls, limits, &tools, to: &rewritten)
    case .xml: return XMLCheck.check(content.bytes, charset: charset)
    case .plist: return PropertyListCheck.check(content.bytes, charset: charset)
    case .image: return ImageCheck.check(content.bytes, maximumPixels: limits.imagePixels)
    }
  }

  /// JSON in another encoding than plain UTF-8 is judged as UTF-8. A rewritten text is converted back to its own
  /// encoding.
  private func jsonFault(
    in content: inout ByteBuffer, removesNulls: Bool, _ limits: ContentLimits, _ tools: inout ContentTools,
    to rewritten: inout ByteBuffer
  ) -> ContentFault? {
    let encoding = JSONEncodingForm(of: content.bytes)
    if encoding == .utf8 { return utf8Fault(in: &content, removesNulls: removesNulls, limits, &tools, to: &rewritten) }
    var text = ByteBuffer()
    if let fault = encoding.decode(content.bytes, into: &text) { return fault }
    var other = ByteBuffer()
    if let fault = utf8Fault(in: &text, removesNulls: removesNulls, limits, &tools, to: &other) { return fault }
    if !other.isEmpty { encoding.encode(other.bytes, into: &rewritten) }
    return nil
  }

  private func utf8Fault(
    in content: inout ByteBuffer, removesNulls: Bool, _ limits: ContentLimits, _ tools: inout ContentTools,
    to rewritten: inout ByteBuffer
  ) -> ContentFault? {
    if removesNulls {
      switch JSONNulls.remove(from: content.bytes, depth: limits.jsonDepth, to: &rewritten) {
      case .failure(let fault): return fault
      case .success(let removed): if !removed { rewritten.removeAll() }
      }
    } else if let fault = tools.json.check(&content, depth: limits.jsonDepth) {
      return fault
    }
    return jsonRoot == .container ? JSONScanner.rootFault(in: content.bytes) : nil
  }

  /// Whether a serializer needs the encoding in a Content-Type.
  public var readsText: Bool { kinds.contains(.xml) || kinds.contains(.plist) }

  /// The encoding in a Content-Type.
  public static func charset(of contentType: Span<UInt8>) -> [UInt8]? {
    MediaType(contentType)?.parameter("charset", in: contentType)
  }

  /// `application/json, text/json`, without repetition.
  public var acceptableTypesDescription: String {
    var names: [String] = []
    for range in acceptableTypes ?? kinds.flatMap(\.standardTypes) where !names.contains(range.description) {
      names.append(range.description)
    }
    return names.joined(separator: ", ")
  }
}

extension ResponseSerialization.Kind {
  fileprivate var position: UInt8 {
    switch self {
    case .http: 0
    case .json: 1
    case .xml: 2
    case .plist: 3
    case .image: 4
    }
  }

  var expectation: String {
    switch self {
    case .http: "any content"
    case .json: "well-formed JSON"
    case .xml: "well-formed XML"
    case .plist: "a property list"
    case .image: "an image"
    }
  }

  /// The types that the serializer accepts if the rule has no list.
  public var standardTypes: [MediaRange] {
    switch self {
    case .http: Self.anyType
    case .json: Self.jsonTypes
    case .xml: Self.xmlTypes
    case .plist: Self.plistTypes
    case .image: Self.imageTypes
    }
  }

  private static let anyType = MediaRange.listed("*/*")
  private static let jsonTypes = MediaRange.listed("application/json", "text/json", "text/javascript")
  private static let xmlTypes = MediaRange.listed("application/xml", "text/xml")
  private static let plistTypes = MediaRange.listed("application/x-plist")
  /// AFNetworking's types, and two newer ones.
  private static let imageTypes = MediaRange.listed(
    "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
    "image/x-xbitmap", "image/x-win-bitmap", "image/webp", "image/avif")
}

extension MediaRange {
  /// Ranges that are known to be well formed.
  static func listed(_ texts: String...) -> [MediaRange] { texts.compactMap { try? parse($0).get() } }
}
