// Certificate revocation lists, in files and for the check of a chain (RFC 5280, 5). Tests: RevocationListTests.

import COpenSSL

extension Revocation {
  private static let label = "X509 CRL"

  /// The revocation lists of a PEM text (several, with text between them) or a DER one (one list); its content decides
  /// which it is. Returns the DER of each, at least one. Anything else in their place is an error.
  public static func readList(_ bytes: [UInt8]) -> Result<[[UInt8]], CertificateFault> {
    guard PEM.isText(bytes) else { return checked([bytes]) }
    return PEM.blocks(bytes).flatMap { blocks in
      if let other = blocks.first(where: { $0.label != label }) {
        return .failure(CertificateFault("expected a revocation list (\(label)), found \(quotable(other.label))"))
      }
      return checked(blocks.map(\.der))
    }
  }

  private static func checked(_ lists: [[UInt8]]) -> Result<[[UInt8]], CertificateFault> {
    for der in lists {
      guard let list = RevocationLists.decode(der) else {
        return .failure(CertificateFault("expected a revocation list, found \(DERContent.describe(der))"))
      }
      X509_CRL_free(list)
    }
    return .success(lists)
  }
}

/// Revocation lists, decoded and sorted when they are made. From then on, threads only read them.
final class RevocationLists: @unchecked Sendable {
  /// STACK_OF(X509_CRL)
  let stack: OpaquePointer

  /// nil if one of them is not a list.
  init?(_ lists: [[UInt8]]) {
    guard let stack = cossl_crl_stack_new() else { return nil }
    self.stack = stack
    for der in lists {
      guard let list = Self.decode(der), cossl_crl_stack_push(stack, list) > 0 else { return nil }
    }
    cossl_crl_stack_sort(stack)
  }

  deinit { cossl_crl_stack_free(stack) }

  /// The caller must free it.
  static func decode(_ der: [UInt8]) -> OpaquePointer? {
    withErrorsOfItsOwn { decoded(der, freedBy: X509_CRL_free) { d2i_X509_CRL(nil, $0, $1) } }
  }
}
