// OpenSSL's X509, held. Decoding one costs 0.1 to 0.2 ms, most of it for the key, so what is asked often is decoded once.

import COpenSSL

/// A reference to an X509 that nobody changes. What OpenSSL would compute at the first question (the extensions) is
/// computed when the object is made; from then on threads only read it.
///
/// Swift frees an object behind its last use, and reading `pointer` may be that: what is done with the pointer stands inside
/// withExtendedLifetime, or under a holder that outlives it.
final class CertificateObject: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes over the caller's reference.
  private init(adopting pointer: OpaquePointer) {
    self.pointer = pointer
    // The answer does not count: a malformed extension is found again, and refused, when a chain is verified.
    _ = X509_check_purpose(pointer, -1, 0)
  }

  deinit { X509_free(pointer) }

  /// What an X509 says, as a value; nil where it says it in no form that can be read.
  var value: Certificate? { withExtendedLifetime(self) { Certificate(x509: pointer) } }

  /// nil where `der` is no certificate, or something stands behind it.
  static func decode(_ der: [UInt8]) -> CertificateObject? {
    withErrorsOfItsOwn {
      decoded(der, freedBy: X509_free) { d2i_X509(nil, $0, $1) }.map(CertificateObject.init(adopting:))
    }
  }
}

/// Lends `certificates` as OpenSSL's functions take them. The stack holds no references of its own.
func withStack<Outcome>(
  _ certificates: some Sequence<OpaquePointer>, _ body: (OpaquePointer?) -> Outcome
) -> Outcome {
  let stack = cossl_x509_stack_new()
  defer { cossl_x509_stack_free(stack) }
  for certificate in certificates where cossl_x509_stack_push(stack, certificate) == 0 {
    fatalError("no memory for a stack of certificates")
  }
  return body(stack)
}

/// What a stack of OpenSSL's holds, borrowed.
func elements(ofStack stack: OpaquePointer?) -> [OpaquePointer] {
  (0..<cossl_x509_stack_count(stack)).compactMap { cossl_x509_stack_at(stack, $0) }
}
