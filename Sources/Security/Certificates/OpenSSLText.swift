// Small things that every use of OpenSSL here needs: bytes in and out, its errors kept apart, and words for people.
//
// What a certificate says was written by a stranger and ends in logs, terminals and problem bodies: it leaves this module as
// printable ASCII of bounded length only.

import COpenSSL
import Glibc

/// The longest text of a certificate that a message quotes, in characters: a distinguished name of a usual certificate has
/// under 150, that of a hostile one is as long as its certificate.
private let quotedTextLimit = 256

/// Runs `body` and removes what it leaves in OpenSSL's queue of errors, and nothing else: a stale entry makes SSL_get_error
/// see a failure in a handshake that only waits for bytes.
func withErrorsOfItsOwn<Outcome>(_ body: () -> Outcome) -> Outcome {
  ERR_set_mark()
  defer { ERR_pop_to_mark() }
  return body()
}

/// The DER that one of OpenSSL's `i2d_…` functions writes; nil where it cannot.
func encoded(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
  let count = Int(write(nil))
  guard count > 0 else { return nil }
  return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
    var pointer = buffer.baseAddress
    initialized = max(0, min(count, Int(write(&pointer))))
  }
}

/// What one of OpenSSL's `d2i_…` functions reads of all of `der`; nil where it cannot, or leaves bytes behind.
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

/// SHA-256 of `bytes`: 32 bytes.
public func sha256(_ bytes: [UInt8]) -> [UInt8] {
  [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { digest, initialized in
    let isDone = bytes.withUnsafeBufferPointer { SHA256($0.baseAddress, $0.count, digest.baseAddress) } != nil
    guard isDone else { fatalError("OpenSSL computes no SHA-256") }
    initialized = Int(SHA256_DIGEST_LENGTH)
  }
}

/// Bytes as text; what is not printable ASCII stands as `\xNN`.
func printable(_ bytes: some Sequence<UInt8>) -> String {
  var text = ""
  for byte in bytes {
    if (0x20..<0x7f).contains(byte) && byte != 0x5c {
      text.unicodeScalars.append(Unicode.Scalar(byte))
    } else {
      text += "\\x" + hexadecimal([byte])
    }
  }
  return text
}

/// Two upper-case digits a byte.
public func hexadecimal(_ bytes: [UInt8]) -> String {
  bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined()
}

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
func dateText(_ seconds: Int64) -> String {
  var time = time_t(seconds)
  var parts = tm()
  guard gmtime_r(&time, &parts) != nil else { return "\(seconds) s since 1970" }
  func digits(_ number: Int32, _ count: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, count - text.count)) + text
  }
  return digits(parts.tm_year + 1900, 4) + "-" + digits(parts.tm_mon + 1, 2) + "-" + digits(parts.tm_mday, 2)
    + "T" + digits(parts.tm_hour, 2) + ":" + digits(parts.tm_min, 2) + ":" + digits(parts.tm_sec, 2) + "Z"
}
