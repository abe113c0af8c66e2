// Chains as they come: from DER, and from OpenSSL's own objects, which outlive whoever handed them over.

import COpenSSL
import Security
import Testing
import TestSupport

@Suite struct PresentedChainTests {
  private typealias W = World

  @Test func decodedFromDER() throws {
    let chain = try PresentedChain.decode([W.leaf.der, W.intermediate.der]).get()
    #expect(policy().failure(chain) == nil)
    #expect(chain.summary() == certificates([W.leaf, W.intermediate]))
  }

  @Test func whatCannotBeReadIsRefused() {
    guard case .failure(let failure) = PresentedChain.decode([W.leaf.der, [0x30, 0x00]]) else {
      Issue.record("expected a failure")
      return
    }
    #expect(failure == TrustFailure(.untrusted, "certificate 2 of 2 that the server showed cannot be read"))
  }

  @Test func noneIsRefused() throws {
    let chain = try PresentedChain.decode([]).get()
    let expected = TrustFailure(.untrusted, "expected a certificate, but the server showed none")
    #expect(policy().failure(chain) == expected)
    let everything = policy { settings in
      settings.allowInvalidCertificates = true
      settings.validatesDomainName = false
    }
    #expect(everything.failure(chain) == expected)
  }

  @Test func tooManyAreRefused() {
    let many = [W.leaf] + [TestCertificate](repeating: W.intermediate, count: PresentedChain.certificateLimit)
    let expected = TrustFailure(.untrusted, "the server showed 65 certificates, of which at most 64 are read")
    #expect(policy().failure(shown(many)) == expected)
    guard case .failure(let failure) = PresentedChain.decode(many.map(\.der)) else {
      Issue.record("expected a failure")
      return
    }
    #expect(failure == expected)
    #expect(policy().failure(shown(many.dropLast())) == nil)
  }

  @Test func theContextOfACallbackIsAChain() throws {
    // As libssl fills it: the leaf as the certificate, and first among the others.
    let context = try #require(X509_STORE_CTX_new())
    defer { X509_STORE_CTX_free(context) }
    let stack = cossl_x509_stack_new()
    defer { cossl_x509_stack_free(stack) }
    for certificate in [W.leaf, W.intermediate] { _ = cossl_x509_stack_push(stack, certificate.x509) }
    X509_STORE_CTX_init(context, nil, W.leaf.x509, stack)
    let chain = PresentedChain(storeContext: context)
    #expect(chain.summary() == certificates([W.leaf, W.intermediate]))
    #expect(policy().failure(chain) == nil)
  }

  @Test func theObjectsOutliveWhoeverHandedThemOver() throws {
    var objects = [W.leaf, W.intermediate].map { certificate in
      certificate.der.withUnsafeBufferPointer { bytes in
        var pointer = bytes.baseAddress
        return d2i_X509(nil, &pointer, bytes.count)
      }
    }
    let chain = PresentedChain(retaining: objects.compactMap(\.self))
    for object in objects { X509_free(object) }
    objects = []
    #expect(policy().failure(chain) == nil)
  }

  @Test func anEvaluationLeavesOtherErrorsAloneAndNoneOfItsOwn() {
    ERR_clear_error()
    let forged = TestCertificate(
      .leaf(["DNS:\(host)"], at: now),
      issuer: TestCertificate(.authority("Intermediate", at: now).with { $0.hasKeyIdentifiers = false }))
    #expect(policy().failure(shown([forged, W.intermediate]))?.kind == .untrusted)
    #expect(ERR_peek_error() == 0)
    var pointer: UnsafePointer<UInt8>?
    _ = d2i_X509(nil, &pointer, 0)
    _ = BIO_new_file("/nowhere/at/all", "r")
    let before = ERR_peek_last_error()
    #expect(before != 0)
    #expect(policy().failure(shown([forged, W.intermediate]))?.kind == .untrusted)
    #expect(ERR_peek_last_error() == before)
    ERR_clear_error()
  }

  @Test func aPolicyThatWouldLetEverythingPassIsRefused() {
    let policy = policy { $0.allowInvalidCertificates = true }
    #expect(
      policy.failure(shown([W.leaf, W.intermediate]))
        == TrustFailure(
          .untrusted, "the policy allows invalid certificates and asks for a name, but pins nothing that vouches for it"
        ))
  }

  @Test(arguments: [
    (-61 * day, TrustFailure.Kind?.some(.notYetValid)), (-29 * day, nil), (59 * day, nil), (61 * day, .expired),
    (-now, .notYetValid),
  ])
  func theTimeIsTheOneThatIsGiven(offset: Int64, kind: TrustFailure.Kind?) {
    #expect(policy().failure(shown([W.leaf, W.intermediate]), at: now + offset)?.kind == kind)
  }
}
