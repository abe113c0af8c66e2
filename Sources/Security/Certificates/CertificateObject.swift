// An owned X509 of OpenSSL. Decoding one costs 0.1 to 0.2 ms, mostly for the key, so certificates in frequent use are
// decoded once.

import COpenSSL

/// A reference to an X509 that never changes. OpenSSL would parse the extensions on first use; this is done when the
/// object is made. From then on, threads only read it.
///
/// Swift frees an object after its last use, and reading `pointer` may be that. So the pointer must only be used inside
/// withExtendedLifetime, or while another object keeps this one alive.
final class CertificateObject: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes ownership of the caller's reference.
  private init(adopting pointer: OpaquePointer) {
    self.pointer = pointer
    // The result is ignored: a malformed extension is found again and rejected when a chain is verified.
    _ = X509_check_purpose(pointer, -1, 0)
  }

  deinit { X509_free(pointer) }

  /// The X509 as a value; nil if it cannot be read.
  var value: Certificate? { withExtendedLifetime(self) { Certificate(x509: pointer) } }

  /// nil if `der` is not a certificate, or something follows it.
  static func decode(_ der: [UInt8]) -> CertificateObject? {
    withErrorsOfItsOwn {
      decoded(der, freedBy: X509_free) { d2i_X509(nil, $0, $1) }.map(CertificateObject.init(adopting:))
    }
  }
}

/// Passes `certificates` as a stack for OpenSSL's functions. The stack has no references of its own.
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

/// The elements of an OpenSSL stack, borrowed.
func elements(ofStack stack: OpaquePointer?) -> [OpaquePointer] {
  (0..<cossl_x509_stack_count(stack)).compactMap { cossl_x509_stack_at(stack, $0) }
}
