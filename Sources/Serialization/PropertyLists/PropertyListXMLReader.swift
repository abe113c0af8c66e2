// Follows a property list in XML as Expat reads it (Apple's PropertyList-1.0.dtd).
//
// Open elements are on a stack: the containers as frames, an element with text as the leaf. Values are checked and
// forgotten. For a merge, the positions of the root dictionary's members are kept. Tests: PropertyListXMLTests.

import Bytes

struct PropertyListXMLReader {
  /// What is kept of a list.
  enum Purpose {
    case nothing
    case membersOfRoot
  }

  struct Member {
    /// UTF-8.
    let key: [UInt8]
    /// From the beginning of the start tag to the end of the end tag, in the body.
    let value: Range<Int>
  }

  /// The value in `plist`.
  struct Root {
    let kind: PropertyListKind
    let startTag: Range<Int>
    /// Empty if the start tag is an empty-element tag.
    let endTag: Range<Int>
  }

  private enum Element: CaseIterable {
    case plist, dictionary, array, key, string, integer, real, date, data, isTrue, isFalse

    var name: StaticString {
      switch self {
      case .plist: "plist"
      case .dictionary: "dict"
      case .array: "array"
      case .key: "key"
      case .string: "string"
      case .integer: "integer"
      case .real: "real"
      case .date: "date"
      case .data: "data"
      case .isTrue: "true"
      case .isFalse: "false"
      }
    }

    /// The kind of value, for elements that are one.
    var kind: PropertyListKind? {
      switch self {
      case .plist, .key: nil
      case .dictionary: .dictionary
      case .array: .array
      case .string: .string
      case .integer: .integer
      case .real: .real
      case .date: .date
      case .data: .data
      case .isTrue, .isFalse: .boolean
      }
    }

    init?(_ name: Span<UInt8>) {
      for element in Self.allCases where name.equals(0..<name.count, element.name) {
        self = element
        return
      }
      return nil
    }
  }

  /// `plist`, or an open array or dictionary.
  private struct Frame {
    let element: Element
    let startTag: Range<Int>
    /// For a dictionary.
    var keys: Set<[UInt8]> = []
    /// The key whose value comes next.
    var key: [UInt8]?
    /// For `plist`: it already has its value.
    var isFull = false
  }

  private let purpose: Purpose
  private var frames: [Frame] = []
  private var leaf: (element: Element, startTag: Range<Int>)?
  /// The contents of the leaf so far, where they matter.
  private var text: [UInt8] = []
  private var base64 = Base64Text()
  private(set) var root: Root?
  private(set) var members: [Member] = []

  struct Outcome {
    var fault: ContentFault?
    var encoding = XMLEncoding.utf8
    var root: Root?
    var members: [Member] = []
  }

  static func read(_ body: Span<UInt8>, charset: [UInt8]?, keeping purpose: Purpose) -> Outcome {
    if let fault = faultOfOpenStep(body) { return Outcome(fault: fault) }
    let outcome = XMLParse.run(body, charset: charset, propertyList: PropertyListXMLReader(purpose))
    switch outcome.verdict {
    case .failure(let fault): return Outcome(fault: fault)
    case .success(let encoding):
      return Outcome(
        encoding: encoding, root: outcome.propertyList?.root, members: outcome.propertyList?.members ?? [])
    }
  }

  private init(_ purpose: Purpose) { self.purpose = purpose }

  /// OpenStep lists begin with a brace, a parenthesis, a quote or a comment. Data, `<0fbd77>`, is left to Expat.
  private static func faultOfOpenStep(_ body: Span<UInt8>) -> ContentFault? {
    for index in 0..<body.count where !PropertyListText.isSpace(body[index]) {
      guard [UInt8(ascii: "{"), UInt8(ascii: "("), UInt8(ascii: "\""), UInt8(ascii: "/")].contains(body[index])
      else { return nil }
      return ContentFault(
        "expected a property list in XML or binary, found \(FaultWords.found(body, at: index)), as in OpenStep's, "
          + "which are not read", offset: index, place: body.place(of: index))
    }
    return nil
  }

  // MARK: Events

  /// Entities and attributes that a list declares itself would only serve to hide its contents.
  func internalSubsetStarted() -> XMLObjection? {
    XMLObjection("expected no declarations in the DOCTYPE of a property list")
  }

  mutating func elementStarted(_ name: Span<UInt8>, _ attributes: XMLAttributes, at tag: Range<Int>) -> XMLObjection? {
    guard let element = Element(name) else { return objection(to: name, expected: "an element of a property list") }
    if let leaf { return objection(to: name, expected: "the text of '\(leaf.element.name)'") }
    if let objection = objection(toAttributes: attributes, of: element) { return objection }
    if let expected = expected(otherThan: element) { return objection(to: name, expected: expected) }
    switch element {
    case .plist, .dictionary, .array: frames.append(Frame(element: element, startTag: tag))
    default:
      leaf = (element, tag)
      text.removeAll(keepingCapacity: true)
      if element == .data { base64 = Base64Text() }
    }
    return nil
  }

  mutating func textRead(_ piece: Span<UInt8>) -> XMLObjection? {
    switch leaf?.element {
    case .string: return nil
    case .key, .integer, .real, .date:
      for index in 0..<piece.count { text.append(piece[index]) }
      return nil
    case .data:
      for index in 0..<piece.count {
        if let reason = base64.take(piece, at: index) { return XMLObjection(reason, at: .behind(characters: index)) }
      }
      return nil
    default:
      for index in 0..<piece.count where leaf != nil || !PropertyListText.isSpace(piece[index]) {
        let seen = FaultWords.found(piece, at: index)
        return XMLObjection("expected no text here, found \(seen)", at: .behind(characters: index))
      }
      return nil
    }
  }

  mutating func elementEnded(at tag: Range<Int>) -> XMLObjection? {
    if let (element, startTag) = leaf {
      leaf = nil
      if let objection = objection(toLeaf: element, startTag) { return objection }
      if element == .key { return nil }
      valueEnded(element, startTag: startTag, endTag: tag)
      return nil
    }
    guard let frame = frames.popLast() else { return nil }
    if let key = frame.key {
      return XMLObjection("expected a value behind the key '\(FaultWords.quoted(key.span))', found the end")
    }
    if frame.element != .plist {
      valueEnded(frame.element, startTag: frame.startTag, endTag: tag)
    } else if !frame.isFull {
      return XMLObjection("expected a value in 'plist', found none")
    }
    return nil
  }

  // MARK: Rules

  private func objection(to name: Span<UInt8>, expected: String) -> XMLObjection {
    XMLObjection("expected \(expected), found <\(FaultWords.quoted(name))>")
  }

  /// What must be here instead if `element` is not allowed.
  private func expected(otherThan element: Element) -> String? {
    guard let frame = frames.last else { return element == .plist ? nil : "<plist> as the root element" }
    switch frame.element {
    case .dictionary:
      guard let key = frame.key else { return element == .key ? nil : "a key of a dictionary" }
      return element.kind == nil ? "a value behind the key '\(FaultWords.quoted(key.span))'" : nil
    case .plist where frame.isFull: return "one value in 'plist'"
    default: return element.kind == nil ? "a value" : nil
    }
  }

  private func objection(toAttributes attributes: XMLAttributes, of element: Element) -> XMLObjection? {
    for index in 0..<attributes.count {
      let name = attributes.name(index)
      guard element == .plist, name.equals(0..<name.count, "version") else {
        return XMLObjection("expected no attribute of '\(element.name)', found '\(FaultWords.quoted(name))'")
      }
      let version = attributes.value(index)
      guard version.equals(0..<version.count, "1.0") else {
        return XMLObjection("expected version 1.0 of property lists, found '\(FaultWords.quoted(version))'")
      }
    }
    return nil
  }

  /// Checks the complete text of a leaf; for a key, also that it is the first with its name.
  private mutating func objection(toLeaf element: Element, _ startTag: Range<Int>) -> XMLObjection? {
    let text = self.text
    var reason: String?
    switch element {
    case .key: return objection(toKey: text, startTag)
    case .integer: reason = PropertyListText.faultOfInteger(text.span)
    case .real: reason = PropertyListText.faultOfReal(text.span)
    case .date: reason = PropertyListText.faultOfDate(text.span)
    case .data: reason = base64.faultAtEnd
    default: break
    }
    return reason.map { XMLObjection($0, at: .byte(startTag.upperBound)) }
  }

  private mutating func objection(toKey key: [UInt8], _ startTag: Range<Int>) -> XMLObjection? {
    let last = frames.count - 1
    guard frames[last].keys.insert(key).inserted else {
      let quoted = FaultWords.quoted(key.span)
      return XMLObjection("expected each key once, found '\(quoted)' twice", at: .byte(startTag.lowerBound))
    }
    frames[last].key = key
    return nil
  }

  private mutating func valueEnded(_ element: Element, startTag: Range<Int>, endTag: Range<Int>) {
    let last = frames.count - 1
    if frames[last].element == .plist {
      frames[last].isFull = true
      root = element.kind.map { Root(kind: $0, startTag: startTag, endTag: endTag) }
    } else if let key = frames[last].key {
      frames[last].key = nil
      if purpose == .membersOfRoot, last == 1 {
        members.append(Member(key: key, value: startTag.lowerBound..<endTag.upperBound))
      }
    }
  }
}
