// Adds parameters as parts to an existing multipart/form-data body. Like AFNetworking's multipartFormRequest, it writes
// each as a part of its own, before the parts of the body.
//
//   --boundary CR LF  Content-Disposition: form-data; name="a[b]" CR LF CR LF  value CR LF     (each parameter)
//   --boundary … as it came
//
// Names are those of the query, in its style, without percent-encoding. The three characters that would end a name are
// written as browsers write them (the HTML standard). The body keeps its boundary and all of its bytes.
// Tests: MultipartMergingTests.

import Bytes

/// Adds parameters to multipart bodies.
enum MultipartMerging {
  enum Outcome: Equatable {
    case merged
    /// The body is malformed.
    case invalid(ContentFault)
    /// A reader would see several parts in this one.
    case boundaryInPart(name: [UInt8])
  }

  /// Writes the pairs and then `body`. Nothing is written unless the result is `merged`.
  static func merge(
    _ pairs: [QueryPair], into body: Span<UInt8>, _ boundary: MultipartBoundary, to out: inout ByteBuffer
  ) -> Outcome {
    if let fault = MultipartFormData.fault(in: body, boundary) { return .invalid(fault) }
    // CR LF, two hyphens and the boundary.
    let delimiter = boundary.delimiter.span
    let bare = delimiter.extracting(2..<delimiter.count)
    var parts: [UInt8] = []
    for pair in pairs {
      let part = part(pair)
      // At any position, even if a boundary would need a line end before it: readers differ in what they accept as one.
      if part.span.contains(bare) { return .boundaryInPart(name: pair.name) }
      for index in 0..<bare.count { parts.append(bare[index]) }
      parts += part
    }
    // A line end before the first boundary stays there.
    let begin = body.holds(bare, at: 0) ? 0 : 2
    out.append(body.extracting(0..<begin))
    out.append(parts)
    out.append(body.extracting(begin..<body.count))
    return .merged
  }

  /// From the end of the boundary to the end of the line before the next one.
  private static func part(_ pair: QueryPair) -> [UInt8] {
    var part = Array("\r\nContent-Disposition: form-data; name=\"".utf8)
    for byte in pair.name {
      switch byte {
      case UInt8(ascii: "\""): part += "%22".utf8
      case 0x0d: part += "%0D".utf8
      case 0x0a: part += "%0A".utf8
      default: part.append(byte)
      }
    }
    part += "\"\r\n\r\n".utf8
    part += pair.values.joined(separator: ",".utf8)
    part += "\r\n".utf8
    return part
  }
}

extension Span where Element == UInt8 {
  /// Whether it contains `text`, which is not empty.
  fileprivate func contains(_ text: Span<UInt8>) -> Bool {
    var from = 0
    while let next = firstIndex(of: text[0], from: from) {
      if holds(text, at: next) { return true }
      from = next + 1
    }
    return false
  }
}
