// What a request serializer does to the body of a request: nothing, make one, or rewrite it. A rewrite merges the
// parameters into it and converts a form to JSON or a property list.
//
//   the head → work → nothing | made | held → … the body … → rewrite → a new body and its type
//                         └ conflict                            └ conflict
//
// Tests: RequestBodyTests.

import Bytes

/// Why a body can be neither merged nor transcoded.
public struct SerializationConflict: Error, Equatable, Sendable {
  public enum Subject: Sendable {
    /// 413: longer than what may be held.
    case size
    /// 415: of another type, coded, or not what its type says.
    case type
  }

  public let subject: Subject
  /// A sentence: what was expected and what was seen.
  public let detail: String

  init(_ subject: Subject, _ detail: String) {
    self.subject = subject
    self.detail = detail
  }
}

/// What must be done to the body of a request.
public enum BodyWork: Equatable, Sendable {
  case nothing
  /// There is no body: `RequestSerialization.body` is sent.
  case made
  /// It must be held and given to `rewrite`.
  case held
  case conflict(SerializationConflict)
}

/// How a body was rewritten.
public enum RewrittenBody: Equatable, Sendable {
  /// It keeps its type.
  case ofSameType
  /// It now has the serializer's type.
  case ofSerializersType
}

/// What the head of a request says about its body.
public struct RequestBodyHead: Sendable {
  /// A range in the head; nil if the field is missing or occurs twice.
  public var contentType: Range<Int>?
  public var hasSeveralTypes: Bool
  /// nil if the length is only known at the end.
  public var contentLength: UInt64?
  /// It has a Content-Encoding.
  public var isCoded: Bool
  /// It is a part of a representation (Content-Range: RFC 9110, 14.5).
  public var isPart: Bool

  public init(
    contentType: Range<Int>?, hasSeveralTypes: Bool = false, contentLength: UInt64?, isCoded: Bool, isPart: Bool = false
  ) {
    self.contentType = contentType
    self.hasSeveralTypes = hasSeveralTypes
    self.contentLength = contentLength
    self.isCoded = isCoded
    self.isPart = isPart
  }
}

extension RequestSerialization {
  /// The kind of a body, according to its Content-Type.
  private enum BodyType {
    case form, multipart, json, plist, other
  }

  /// Whether the parameters of a request with this method go into its query.
  public func isInURI(_ method: Span<UInt8>) -> Bool {
    for name in methodsInURI where name.span.equals(method) { return true }
    return false
  }

  /// What must be done to a request's body. `method` is a range in `head`.
  public func work(
    _ head: Span<UInt8>, method: Range<Int>, _ request: RequestBodyHead, limits: ContentLimits
  ) -> BodyWork {
    let merges = !parameters.isEmpty && !isInURI(head.extracting(method))
    let (contentType, contentLength) = (request.contentType, request.contentLength)
    if request.hasSeveralTypes, merges || transcodes && format != .http && contentLength != 0 {
      return .conflict(SerializationConflict(.type, "Expected one Content-Type, seen several."))
    }
    if contentLength == 0 {
      if merges, format == .http, case .failure(let conflict) = formEncoding(contentType, in: head) {
        return .conflict(conflict)
      }
      return merges ? .made : .nothing
    }
    let type = Self.bodyType(contentType, in: head)
    let transcodesThis = transcodes(type)
    if !merges && !transcodesThis { return .nothing }
    if request.isCoded {
      return .conflict(SerializationConflict(.type, "Expected a body without Content-Encoding, seen one with it."))
    }
    if request.isPart {
      return .conflict(SerializationConflict(.type, "Expected a whole body, seen a part of one (Content-Range)."))
    }
    // Only its end shows whether there is a body at all. Without one, nothing has the wrong type.
    if contentLength == nil, contentType == nil, merges { return .held }
    // A body that is not transcoded is merged. For a multipart body any serializer does this, as all of AFNetworking's
    // do.
    if !transcodesThis, type != ownType, type != .multipart {
      let seen = MediaType.shown(contentType, in: head)
      return .conflict(
        SerializationConflict(.type, "Expected a body of type \(expectedTypes), seen content type \(seen)."))
    }
    if let contentLength, contentLength > UInt64(limits.heldBytes) {
      return .conflict(tooLarge("\(contentLength) bytes", limits))
    }
    return .held
  }

  /// The conflict if a body turns out longer than what may be held.
  public func tooLarge(_ seen: String, _ limits: ContentLimits) -> SerializationConflict {
    SerializationConflict(.size, "Expected a body of at most \(limits.heldBytes) bytes, seen \(seen).")
  }

  /// Appends the rewritten body to `out`: with the parameters unless they are in the query, and in the serializer's
  /// format if it transcodes.
  public func rewrite(
    _ body: Span<UInt8>, _ head: Span<UInt8>, method: Range<Int>, contentType: Range<Int>?, limits: ContentLimits,
    to out: inout ByteBuffer
  ) -> Result<RewrittenBody, SerializationConflict> {
    let merged = isInURI(head.extracting(method)) ? [] : parameters
    if body.isEmpty {
      if !merged.isEmpty { out.append(madeBody(contentType, in: head)) }
      return .success(.ofSameType)
    }
    let type = Self.bodyType(contentType, in: head)
    if transcodes(type) { return transcode(body, type, contentType: contentType, in: head, adding: merged, to: &out) }
    switch type {
    case .form:
      switch formEncoding(contentType, in: head) {
      case .failure(let conflict): return .failure(conflict)
      case .success(let encoding):
        FormBody.merge(encoded: encoding == nil ? utf8Query : query, into: body, to: &out)
        return .success(.ofSameType)
      }
    case .json:
      switch JSONMerging.merge(merged, into: body, depth: limits.jsonDepth, to: &out) {
      case .merged: return .success(.ofSameType)
      case .notAnObject(let seen): return conflict("a JSON object", seen)
      case .invalid(let fault): return conflict("well-formed JSON", "a fault at \(fault.sentence)")
      }
    case .plist:
      let charset = contentType.flatMap { ResponseSerialization.charset(of: head.extracting($0)) }
      switch PropertyListMerging.merge(merged, into: body, charset: charset, to: &out) {
      case .merged: return .success(.ofSameType)
      case .notADictionary(let kind): return conflict("a property list of a dictionary", kind.words)
      case .invalid(let fault): return conflict("a property list", "a fault at \(fault.sentence)")
      }
    case .multipart: return addParts(to: body, contentType, in: head, &out)
    case .other: return conflict(expectedTypes, "another type")
    }
  }

  private func addParts(
    to body: Span<UInt8>, _ contentType: Range<Int>?, in head: Span<UInt8>, _ out: inout ByteBuffer
  ) -> Result<RewrittenBody, SerializationConflict> {
    guard let contentType, let boundary = Self.boundary(head.extracting(contentType)) else {
      return conflict("multipart/form-data with a boundary", "none")
    }
    switch MultipartMerging.merge(pairs, into: body, boundary, to: &out) {
    case .merged: return .success(.ofSameType)
    case .invalid(let fault): return conflict("multipart/form-data", "a fault at \(fault.sentence)")
    case .boundaryInPart(let name):
      return conflict(
        "a boundary that stands in no parameter",
        "one that stands in '\(MediaType.shown(0..<name.count, in: name.span))'")
    }
  }

  private static func boundary(_ value: Span<UInt8>) -> MultipartBoundary? {
    MediaType(value).flatMap { MultipartBoundary($0, in: value) }
  }

  // MARK: Forms into JSON and property lists

  private func transcode(
    _ body: Span<UInt8>, _ type: BodyType, contentType: Range<Int>?, in head: Span<UInt8>,
    adding merged: [ParameterEntry], to out: inout ByteBuffer
  ) -> Result<RewrittenBody, SerializationConflict> {
    var fields: [ParameterEntry]
    switch formFields(of: body, type, contentType, in: head) {
    case .failure(let conflict): return .failure(conflict)
    case .success(let decoded): fields = decoded
    }
    let names = Set(merged.map(\.key))
    // The rule's value wins, as in an object.
    fields.removeAll { names.contains($0.key) }
    fields += merged
    switch format {
    case .http: preconditionFailure("a form is transcoded into something else")
    case .json: JSONWriting.write(fields, to: &out)
    case .plist:
      if let fault = PropertyListWriting.fault(in: fields) {
        return conflict("fields that a property list can carry", fault)
      }
      PropertyListWriting.write(fields, to: &out)
    }
    return .success(.ofSerializersType)
  }

  private func formFields(
    of body: Span<UInt8>, _ type: BodyType, _ contentType: Range<Int>?, in head: Span<UInt8>
  ) -> Result<[ParameterEntry], SerializationConflict> {
    let encoding: TextEncoding?
    switch formEncoding(contentType, in: head) {
    case .failure(let conflict): return .failure(conflict)
    case .success(let read): encoding = read
    }
    guard type == .multipart, let contentType else {
      return FormDecoding.decode(body, style, encoding: encoding).mapError {
        SerializationConflict(.type, "Expected a form, seen a fault at \($0.sentence).")
      }
    }
    let value = head.extracting(contentType)
    guard let boundary = Self.boundary(value) else {
      return .failure(SerializationConflict(.type, "Expected multipart/form-data with a boundary, seen none."))
    }
    switch MultipartFormData.read(body, boundary, style: style, encoding: encoding) {
    case .fields(let fields): return .success(fields)
    case .holdsFile(let name):
      return .failure(
        SerializationConflict(
          .type,
          "Expected a form without files, seen one in the field '\(MediaType.shown(0..<name.count, in: name.span))'."))
    case .invalid(let fault):
      return .failure(
        SerializationConflict(.type, "Expected multipart/form-data, seen a fault at \(fault.sentence)."))
    }
  }

  /// A body with only the parameters, in the encoding that the client's type names, if it has one.
  public func madeBody(_ contentType: Range<Int>?, in head: Span<UInt8>) -> [UInt8] {
    guard format == .http, encoding != nil, case .success(nil) = formEncoding(contentType, in: head) else {
      return body
    }
    return utf8Query
  }

  /// The encoding of a form with this type: UTF-8 (nil) if the type says so, otherwise the rule's. A form in a third
  /// encoding can be neither read nor extended. If the rule has no encoding, the charset is ignored.
  private func formEncoding(
    _ contentType: Range<Int>?, in head: Span<UInt8>
  ) -> Result<TextEncoding?, SerializationConflict> {
    guard let encoding, let contentType else { return .success(encoding) }
    let value = head.extracting(contentType)
    guard let type = MediaType(value), let name = type.parameter("charset", in: value) else {
      return .success(encoding)
    }
    if encoding.isNamed(name.span) { return .success(encoding) }
    if MediaType.Charset(name: name.span) != .other { return .success(nil) }
    let seen = MediaType.shown(0..<name.count, in: name.span)
    return .failure(
      SerializationConflict(.type, "Expected a form in \(encoding.name) or UTF-8, seen the charset \(seen)."))
  }

  private func conflict(_ expected: String, _ seen: String) -> Result<RewrittenBody, SerializationConflict> {
    .failure(SerializationConflict(.type, "Expected \(expected), seen \(seen)."))
  }

  // MARK: Types

  private func transcodes(_ type: BodyType) -> Bool {
    transcodes && format != .http && (type == .form || type == .multipart)
  }

  private var ownType: BodyType {
    switch format {
    case .http: .form
    case .json: .json
    case .plist: .plist
    }
  }

  private var expectedTypes: String {
    let own = bareContentType.span.string
    return transcodes && format != .http
      ? "\(own), application/x-www-form-urlencoded or multipart/form-data" : "\(own) or multipart/form-data"
  }

  private static func bodyType(_ field: Range<Int>?, in head: Span<UInt8>) -> BodyType {
    guard let field else { return .other }
    let value = head.extracting(field)
    guard let type = MediaType(value) else { return malformedType(value) }
    if type.equals("application", "x-www-form-urlencoded", in: value) { return .form }
    if type.equals("multipart", "form-data", in: value) { return .multipart }
    if jsonRanges.contains(where: { $0.matches(type, in: value) }) { return .json }
    if plistRanges.contains(where: { $0.matches(type, in: value) }) { return .plist }
    return .other
  }

  /// A malformed type that begins like that of a form counts as an unreadable form, not as another type.
  private static func malformedType(_ value: Span<UInt8>) -> BodyType {
    func begins(_ name: StaticString) -> Bool {
      value.count >= name.utf8CodeUnitCount && value.equals(0..<name.utf8CodeUnitCount, ignoringCase: name)
    }
    if begins("multipart/form-data") { return .multipart }
    return begins("application/x-www-form-urlencoded") ? .form : .other
  }

  private static let jsonRanges = ResponseSerialization.Kind.json.standardTypes + MediaRange.listed("+json")
  private static let plistRanges =
    ResponseSerialization.Kind.plist.standardTypes + MediaRange.listed("application/plist")
}
