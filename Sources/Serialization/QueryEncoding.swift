// Parameters in a query or a form, to the byte as AFNetworking 3 and 4 write them (AFQueryStringFromParameters).
//
// The field of a pair, brackets and all, is percent-encoded as one text, so that `a[b]` becomes `a%5Bb%5D`. Containers
// that are empty leave no trace. Tests: QueryEncodingTests; fuzzed by Queries.

import Bytes

/// AFNetworking's encoding of parameters.
public enum QueryEncoding {
  /// `a=1&b%5Bc%5D=2`: dictionaries as `a[b]` with their keys sorted by code point, arrays as `a[]` in order. Goes as
  /// deep as the tree, whose depth the reader of the configuration or `FormDecoding` has bounded.
  public static func encode(_ parameters: [ParameterEntry]) -> [UInt8] {
    var writer = PairWriter()
    writer.write(parameters, between: "", "")
    return writer.pairs
  }

  /// Writes the target of a request with `query` behind its own query and before a fragment. Where there is a question
  /// mark already `&` goes between, even if nothing follows it: NSURL's query is then empty, and not nil.
  public static func append(query: [UInt8], to target: Span<UInt8>, into out: inout ByteBuffer) {
    let end = target.firstIndex(of: UInt8(ascii: "#")) ?? target.count
    let resource = target.extracting(0..<end)
    out.append(resource)
    if !query.isEmpty {
      out.append(resource.firstIndex(of: UInt8(ascii: "?")) == nil ? UInt8(ascii: "?") : UInt8(ascii: "&"))
      out.append(query)
    }
    out.append(target.extracting(end..<target.count))
  }
}

/// An application/x-www-form-urlencoded body.
public enum FormBody {
  /// Writes `body`, then the pairs of `encoded`. A key that is in both comes twice: which of them counts is for the
  /// server to say. A body that ends with `&` gets no second one, as an empty pair means nothing to a lenient server
  /// and may be a fault to a strict one.
  public static func merge(encoded: [UInt8], into body: Span<UInt8>, to out: inout ByteBuffer) {
    out.append(body)
    if encoded.isEmpty { return }
    if !body.isEmpty, body[body.count - 1] != UInt8(ascii: "&") { out.append(UInt8(ascii: "&")) }
    out.append(encoded)
  }
}

private struct PairWriter {
  var pairs: [UInt8] = []
  /// The field of the value that is being written, percent-encoded.
  private var field: [UInt8] = []

  /// The keys of the root stand bare, those further in between brackets.
  mutating func write(_ entries: [ParameterEntry], between open: String, _ close: String) {
    let outer = field.count
    // The bytes of UTF-8 sort as the code points do.
    for entry in entries.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      field += open.utf8
      field.append(encoded: entry.key)
      field += close.utf8
      write(entry.value)
      field.removeLast(field.count - outer)
    }
  }

  private mutating func write(_ value: ParameterValue) {
    switch value {
    case .dictionary(let entries): write(entries, between: "%5B", "%5D")
    case .array(let elements): write(elements)
    case .string(let text): writePair(text)
    case .integer(let number): writePair(Array(String(number).utf8))
    case .real(let number): writePair(decimal(number))
    case .boolean(let truth): writePair([truth ? UInt8(ascii: "1") : UInt8(ascii: "0")])
    }
  }

  private mutating func write(_ elements: [ParameterValue]) {
    let outer = field.count
    field += "%5B%5D".utf8
    for element in elements { write(element) }
    field.removeLast(field.count - outer)
  }

  private mutating func writePair(_ value: [UInt8]) {
    if !pairs.isEmpty { pairs.append(UInt8(ascii: "&")) }
    pairs += field
    pairs.append(UInt8(ascii: "="))
    pairs.append(encoded: value)
  }

  /// The shortest decimal that reads back, as `description` has it; of a whole number without its `.0`.
  private func decimal(_ number: Double) -> [UInt8] {
    let text = number.description
    return Array((text.hasSuffix(".0") ? text.dropLast(2) : text[...]).utf8)
  }
}

extension [UInt8] {
  /// Appends bytes with all but the unreserved ones as `%` and two digits.
  fileprivate mutating func append(encoded bytes: [UInt8]) {
    for byte in bytes {
      if byte.isUnreserved {
        append(byte)
      } else {
        append(UInt8(ascii: "%"))
        append((byte >> 4).upperCaseDigit)
        append((byte & 0xf).upperCaseDigit)
      }
    }
  }
}

extension UInt8 {
  /// What AFPercentEscapedStringFromString leaves alone: the unreserved characters of RFC 3986, 2.3, and of its
  /// reserved ones `/` and `?`, which a query may hold (3.4). As two masks of 64 bits.
  fileprivate var isUnreserved: Bool {
    // - . / 0-9 ?  |  A-Z _ a-z ~
    let low: UInt64 = 0x83ff_e000_0000_0000
    let high: UInt64 = 0x47ff_fffe_87ff_fffe
    if self >= 0x80 { return false }
    return (self < 0x40 ? low >> UInt64(self) : high >> UInt64(self & 0x3f)) & 1 == 1
  }

  /// The hexadecimal digit of a value below 16.
  fileprivate var upperCaseDigit: UInt8 { self < 10 ? self + 0x30 : self + 0x37 }
}
