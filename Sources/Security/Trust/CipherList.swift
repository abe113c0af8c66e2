// `ciphers`: a cipher list for TLS 1.2 and lower, which may also contain TLS 1.3 suites. OpenSSL accepts the two by
// different functions, and its list parser ignores unknown words. Here a misspelt word is an error.
// Tests: CipherListTests.

import Bytes
import COpenSSL

public struct CipherList: Hashable, Sendable {
  /// As it was written.
  public let text: String
  /// For SSL_CTX_set_cipher_list; nil: the text names none, and OpenSSL's default applies.
  public let list: String?
  /// The same for SSL_CTX_set_ciphersuites.
  public let suites: String?
  /// What it allows on a connection (IANA, TLS Cipher Suites).
  public let numbers: Set<UInt16>

  /// What is wrong with a text, in words.
  public struct Fault: Error, Equatable, CustomStringConvertible {
    public let description: String
  }

  public init(_ text: String) throws(Fault) {
    self.text = text
    (list, suites) = Self.parts(text)
    numbers = try Self.read(text, list: list, suites: suites).get()
  }

  /// Splits at colons, commas and blanks, as OpenSSL does. Words that begin with `TLS_` are TLS 1.3 suites.
  static func parts(_ text: String) -> (list: String?, suites: String?) {
    let words = words(text)
    let suites = words.filter(isSuite)
    let list = words.filter { !isSuite($0) }
    return (list.isEmpty ? nil : list.joined(separator: ":"), suites.isEmpty ? nil : suites.joined(separator: ":"))
  }

  private static func read(_ text: String, list: String?, suites: String?) -> Result<Set<UInt16>, Fault> {
    func fault(_ sentence: String) -> Result<Set<UInt16>, Fault> { .failure(Fault(description: sentence)) }
    return withErrorsOfItsOwn {
      guard let context = SSL_CTX_new(TLS_client_method()) else { return fault("OpenSSL makes no TLS context") }
      defer { SSL_CTX_free(context) }
      let words = words(text)
      guard !words.isEmpty, !text.utf8.contains(0) else { return fault("expected ciphers, found none") }
      for word in words {
        if isSuite(word) {
          guard SSL_CTX_set_ciphersuites(context, word) == 1 else {
            return fault("OpenSSL knows no TLS 1.3 suite '\(word)'")
          }
        } else if !isDirective(word), SSL_CTX_set_cipher_list(context, word) != 1 {
          return fault("OpenSSL knows no cipher '\(word)'")
        }
      }
      return numbers(list, suites)
    }
  }

  /// As Transport offers them: it, too, leaves out those without a certificate, encryption, or curves. On a context of
  /// its own, because a list that is tried leaves its traces.
  private static func numbers(_ list: String?, _ suites: String?) -> Result<Set<UInt16>, Fault> {
    func fault(_ sentence: String) -> Result<Set<UInt16>, Fault> { .failure(Fault(description: sentence)) }
    guard let context = SSL_CTX_new(TLS_client_method()) else { return fault("OpenSSL makes no TLS context") }
    defer { SSL_CTX_free(context) }
    if let list, SSL_CTX_set_cipher_list(context, list + ":!aNULL:!eNULL") != 1 {
      return fault("OpenSSL finds no cipher with certificates and encryption in '\(list)'")
    }
    if let suites, SSL_CTX_set_ciphersuites(context, suites) != 1 {
      return fault("OpenSSL finds no TLS 1.3 suite in '\(suites)'")
    }
    if !cossl_drop_finite_fields(context) {
      return fault("expected a cipher without finite-field Diffie-Hellman, found none in '\(list ?? "DEFAULT")'")
    }
    let ciphers = SSL_CTX_get_ciphers(context)
    return .success(Set((0..<cossl_cipher_count(ciphers)).map { cossl_cipher_number(ciphers, $0) }))
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
