// Encodes a rewritten body in the coding in which it arrived.
//
// Speed matters more than size: the body goes to one client, once. The levels are in Sources/CCodings/ccodings.c. How
// it is tested: Tests/SerializationTests/ContentEncoderTests.swift, Tests/Fuzz/Codings.

import Bytes
import CCodings

/// Encodes whole bodies.
public enum ContentEncoder {
  /// Appends `body`, below 2 GiB, encoded in `codings` in this order. deflate is wrapped (RFC 1950).
  public static func encode(_ body: Span<UInt8>, as codings: [ContentCoding], to out: inout ByteBuffer) {
    guard let first = codings.first else { return out.append(body) }
    if codings.count == 1 { return encode(body, as: first, to: &out) }
    var coded = ByteBuffer()
    encode(body, as: first, to: &coded)
    encode(coded.bytes, as: Array(codings.dropFirst()), to: &out)
  }

  private static func encode(_ body: Span<UInt8>, as coding: ContentCoding, to out: inout ByteBuffer) {
    let format = CodedStream.format(coding)
    out.reserve(ccodings_encoded_bound(format, body.count))
    let written = unsafe out.fillTail { tail in
      unsafe body.withUnsafeBufferPointer { body in
        unsafe ccodings_encode(format, body.baseAddress, body.count, tail.baseAddress, tail.count)
      }
    }
    if written == 0 { fatalError("out of memory for an encoder of \(coding)") }
  }
}
