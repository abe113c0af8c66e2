// Converts an application/x-www-form-urlencoded body to a tree of parameters.
//
// Pairs are split as in the URL standard, but nothing is repaired. A percent sign without two digits is a fault, and so
// are bytes that are not valid in the form's encoding. BracketTree interprets the names. Tests: FormDecodingTests;
// fuzzed by Queries and Transcoding.

import Bytes

/// Reads forms.
public enum FormDecoding {
  /// The pairs of a form as a tree with strings as values: `a=1`, `a[b]=1`, `a[]=1`, `a[][b]=1`, with or without
  /// percent-encoded brackets. Keys keep the order of their first occurrence. Empty pairs are skipped, and a pair
  /// without `=` has an empty value. Arrays in the format of `style` are also read as arrays. The offset of a fault is
  /// the byte of the body where it shows.
  public static func decode(
    _ body: Span<UInt8>, _ style: QueryStyle = QueryStyle(), encoding: TextEncoding? = nil
  ) -> Result<[ParameterEntry], ContentFault> {
    var tree = BracketTree(arrays: style.arrays)
    do throws(ContentFault) {
      let converter = try encoding?.decoderOrFault()
      if let fault = decode(body, converter, into: &tree) { return .failure(fault) }
      return .success(tree.entries)
    } catch {
      return .failure(error)
    }
  }

  /// Without a converter, the body is UTF-8.
  static func decode(
    _ body: Span<UInt8>, _ converter: TextConverter? = nil, into tree: inout BracketTree
  ) -> ContentFault? {
    var at = 0
    while at < body.count {
      let end = body.firstIndex(of: UInt8(ascii: "&"), from: at) ?? body.count
      if end > at, let fault = insert(at..<end, of: body, converter, into: &tree) { return fault }
      at = end + 1
    }
    return nil
  }

  private static func insert(
    _ pair: Range<Int>, of body: Span<UInt8>, _ converter: TextConverter?, into tree: inout BracketTree
  ) -> ContentFault? {
    let equals = body.extracting(pair).firstIndex(of: UInt8(ascii: "=")).map { pair.lowerBound + $0 }
    let name = pair.lowerBound..<(equals ?? pair.upperBound)
    let key: [UInt8]
    switch decoded(name, of: body, converter) {
    case .failure(let fault): return fault
    case .success(let text): key = text
    }
    var at = equals.map { $0 + 1 } ?? pair.upperBound
    while true {
      let end = tree.arrays == .comma ? endOfElement(from: at, in: pair, of: body) : pair.upperBound
      switch decoded(at..<end, of: body, converter) {
      case .failure(let fault): return fault
      case .success(let text):
        if let fault = tree.insert(key, text) {
          return ContentFault(fault.reason, offset: offset(ofDecoded: fault.index, in: name, of: body))
        }
      }
      if end == pair.upperBound { return nil }
      at = end + 1
    }
  }

  /// The position of the comma that ends an element, or the end of the pair. A percent-encoded comma belongs to the
  /// element.
  private static func endOfElement(from: Int, in pair: Range<Int>, of body: Span<UInt8>) -> Int {
    body.extracting(from..<pair.upperBound).firstIndex(of: UInt8(ascii: ",")).map { from + $0 } ?? pair.upperBound
  }

  /// The text of a name or value in UTF-8.
  private static func decoded(
    _ range: Range<Int>, of body: Span<UInt8>, _ converter: TextConverter?
  ) -> Result<[UInt8], ContentFault> {
    var text: [UInt8] = []
    text.reserveCapacity(range.count)
    var at = range.lowerBound
    while at < range.upperBound {
      switch body[at] {
      case UInt8(ascii: "+"): text.append(0x20)
      case UInt8(ascii: "%"):
        guard let byte = escaped(at, range, of: body) else {
          let seen = Seen.text(body.extracting(at..<min(at + 3, range.upperBound)))
          return .failure(ContentFault("expected two hexadecimal digits behind '%', found \(seen)", offset: at))
        }
        text.append(byte)
        at += 2
      default: text.append(body[at])
      }
      at += 1
    }
    switch TextConverter.utf8(text, by: converter) {
    case .success(let text): return .success(text)
    case .failure(let unfit):
      let seen = Seen.byte(text.span, at: unfit.index, orEnd: "its end")
      let place = offset(ofDecoded: unfit.index, in: range, of: body)
      return .failure(ContentFault("expected \(converter?.from ?? "UTF-8"), found \(seen)", offset: place))
    }
  }

  /// The byte that a percent sign and two digits represent.
  private static func escaped(_ at: Int, _ range: Range<Int>, of body: Span<UInt8>) -> UInt8? {
    guard range.upperBound - at > 2 else { return nil }
    guard let high = body[at + 1].hexadecimalValue, let low = body[at + 2].hexadecimalValue else { return nil }
    return high << 4 | low
  }

  /// The position in the body of the byte at `index` of a decoded text.
  private static func offset(ofDecoded index: Int, in range: Range<Int>, of body: Span<UInt8>) -> Int {
    var at = range.lowerBound
    for _ in 0..<index where at < range.upperBound { at += body[at] == UInt8(ascii: "%") ? 3 : 1 }
    return at
  }
}
