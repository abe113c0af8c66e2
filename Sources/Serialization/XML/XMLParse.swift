// One run of Expat over a body: the glue, and the limits that Expat does not set.
//
// Expat gets the whole body at once: if a token arrives in pieces, it reads the token from the start for each piece. It
// runs without its namespace mode, which copies the name of the namespace for each attribute: with a long name, a body
// of 1 MiB took more than a minute. Nested entities overflow its stack at about ten thousand; `mostDeclarations`
// prevents that. Default attributes count as expansion: many of them on many elements took 11 s. Tests: XMLCheckTests.

import Bytes
import CXML

/// What is wrong with a document whose syntax is right so far.
struct XMLObjection {
  enum Place {
    /// The beginning of the tag or text that has just been read.
    case event
    /// This many ASCII characters after that.
    case behind(characters: Int)
    /// At an earlier byte of the body.
    case byte(Int)
  }

  let reason: String
  let place: Place

  init(_ reason: String, at place: Place = .event) {
    self.reason = reason
    self.place = place
  }
}

@safe
struct XMLParse: ~Copyable {
  /// The most nested elements.
  static let deepestNesting = 512
  /// The most entities, attributes and notations that a document may declare. An entity that refers to others costs
  /// stack (at most 400 bytes each, so 512 stay below 200 KiB), and each attribute is compared with each element.
  /// HTML's entities, which some documents include, are 253.
  static let mostDeclarations = 512
  /// The most tokens of a DOCTYPE besides what is declared. Expat reports neither what is declared again nor references
  /// to parameter entities, and both cost some ten times as much as elements. Between 512 declarations are as many line
  /// ends and perhaps comments.
  static let mostDoctypeTokens = 16 * mostDeclarations
  /// Entities may make a document this many times as large. Documents that use them as abbreviations stay below 2. Each
  /// expanded byte costs as much as one of the body, so this is how much longer the check may take. A default attribute
  /// of an element counts as one byte.
  static let largestExpansion = 8
  /// A document may always grow to this many bytes: a small one with one long entity is not an attack.
  static let expansionAllowance = 256 << 10
  /// The largest body in bytes. Expat counts in 32 bits and doubles its buffers. Other limits keep bodies to some MiB.
  static let largestBody = 256 << 20

  private let parser: XML_Parser
  /// Checks the elements and texts if the document must be a property list.
  private var propertyList: PropertyListXMLReader?
  private var namespaces = XMLNamespaces()
  /// Where the start tags of the open elements begin.
  private var openElements: [Int] = []
  /// Addresses of the parameter entities that are declared as external; at most as many as declarations.
  private var externalParameters: [[UInt8]] = []
  private var declarations = 0
  private var defaultAttributes = 0
  private var doctypeTokens = 0
  private var objection: (reason: String, offset: Int, place: ContentFault.Place?)?
  /// From outside the document.
  private let given: XMLEncoding?
  private var declared: XMLEncoding?
  /// The document uses a name for its encoding that Expat does not know, although Expat supports the encoding.
  private var mustBeginAnew = false
  private var bodyBytes = 0
  /// Bytes of an ASCII character.
  private var unitBytes = 1

  /// The result for a body that was read to its end: its encoding, or its first fault.
  struct Outcome {
    let verdict: Result<XMLEncoding, ContentFault>
    /// The reader that was passed in, at its end.
    var propertyList: PropertyListXMLReader?
  }

  /// Reads `body`. Its encoding comes from its mark, from `charset` or from its declaration.
  static func run(
    _ body: Span<UInt8>, charset: [UInt8]?, propertyList: PropertyListXMLReader? = nil
  ) -> Outcome {
    guard body.count <= largestBody else {
      return Outcome(
        verdict: .failure(ContentFault("expected at most \(largestBody) bytes, found \(body.count)", offset: 0)))
    }
    var given = XMLEncoding(markOf: body)
    if given == nil, let charset {
      given = XMLEncoding(label: charset.span)
      if given == nil {
        return Outcome(verdict: .failure(ContentFault(XMLEncoding.unknown(charset.span), offset: 0)))
      }
    }
    var parse = XMLParse(given, propertyList)
    let outcome = parse.read(body)
    // No element has come before the declaration, so the reader can start again as well.
    guard parse.mustBeginAnew, let declared = parse.declared else { return outcome }
    var second = XMLParse(declared, propertyList)
    return second.read(body)
  }

  private init(_ encoding: XMLEncoding?, _ propertyList: PropertyListXMLReader?) {
    given = encoding
    self.propertyList = propertyList
    var name: UnsafePointer<XML_Char>?
    if let encoding {
      unsafe name = UnsafeRawPointer(encoding.name.utf8Start).assumingMemoryBound(to: XML_Char.self)
    }
    guard let parser = unsafe XML_ParserCreate(name) else { fatalError("out of memory for a parser") }
    unsafe self.parser = parser
  }

  deinit { unsafe XML_ParserFree(parser) }

  private func setLimits() {
    _ = unsafe XML_SetBillionLaughsAttackProtectionMaximumAmplification(parser, Float(Self.largestExpansion))
    _ = unsafe XML_SetBillionLaughsAttackProtectionActivationThreshold(parser, UInt64(Self.expansionAllowance))
    // Parameter entities that the document declares are read; external ones come to the handler.
    _ = unsafe XML_SetParamEntityParsing(parser, XML_PARAM_ENTITY_PARSING_ALWAYS)
  }

  private mutating func read(_ body: Span<UInt8>) -> Outcome {
    if let sixteenBits = XMLEncoding(sixteenBitsOf: body) {
      if let fault = Surrogates.fault(in: body, bigEndian: sixteenBits == .utf16BigEndian) {
        return Outcome(verdict: .failure(fault))
      }
      unitBytes = 2
    }
    bodyBytes = body.count
    setLimits()
    setHandlers()
    let parser = unsafe parser
    // The handlers reach this parse by its address, which stays valid while they are called.
    let status = unsafe withUnsafeMutablePointer(to: &self) { context in
      unsafe XML_SetUserData(parser, context)
      unsafe XML_SetUnknownEncodingHandler(parser, XMLParse.unknownEncodingHandler, context)
      unsafe XML_SetExternalEntityRefHandlerArg(parser, context)
      return unsafe body.withUnsafeBufferPointer { bytes in
        let start = unsafe UnsafeRawPointer(bytes.baseAddress)?.assumingMemoryBound(to: XML_Char.self)
        return unsafe XML_Parse(parser, start, CInt(bytes.count), 1)
      }
    }
    if let fault = fault(status, body) { return Outcome(verdict: .failure(fault), propertyList: propertyList) }
    return Outcome(verdict: .success(encoding(of: body)), propertyList: propertyList)
  }

  private func fault(_ status: XML_Status, _ body: Span<UInt8>) -> ContentFault? {
    if let objection {
      let place = objection.place ?? place(of: objection.offset, in: body)
      return ContentFault(objection.reason, offset: objection.offset, place: place)
    }
    if status == XML_STATUS_OK { return nil }
    let offset = min(max(0, eventStart), body.count)
    let code = unsafe XML_GetErrorCode(parser)
    let reason = XMLFaultWords.reason(code, body, at: offset, openElement: openElements.last)
    return ContentFault(reason, offset: offset, place: eventPlace)
  }

  /// The encoding of a well-formed body.
  private func encoding(of body: Span<UInt8>) -> XMLEncoding {
    if let sixteenBits = XMLEncoding(sixteenBitsOf: body) { return sixteenBits }
    return given ?? declared ?? .utf8
  }

  // MARK: Places

  private var eventStart: Int { unsafe Int(XML_GetCurrentByteIndex(parser)) }
  private var event: Range<Int> {
    let start = eventStart
    return unsafe start..<start + Int(XML_GetCurrentByteCount(parser))
  }
  private var eventPlace: ContentFault.Place {
    unsafe ContentFault.Place(
      line: Int(XML_GetCurrentLineNumber(parser)), column: Int(XML_GetCurrentColumnNumber(parser)) + 1)
  }

  /// The place of an earlier byte. Expat only knows its current one, and encodings other than UTF-8 are too rare to
  /// count lines for.
  private func place(of offset: Int, in body: Span<UInt8>) -> ContentFault.Place {
    encoding(of: body) == .utf8 ? body.place(of: offset) : eventPlace
  }

  private mutating func stop(_ objection: XMLObjection?) {
    guard let objection, self.objection == nil else { return }
    var offset = eventStart
    var place: ContentFault.Place? = eventPlace
    switch objection.place {
    case .event: break
    case .behind(let characters):
      place = place.map { ContentFault.Place(line: $0.line, column: $0.column + characters) }
      offset += characters * unitBytes
    case .byte(let byte):
      place = nil
      offset = byte
    }
    self.objection = (objection.reason, offset, place)
    _ = unsafe XML_StopParser(parser, 0)
  }
}

// MARK: Events

extension XMLParse {
  private mutating func elementStarted(_ name: Span<UInt8>, _ attributes: XMLAttributes) {
    // After the parse is stopped, pending events still arrive.
    guard objection == nil else { return }
    guard openElements.count < Self.deepestNesting else {
      return stop(XMLObjection("expected at most \(Self.deepestNesting) elements inside one another, found more"))
    }
    openElements.append(eventStart)
    defaultAttributes += unsafe attributes.count - Int(XML_GetSpecifiedAttributeCount(parser)) / 2
    let mostByDefault = Self.expansionAllowance + Self.largestExpansion * bodyBytes
    guard defaultAttributes <= mostByDefault else {
      return stop(XMLObjection("expected at most \(mostByDefault) attributes by default, found more"))
    }
    if let reason = namespaces.enter(name, attributes, depth: openElements.count) {
      return stop(XMLObjection(reason))
    }
    if propertyList == nil { return }
    let tag = event
    stop(propertyList?.elementStarted(name, attributes, at: tag))
  }

  private mutating func elementEnded() {
    guard objection == nil else { return }
    namespaces.leave(depth: openElements.count)
    openElements.removeLast()
    if propertyList == nil { return }
    let tag = event
    stop(propertyList?.elementEnded(at: tag))
  }

  private mutating func textRead(_ text: Span<UInt8>) {
    guard objection == nil else { return }
    stop(propertyList?.textRead(text))
  }

  private mutating func doctypeStarted(hasInternalSubset: Bool) {
    if hasInternalSubset { stop(propertyList?.internalSubsetStarted()) }
  }

  /// A token of the DOCTYPE that no other handler gets.
  private mutating func doctypeTokenRead() {
    doctypeTokens += 1
    if doctypeTokens <= Self.mostDoctypeTokens { return }
    stop(XMLObjection("expected at most \(Self.mostDoctypeTokens) tokens in the DOCTYPE, found more"))
  }

  /// `name` is empty for a declaration of attributes.
  private mutating func declarationRead(_ name: Span<UInt8>) {
    declarations += 1
    if declarations > Self.mostDeclarations {
      stop(XMLObjection("expected at most \(Self.mostDeclarations) declarations in the DOCTYPE, found more"))
    }
    expectNoColon(name, "the name of an entity or a notation")
  }

  /// Namespaces in XML 1.0, 7.
  private mutating func expectNoColon(_ name: Span<UInt8>, _ what: StaticString) {
    if name.firstIndex(of: UInt8(ascii: ":")) != nil { stop(XMLObjection("expected no ':' in \(what), found one")) }
  }

  /// '1.' and digits (production 26): a reader of 1.0 reads what it can of later versions.
  private mutating func versionRead(_ version: Span<UInt8>) {
    var isKnown = version.count >= 3 && version.equals(0..<2, "1.")
    for index in 2..<max(2, version.count) where !version[index].isASCIIDigit { isKnown = false }
    if !isKnown { stop(XMLObjection("expected version 1.0 of XML, found '\(FaultWords.quoted(version))'")) }
  }

  private mutating func encodingRead(_ label: Span<UInt8>) { declared = XMLEncoding(label: label) }

  private mutating func externalParameterRead(_ address: Span<UInt8>) { externalParameters.append(address.array) }

  /// Whether a parameter entity of the document is in a file with this address.
  private func isExternalParameter(_ address: Span<UInt8>) -> Bool {
    externalParameters.contains { $0.span.equals(address) }
  }

  private mutating func externalEntityReferred(_ address: Span<UInt8>) {
    let quoted = FaultWords.quoted(address)
    stop(XMLObjection("expected no reference to an external entity, found one to '\(quoted)', which is not fetched"))
  }

  private mutating func entityPassedOver(_ name: Span<UInt8>) {
    let quoted = FaultWords.quoted(name)
    stop(XMLObjection("expected a declared entity, found '&\(quoted);', and external declarations are not fetched"))
  }

  /// Expat's request for an encoding that it does not support: the character of each byte, -1 for none.
  private mutating func encodingNamed(
    _ label: Span<UInt8>, _ information: UnsafeMutablePointer<XML_Encoding>
  ) -> XML_Status {
    guard let encoding = XMLEncoding(label: label) else {
      stop(XMLObjection(XMLEncoding.unknown(label)))
      return XML_STATUS_ERROR
    }
    guard case .table(let table) = encoding else {
      declared = encoding
      mustBeginAnew = true
      return XML_STATUS_ERROR
    }
    unsafe withUnsafeMutableBytes(of: &information.pointee.map) { map in
      for byte in 0...255 {
        let scalar = table.scalar(UInt8(byte)).map { Int32($0) } ?? -1
        unsafe map.storeBytes(of: scalar, toByteOffset: byte * MemoryLayout<Int32>.size, as: Int32.self)
      }
    }
    unsafe information.pointee.data = nil
    unsafe information.pointee.convert = nil
    unsafe information.pointee.release = nil
    return XML_STATUS_OK
  }
}

// MARK: Handlers

extension XMLParse {
  private static func of(_ context: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<XMLParse> {
    unsafe context.unsafelyUnwrapped.assumingMemoryBound(to: XMLParse.self)
  }

  /// The bytes of an Expat string. They are valid during the handler call that passes them.
  @_lifetime(immortal)
  fileprivate static func span(_ text: UnsafePointer<XML_Char>?) -> Span<UInt8> {
    unsafe span(text, count: text.map { unsafe strlen($0) } ?? 0)
  }

  @_lifetime(immortal)
  private static func span(_ text: UnsafePointer<XML_Char>?, count: Int) -> Span<UInt8> {
    let start = unsafe UnsafeRawPointer(text)?.assumingMemoryBound(to: UInt8.self)
    let bytes = unsafe UnsafeBufferPointer(start: start, count: count)
    return unsafe _overrideLifetime(Span(_unsafeElements: bytes), copying: ())
  }

  private func setHandlers() {
    unsafe XML_SetXmlDeclHandler(parser) { context, version, encoding, _ in
      // The text declaration of another file has no version.
      if unsafe version != nil { unsafe XMLParse.of(context).pointee.versionRead(XMLParse.span(version)) }
      if unsafe encoding != nil { unsafe XMLParse.of(context).pointee.encodingRead(XMLParse.span(encoding)) }
    }
    unsafe XML_SetElementHandler(
      parser,
      { context, name, attributes in
        unsafe XMLParse.of(context).pointee.elementStarted(XMLParse.span(name), XMLAttributes(attributes))
      },
      { context, _ in unsafe XMLParse.of(context).pointee.elementEnded() })
    unsafe XML_SetProcessingInstructionHandler(parser) { context, target, _ in
      unsafe XMLParse.of(context).pointee.expectNoColon(
        XMLParse.span(target), "the target of a processing instruction")
    }
    setDoctypeHandlers()
    setDeclarationHandlers()
    setEntityHandlers()
    if propertyList != nil { setPropertyListHandlers() }
  }

  private func setDeclarationHandlers() {
    unsafe XML_SetEntityDeclHandler(parser) { context, name, isParameter, _, _, _, address, _, _ in
      let parse = unsafe XMLParse.of(context)
      unsafe parse.pointee.declarationRead(XMLParse.span(name))
      if isParameter != 0, unsafe address != nil { unsafe parse.pointee.externalParameterRead(XMLParse.span(address)) }
    }
    unsafe XML_SetNotationDeclHandler(parser) { context, name, _, _, _ in
      unsafe XMLParse.of(context).pointee.declarationRead(XMLParse.span(name))
    }
    unsafe XML_SetAttlistDeclHandler(parser) { context, _, _, _, _, _ in
      unsafe XMLParse.of(context).pointee.declarationRead(XMLParse.span(nil))
    }
  }

  private func setDoctypeHandlers() {
    unsafe XML_SetDoctypeDeclHandler(
      parser,
      { context, _, _, _, hasInternalSubset in
        let parse = unsafe XMLParse.of(context)
        unsafe parse.pointee.doctypeStarted(hasInternalSubset: hasInternalSubset != 0)
        // Not XML_SetDefaultHandler, with which entities are not expanded.
        unsafe XML_SetDefaultHandlerExpand(parse.pointee.parser) { context, _, _ in
          unsafe XMLParse.of(context).pointee.doctypeTokenRead()
        }
      },
      { context in unsafe XML_SetDefaultHandlerExpand(XMLParse.of(context).pointee.parser, nil) })
  }

  private func setEntityHandlers() {
    // The context is declared as the parser, but it is what XML_SetExternalEntityRefHandlerArg has set. Without `names`
    // it is the external subset, which need not be read, or a parameter entity.
    unsafe XML_SetExternalEntityRefHandler(parser) { context, names, _, address, _ in
      let parse = unsafe XMLParse.of(UnsafeMutableRawPointer(context))
      if unsafe names == nil, unsafe !parse.pointee.isExternalParameter(XMLParse.span(address)) {
        return CInt(XML_STATUS_OK.rawValue)
      }
      unsafe parse.pointee.externalEntityReferred(XMLParse.span(address))
      return CInt(XML_STATUS_ERROR.rawValue)
    }
    unsafe XML_SetSkippedEntityHandler(parser) { context, name, isParameterEntity in
      if isParameterEntity != 0 { return }
      unsafe XMLParse.of(context).pointee.entityPassedOver(XMLParse.span(name))
    }
  }

  private func setPropertyListHandlers() {
    unsafe XML_SetCharacterDataHandler(parser) { context, text, count in
      unsafe XMLParse.of(context).pointee.textRead(XMLParse.span(text, count: Int(count)))
    }
  }

  private static let unknownEncodingHandler: XML_UnknownEncodingHandler = { context, name, information in
    guard let information = unsafe information else { return CInt(XML_STATUS_ERROR.rawValue) }
    return unsafe CInt(XMLParse.of(context).pointee.encodingNamed(XMLParse.span(name), information).rawValue)
  }
}

/// The attributes of a start tag in UTF-8, including those that the DOCTYPE adds.
@safe
struct XMLAttributes: ~Escapable {
  private let names: UnsafeMutablePointer<UnsafePointer<XML_Char>?>?
  let count: Int

  @_lifetime(immortal)
  fileprivate init(_ names: UnsafeMutablePointer<UnsafePointer<XML_Char>?>?) {
    unsafe self.names = names
    var count = 0
    while let names = unsafe names, unsafe names[2 * count] != nil { count += 1 }
    self.count = count
  }

  @_lifetime(copy self)
  func name(_ index: Int) -> Span<UInt8> { text(2 * index) }

  @_lifetime(copy self)
  func value(_ index: Int) -> Span<UInt8> { text(2 * index + 1) }

  @_lifetime(copy self)
  private func text(_ index: Int) -> Span<UInt8> {
    precondition(index >= 0 && index < 2 * count, "an attribute that is not there")
    let span = unsafe XMLParse.span(names?[index])
    return unsafe _overrideLifetime(span, copying: self)
  }
}
