// Parameters in a query or a form, byte for byte as AFNetworking 3 and 4 write them (AFQueryStringFromParameters),
// unless a style says otherwise.
//
// The name of a pair is percent-encoded as one text including its brackets, so `a[b]` becomes `a%5Bb%5D`.
// Tests: QueryEncodingTests; fuzzed by Queries.

import Bytes

/// AFNetworking's encoding of parameters.
public enum QueryEncoding {
  /// `a=1&b%5Bc%5D=2`: the pairs of the tree in this style, percent-encoded.
  public static func encode(_ parameters: [ParameterEntry], _ style: QueryStyle = QueryStyle()) -> [UInt8] {
    encode(style.pairs(parameters), style.space)
  }

  /// Pairs, whatever the encoding of their texts.
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

  /// Writes the target of a request with `query` after its own query and before a fragment. If there is a question mark
  /// already, `&` is put between, even if nothing follows it: then NSURL's query is empty and not nil.
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
  /// Writes `body`, then the pairs of `encoded`. A key that is in both occurs twice; the server decides which one
  /// counts. If a body ends with `&`, no second one is added: an empty pair means nothing to a lenient server and may
  /// be a fault to a strict one.
  public static func merge(encoded: [UInt8], into body: Span<UInt8>, to out: inout ByteBuffer) {
    out.append(body)
    if encoded.isEmpty { return }
    if !body.isEmpty, body[body.count - 1] != UInt8(ascii: "&") { out.append(UInt8(ascii: "&")) }
    out.append(encoded)
  }
}

extension [UInt8] {
  /// Appends bytes, all except the unreserved ones as `%` and two digits. The style decides how spaces are written.
  fileprivate mutating func append(encoded bytes: [UInt8], _ space: QueryStyle.Space) {
    for byte in bytes {
      if byte.isUnreserved {
        append(byte)
      } else if byte == 0x20, space == .plus {
        append(UInt8(ascii: "+"))
      } else {
        self += byte.percentEncoded
      }
    }
  }
}

extension UInt8 {
  /// The bytes that AFPercentEscapedStringFromString does not encode: the unreserved characters of RFC 3986, 2.3, and
  /// the reserved characters `/` and `?`, which a query may contain (3.4). Two masks of 64 bits.
  fileprivate var isUnreserved: Bool {
    // - . / 0-9 ?  |  A-Z _ a-z ~
    let low: UInt64 = 0x83ff_e000_0000_0000
    let high: UInt64 = 0x47ff_fffe_87ff_fffe
    if self >= 0x80 { return false }
    return (self < 0x40 ? low >> UInt64(self) : high >> UInt64(self & 0x3f)) & 1 == 1
  }
}
