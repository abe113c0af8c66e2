// Parameters in a query or a form, to the byte as AFNetworking 3 and 4 write them (AFQueryStringFromParameters), unless a
// style says otherwise.
//
// The field of a pair, brackets and all, is percent-encoded as one text, so that `a[b]` becomes `a%5Bb%5D`. Tests: QueryEncodingTests; fuzzed by Queries.

import Bytes

/// AFNetworking's encoding of parameters.
public enum QueryEncoding {
  /// `a=1&b%5Bc%5D=2`: the pairs of the tree in this style, percent-encoded.
  public static func encode(_ parameters: [ParameterEntry], _ style: QueryStyle = QueryStyle()) -> [UInt8] {
    encode(style.pairs(parameters), style.space)
  }

  /// Pairs in whatever encoding their texts are in.
  static func encode(_ pairs: [QueryPair], _ space: QueryStyle.Space) -> [UInt8] {
    var out: [UInt8] = []
    for pair in pairs {
      if !out.isEmpty { out.append(UInt8(ascii: "&")) }
      out.append(encoded: pair.name, space)
      out.append(UInt8(ascii: "="))
      for (index, value) in pair.values.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        out.append(encoded: value, space)
      }
    }
    return out
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

extension [UInt8] {
  /// Appends bytes with all but the unreserved ones as `%` and two digits, and spaces as the style has them.
  fileprivate mutating func append(encoded bytes: [UInt8], _ space: QueryStyle.Space) {
    for byte in bytes {
      if byte.isUnreserved {
        append(byte)
      } else if byte == 0x20, space == .plus {
        append(UInt8(ascii: "+"))
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
