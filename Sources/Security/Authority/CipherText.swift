// The value of `ciphers`: a cipher list for TLS 1.2 and lower, which may also contain TLS 1.3 suites. OpenSSL accepts
// the two through different functions, and its list parser ignores unknown words. Here a misspelt word is an error.
// Tests: CipherTextTests.

import Bytes
import COpenSSL

extension SecurityPolicy.Settings {
  /// The two parts of a cipher string; nil where the text has no such part, so that OpenSSL's default applies.
  public struct CipherParts: Equatable, Sendable {
    /// For SSL_CTX_set_cipher_list.
    public let list: String?
    /// For SSL_CTX_set_ciphersuites.
    public let suites: String?
  }

  /// Splits at colons, commas and blanks, as OpenSSL does. Words that begin with `TLS_` are TLS 1.3 suites.
  public static func cipherParts(_ text: String) -> CipherParts {
    let words = words(text)
    let suites = words.filter(isSuite)
    let list = words.filter { !isSuite($0) }
    return CipherParts(
      list: list.isEmpty ? nil : list.joined(separator: ":"),
      suites: suites.isEmpty ? nil : suites.joined(separator: ":"))
  }

  /// What is wrong with `text` as a value of `ciphers`, in words; nil if OpenSSL accepts it.
  public static func cipherFault(_ text: String) -> String? {
    withErrorsOfItsOwn {
      guard let context = SSL_CTX_new(TLS_client_method()) else { return "OpenSSL makes no TLS context" }
      defer { SSL_CTX_free(context) }
      let words = words(text)
      guard !words.isEmpty, !text.utf8.contains(0) else { return "expected ciphers, found none" }
      for word in words {
        if isSuite(word) {
          guard SSL_CTX_set_ciphersuites(context, word) == 1 else { return "OpenSSL knows no TLS 1.3 suite '\(word)'" }
        } else if !isDirective(word), SSL_CTX_set_cipher_list(context, word) != 1 {
          return "OpenSSL knows no cipher '\(word)'"
        }
      }
      let parts = cipherParts(text)
      // Transport removes these as well: they have no certificate, or no encryption.
      if let list = parts.list, SSL_CTX_set_cipher_list(context, list + ":!aNULL:!eNULL") != 1 {
        return "OpenSSL finds no cipher with certificates and encryption in '\(list)'"
      }
      if let suites = parts.suites, SSL_CTX_set_ciphersuites(context, suites) != 1 {
        return "OpenSSL finds no TLS 1.3 suite in '\(suites)'"
      }
      if !cossl_drop_finite_fields(context) {
        return "expected a cipher without finite-field Diffie-Hellman, found none in '\(parts.list ?? text)'"
      }
      return nil
    }
  }

  /// The suites that `text` allows, by their numbers (IANA, TLS Cipher Suites), as Transport offers them.
  static func cipherSuites(_ text: String) -> Set<UInt16> {
    withErrorsOfItsOwn {
      guard let context = SSL_CTX_new(TLS_client_method()) else { return [] }
      defer { SSL_CTX_free(context) }
      let parts = cipherParts(text)
      if let list = parts.list, SSL_CTX_set_cipher_list(context, list + ":!aNULL:!eNULL") != 1 { return [] }
      if let suites = parts.suites, SSL_CTX_set_ciphersuites(context, suites) != 1 { return [] }
      guard cossl_drop_finite_fields(context) else { return [] }
      let ciphers = SSL_CTX_get_ciphers(context)
      return Set((0..<cossl_cipher_count(ciphers)).map { cossl_cipher_number(ciphers, $0) })
    }
  }

  private static func words(_ text: String) -> [String] {
    text.split { $0 == ":" || $0 == "," || $0 == " " }.map(String.init)
  }

  private static func isSuite(_ word: String) -> Bool { word.hasPrefix("TLS_") }

  /// A word that removes or reorders ciphers. It is no error if there is nothing to remove.
  private static func isDirective(_ word: String) -> Bool {
    word.utf8.first.map { "!-+@".utf8.contains($0) } ?? false
  }
}
