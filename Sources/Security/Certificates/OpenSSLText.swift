// Small helpers for every use of OpenSSL here: bytes in and out, isolation of its errors, and texts for people.
//
// The contents of a certificate are written by strangers and end up in logs, terminals and problem bodies. They leave
// this module only as printable ASCII of bounded length.

import Bytes
import COpenSSL
import Glibc

/// The longest certificate text that a message quotes, in characters. The distinguished name of a usual certificate has
/// under 150; that of a hostile one may be as long as its certificate.
private let quotedTextLimit = 256

/// Runs `body` and removes only the entries that it leaves in OpenSSL's error queue. A stale entry would make
/// SSL_get_error report a failure in a handshake that is only waiting for bytes.
func withErrorsOfItsOwn<Outcome>(_ body: () -> Outcome) -> Outcome {
  ERR_set_mark()
  defer { ERR_pop_to_mark() }
  return body()
}

/// The DER that one of OpenSSL's `i2d_…` functions writes; nil if it fails.
func encoded(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
  let count = Int(write(nil))
  guard count > 0 else { return nil }
  return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
    var pointer = buffer.baseAddress
    initialized = max(0, min(count, Int(write(&pointer))))
  }
}

/// The value that one of OpenSSL's `d2i_…` functions reads from `der`; nil if it fails or does not consume all bytes.
func decoded<Value>(
  _ der: [UInt8], freedBy free: (Value?) -> Void,
  _ read: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> Value?
) -> Value? {
  der.withUnsafeBufferPointer { bytes in
    var pointer = bytes.baseAddress
    guard let value = read(&pointer, bytes.count) else { return nil }
    guard let base = bytes.baseAddress, let end = pointer, end == base + bytes.count else {
      free(value)
      return nil
    }
    return value
  }
}

/// SHA-1 of `bytes`: 20 bytes. Only for formats that require it, never for security.
public func sha1(_ bytes: [UInt8]) -> [UInt8] {
  [UInt8](unsafeUninitializedCapacity: Int(SHA_DIGEST_LENGTH)) { digest, initialized in
    let isDone = bytes.withUnsafeBufferPointer { SHA1($0.baseAddress, $0.count, digest.baseAddress) } != nil
    guard isDone else { fatalError("OpenSSL computes no SHA-1") }
    initialized = Int(SHA_DIGEST_LENGTH)
  }
}

/// SHA-256 of `bytes`: 32 bytes.
public func sha256(_ bytes: [UInt8]) -> [UInt8] {
  [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { digest, initialized in
    let isDone = bytes.withUnsafeBufferPointer { SHA256($0.baseAddress, $0.count, digest.baseAddress) } != nil
    guard isDone else { fatalError("OpenSSL computes no SHA-256") }
    initialized = Int(SHA256_DIGEST_LENGTH)
  }
}

/// Bytes as text; anything but printable ASCII becomes `\xNN`.
func printable(_ bytes: some Sequence<UInt8>) -> String {
  var text = ""
  for byte in bytes {
    if (0x20..<0x7f).contains(byte) && byte != 0x5c {
      text.unicodeScalars.append(Unicode.Scalar(byte))
    } else {
      text += "\\x" + byte.hexadecimal.uppercased()
    }
  }
  return text
}

/// Two upper-case digits per byte.
public func hexadecimal(_ bytes: [UInt8]) -> String { bytes.hexadecimal.uppercased() }

/// At most `quotedTextLimit` characters of `text`.
func quotable(_ text: String) -> String {
  text.utf8.count <= quotedTextLimit ? text : String(text.prefix(quotedTextLimit)) + "…"
}

/// `items` for a message: the first `limit` of them, and how many more there are.
func listed(_ items: [String], atMost limit: Int) -> String {
  let shown = items.prefix(limit).joined(separator: ", ")
  return items.count > limit ? "\(shown) and \(items.count - limit) more" : shown
}

/// `2026-12-01T00:00:00Z`
func dateText(_ seconds: Int64) -> String { CalendarTime(secondsSince1970: seconds).text }
