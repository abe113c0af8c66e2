// WWW-Authenticate as servers write it: what is read, and what is nothing.

import Testing

@testable import Security

@Suite struct AuthenticationChallengeTests {
  /// `scheme token68` or `scheme name=value name=value`, a line each.
  private func text(_ challenges: [AuthenticationChallenge]) -> [String] {
    challenges.map { challenge in
      let words = challenge.parameters.map { "\($0.name)=\(String(decoding: $0.value, as: UTF8.self))" }
      let token = challenge.token68.map { [String(decoding: $0, as: UTF8.self)] } ?? []
      return ([challenge.scheme] + token + words).joined(separator: " ")
    }
  }

  @Test(arguments: [
    ("Basic realm=\"x\"", ["basic realm=x"]),
    ("Negotiate", ["negotiate"]),
    ("Negotiate, NTLM ,Basic realm=x", ["negotiate", "ntlm", "basic realm=x"]),
    ("Digest realm", ["digest realm"]), ("Digest realm=", ["digest realm="]),
    ("Negotiate YIIab+/c==, Basic realm=x", ["negotiate YIIab+/c==", "basic realm=x"]),
    (",, Basic realm=\"a\", ,charset=\"UTF-8\",", ["basic realm=a charset=UTF-8"]),
    ("Digest REALM = \"a, b=c\" ,nonce\t=\tn", ["digest realm=a, b=c nonce=n"]),
    ("Digest realm=\"a \\\"b\\\\\", nonce=\"\"", ["digest realm=a \"b\\ nonce="]),
    // RFC 9110, 11.6.1.
    (
      "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\"",
      ["basic realm=simple", "newauth realm=apps type=1 title=Login to \"apps\""]
    ),
    ("", []), ("  ", []),
  ])
  func linesThatAreRead(line: String, expected: [String]) {
    #expect(text(AuthenticationChallenge.read(Array(line.utf8))) == expected)
  }

  @Test(arguments: [
    "realm=\"x\"", "Digest realm =", "Digest realm=\"x", "Digest realm=\"x\\", "Digest realm=\"x\"y",
    "Digest realm=x realm=y", "Digest realm=x, realm=y", "Digest realm=x, Realm=y", "Basic@x", "Digest \"x\"",
    "Negotiate abc, x=y", "Digest a=b; c=d", "Basic realm=\"x\" Digest realm=\"y\"", "Digest realm==x",
    "Digest/1.0 x=y",
  ])
  func linesThatBreakTheGrammar(line: String) {
    #expect(AuthenticationChallenge.read(Array(line.utf8)).isEmpty)
  }

  @Test func thereAreLimits() {
    let schemes = Array(repeating: "Basic", count: AuthenticationChallenge.mostChallenges)
    #expect(AuthenticationChallenge.read(Array(schemes.joined(separator: ",").utf8)).count == schemes.count)
    #expect(AuthenticationChallenge.read(Array((schemes + ["Basic"]).joined(separator: ",").utf8)).isEmpty)
    let names = (1...AuthenticationChallenge.mostParameters).map { "p\($0)=1" }
    #expect(AuthenticationChallenge.read(Array("Digest \(names.joined(separator: ","))".utf8)).count == 1)
    #expect(AuthenticationChallenge.read(Array("Digest q=1,\(names.joined(separator: ","))".utf8)).isEmpty)
  }

  @Test func parametersAlone() {
    let read = AuthenticationChallenge.readParameters(Array("nextnonce=\"a b\", qop=auth".utf8))
    #expect(read?["nextnonce"] == Array("a b".utf8) && read?["qop"] == Array("auth".utf8))
    #expect(AuthenticationChallenge.readParameters(Array("nextnonce".utf8)) == nil)
  }
}
