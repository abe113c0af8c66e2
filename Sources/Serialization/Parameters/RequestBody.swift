// What a request serializer does to the body of a request: nothing, a body where there was none, or the body written anew,
// with the parameters merged into it and a form turned into JSON or a property list.
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
  /// A sentence: what was expected, what was seen.
  public let detail: String

  init(_ subject: Subject, _ detail: String) {
    self.subject = subject
    self.detail = detail
  }
}

/// What has to be done to the body of a request.
public enum BodyWork: Equatable, Sendable {
  case nothing
  /// There is none: `RequestSerialization.body` is sent.
  case made
  /// It has to be held and given to `rewrite`.
  case held
  case conflict(SerializationConflict)
}

/// How a body was written anew.
public enum RewrittenBody: Equatable, Sendable {
  /// It keeps its type.
  case ofSameType
  /// It is of the serializer's type now.
  case ofSerializersType
}

extension RequestSerialization {
  /// What a body is, as its Content-Type says.
  private enum BodyType {
    case form, multipart, json, plist, other
  }

  /// Whether parameters of a request with this method go into its query.
  public func isInURI(_ method: Span<UInt8>) -> Bool {
    for name in methodsInURI where name.span.equals(method) { return true }
    return false
  }

  /// What has to be done to a request's body. Method and Content-Type are where they stand in `head`; the type is nil where
  /// the field is not there, or comes twice. `contentLength` is nil where only its end shows it.
  public func work(
    _ head: Span<UInt8>, method: Range<Int>, contentType: Range<Int>?, contentLength: UInt64?, isCoded: Bool,
    limits: ContentLimits
  ) -> BodyWork {
    let merges = !parameters.isEmpty && !isInURI(head.extracting(method))
    if contentLength == 0 {
      if merges, format == .http, case .failure(let conflict) = formEncoding(contentType, in: head) {
        return .conflict(conflict)
      }
      return merges ? .made : .nothing
    }
    let type = Self.bodyType(contentType, in: head)
    let transcodesThis = transcodes(type)
    if !merges && !transcodesThis { return .nothing }
    if isCoded {
      return .conflict(SerializationConflict(.type, "Expected a body without Content-Encoding, seen one with it."))
    }
    // Whether there is a body at all only its end shows; without one there is nothing that is of the wrong type.
    if contentLength == nil, contentType == nil, merges { return .held }
    // What is not transcoded is merged: into a multipart body whatever the serializer, as AFNetworking's all do.
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

  /// The conflict of a body that turns out longer than what may be held.
  public func tooLarge(_ seen: String, _ limits: ContentLimits) -> SerializationConflict {
    SerializationConflict(.size, "Expected a body of at most \(limits.heldBytes) bytes, seen \(seen).")
  }

  /// Writes a whole body anew, behind what `out` holds: with the parameters unless they stand in the query, and in the format of the
  /// serializer where it transcodes.
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
    if transcodes(type) { return transcode(body, type, contentType, in: head, adding: merged, to: &out) }
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
    _ body: Span<UInt8>, _ type: BodyType, _ contentType: Range<Int>?, in head: Span<UInt8>,
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
      return FormDecoding.decode(body, style, encoding).mapError {
        SerializationConflict(.type, "Expected a form, seen a fault at \($0.sentence).")
      }
    }
    let value = head.extracting(contentType)
    guard let boundary = Self.boundary(value) else {
      return .failure(SerializationConflict(.type, "Expected multipart/form-data with a boundary, seen none."))
    }
    switch MultipartFormData.read(body, boundary, style, encoding) {
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

  /// The body of the parameters alone, in the encoding that the type names where the client has one.
  public func madeBody(_ contentType: Range<Int>?, in head: Span<UInt8>) -> [UInt8] {
    guard format == .http, encoding != nil, case .success(nil) = formEncoding(contentType, in: head) else {
      return body
    }
    return utf8Query
  }

  /// The encoding of a form with this type: UTF-8, which is nil, where it says so, else the rule's. A form in a third one
  /// can be neither read nor added to. Where the rule is silent a charset is not looked at.
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

  /// What says that it is a form and is malformed behind that is a form that cannot be read, and not something else.
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
