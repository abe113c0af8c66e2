// Cipher strings: what OpenSSL accepts, the two parts of it, and words that it would pass over.

import Testing

@testable import Security

@Suite struct CipherListTests {
  @Test(arguments: [
    "DEFAULT", "HIGH:!aNULL", "ECDHE+AESGCM", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256",
    "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256", "ECDHE+AESGCM:TLS_AES_256_GCM_SHA384:!RC4",
    "ECDHE+CHACHA20, ECDHE+AESGCM @STRENGTH",
  ])
  func accepted(text: String) {
    #expect(throws: Never.self) { try CipherList(text) }
  }

  @Test(arguments: [
    ("", "expected ciphers, found none"),
    (" :,", "expected ciphers, found none"),
    ("HIGH\0", "expected ciphers, found none"),
    (
      "DHE-RSA-AES256-GCM-SHA384",
      "expected a cipher without finite-field Diffie-Hellman, found none in 'DHE-RSA-AES256-GCM-SHA384'"
    ),
    ("NONSENSE", "OpenSSL knows no cipher 'NONSENSE'"),
    ("HIGH:NONSENSE", "OpenSSL knows no cipher 'NONSENSE'"),
    ("TLS_NONSENSE", "OpenSSL knows no TLS 1.3 suite 'TLS_NONSENSE'"),
    ("HIGH:TLS_AES_128_GCM_SHA257", "OpenSSL knows no TLS 1.3 suite 'TLS_AES_128_GCM_SHA257'"),
    (
      "ECDHE+AESGCM:!ECDHE",
      "OpenSSL finds no cipher with certificates and encryption in 'ECDHE+AESGCM:!ECDHE'"
    ),
    // Without a certificate nobody is asked for a verdict.
    ("aNULL:@SECLEVEL=0", "OpenSSL finds no cipher with certificates and encryption in 'aNULL:@SECLEVEL=0'"),
    ("eNULL:@SECLEVEL=0", "OpenSSL finds no cipher with certificates and encryption in 'eNULL:@SECLEVEL=0'"),
  ])
  func refused(text: String, fault: String) {
    #expect(throws: CipherList.Fault(description: fault)) { try CipherList(text) }
  }

  @Test(arguments: [
    ("DEFAULT", "DEFAULT", nil),
    ("TLS_AES_128_GCM_SHA256", nil, "TLS_AES_128_GCM_SHA256"),
    ("A:TLS_B,C TLS_D", "A:C", "TLS_B:TLS_D"),
    ("", nil, nil),
  ])
  func parts(text: String, list: String?, suites: String?) {
    #expect(CipherList.parts(text).list == list)
    #expect(CipherList.parts(text).suites == suites)
  }

  @Test func theNumbersAreThoseOfTheCiphers() throws {
    #expect(try CipherList("ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256").numbers == [0xc02f, 0x1301])
    let suites = try CipherList("TLS_AES_128_GCM_SHA256").numbers
    #expect(suites.contains(0x1301) && !suites.contains(0x1302) && suites.contains(0xc02f))
    // Finite-field Diffie-Hellman (DHE-RSA-AES128-GCM-SHA256) is never offered.
    #expect(try !CipherList("DEFAULT").numbers.contains(0x009e))
  }
}
