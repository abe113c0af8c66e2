// Digest: the challenge that is chosen, the answers of the RFCs' own examples, and the nonces that are remembered.

import Testing

@testable import Security

@Suite struct DigestChallengeTests {
  private func chosen(_ lines: [String]) -> Result<DigestChallenge, DigestFault> {
    DigestChallenge.choose(lines.map { Array($0.utf8) })
  }

  @Test(arguments: [
    (["Digest realm=r, nonce=a, qop=\"auth\""], "a"),
    (["Digest realm=r, nonce=a, qop=\"auth\"", "Digest realm=r, nonce=b, qop=auth, algorithm=SHA-256"], "b"),
    (["Digest realm=r, nonce=b, qop=auth, algorithm=SHA-256, Digest realm=r, nonce=a, qop=\"auth\""], "b"),
    (["Digest realm=r, nonce=a, algorithm=SHA-256-sess", "Digest realm=r, nonce=b, algorithm=sha-512-256"], "b"),
    (["Digest realm=r, nonce=a", "Digest realm=r, nonce=b, qop=\"auth-int,auth\""], "b"),
    (["Basic realm=r", "Digest realm=r, nonce=a, algorithm=X", "Digest realm=r, nonce=b"], "b"),
    (["Digest realm", "Digest realm=r, nonce=a"], "a"),
    (["Digest realm=r, nonce=a", "Digest realm=r, nonce=b"], "a"),
  ])
  func theStrongestIsChosen(lines: [String], nonce: String) throws {
    #expect(try chosen(lines).get().nonce == Array(nonce.utf8))
  }

  @Test(arguments: [
    ([], DigestFault.notOffered([])),
    (["Negotiate, Basic realm=r"], .notOffered(["negotiate", "basic"])),
    (["Digest nonce=a"], .incomplete), (["Digest realm=r"], .incomplete),
    (["Digest realm=r, nonce=\(String(repeating: "n", count: 4097))"], .incomplete),
    (["Digest realm=r, nonce=n, algorithm=MD6"], .algorithm("MD6")),
    (["Digest realm=r, nonce=n, qop=\"auth-int\""], .onlyIntegrity),
    (["Digest realm=r, nonce=n, qop=\"new\""], .quality("new")),
  ])
  func whatCannotBeAnswered(lines: [String], fault: DigestFault) {
    #expect(chosen(lines) == .failure(fault))
  }

  @Test(arguments: [("stale=true", true), ("stale=TRUE", true), ("stale=\"true\"", true), ("stale=false", false)])
  func stale(parameter: String, expected: Bool) throws {
    #expect(try chosen(["Digest realm=r, nonce=n, \(parameter)"]).get().isStale == expected)
  }
}

@Suite struct DigestAnswerTests {
  private static let quality =
    "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", "
    + "nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", "
    + "opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\", algorithm="
  private static let answered =
    "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", "
    + "uri=\"/dir/index.html\", response=\"*\", algorithm=?, cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", "
    + "qop=auth, nc=00000001, opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""

  private func answers(
    _ challenge: String, user: String = "Mufasa", password: String = "Circle of Life",
    target: String = "/dir/index.html",
    clientNonce: String = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", count: Int = 1
  ) throws -> [String] {
    var nonce = DigestNonce(try DigestChallenge.choose([Array(challenge.utf8)]).get())
    return (0..<count).map { _ in
      let answer = nonce.answer(
        method: Array("GET".utf8), target: Array(target.utf8),
        DigestCredentials(username: Array(user.utf8), password: Array(password.utf8)),
        clientNonce: Array(clientNonce.utf8))
      return String(decoding: answer ?? [], as: UTF8.self)
    }
  }

  /// RFC 7616, 3.9.1; what has "-sess" is by Python's hashlib.
  @Test(arguments: [
    ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
    ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ("MD5-sess", "e783283f46242139c486a698fec7211d"),
    ("SHA-256-sess", "2fd51b3a77ad75bad6afad6003e818d767133c46d9e2749e7f5232ae1ea3efd7"),
  ])
  func theFirstExampleOfRFC7616(algorithm: String, response: String) throws {
    let expected = Self.answered.replacing("*", with: response).replacing("?", with: algorithm)
    #expect(try answers(Self.quality + algorithm) == [expected])
  }

  /// RFC 7616, 3.9.2. The hashes that it prints are of another function (its erratum 4897): these are of SHA-512/256, by Python's
  /// hashlib.
  @Test func theSecondExampleOfRFC7616() throws {
    let challenge =
      "Digest realm=\"api@example.org\", qop=\"auth\", algorithm=SHA-512-256, "
      + "nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", "
      + "opaque=\"HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS\", charset=UTF-8, userhash=true"
    let said = try answers(
      challenge, user: "J\u{e4}s\u{f8}n Doe", password: "Secret, or not?", target: "/doe.json",
      clientNonce: "NTg6RKcb9boFIAS3KrFK9BGeh+niz/sm")
    #expect(said[0].contains("username=\"793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b\""))
    #expect(said[0].contains("response=\"7a4e1192babbba02e91182d2895bfdbf7adafc6e48d4e517ca301974843d840c\""))
    #expect(said[0].hasSuffix(", userhash=true"))
  }

  /// RFC 2617, 3.5, and RFC 2069, 2.4 with its erratum.
  @Test func theExamplesOfOlderRFCs() throws {
    let challenge =
      "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", "
      + "opaque=\"5ccc069c403ebaf9f0171e9517f40e41\""
    let begin =
      "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", "
      + "uri=\"/dir/index.html\", response="
    #expect(
      try answers(challenge + ", qop=\"auth,auth-int\"", password: "Circle Of Life", clientNonce: "0a4f113b") == [
        begin + "\"6629fae49393a05397450978507c4ef1\", cnonce=\"0a4f113b\", qop=auth, nc=00000001, "
          + "opaque=\"5ccc069c403ebaf9f0171e9517f40e41\""
      ])
    #expect(
      try answers(challenge, password: "CircleOfLife") == [
        begin + "\"1949323746fe6a43ef61f9606e7febea\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\""
      ])
  }

  @Test func theCountGoesUp() throws {
    let said = try answers(Self.quality + "SHA-256-sess", count: 18)
    #expect(said[1].contains("nc=00000002"))
    #expect(said[1].contains("response=\"6bb0010aa4bdf46422a798c509ea32e256f27bd37de5cc3bdf8ed51e1d77d650\""))
    #expect(said[17].contains("nc=00000012"))
  }

  @Test(arguments: [
    ("a \"b\" \\", "", "username=\"a \\\"b\\\" \\\\\""),
    ("J\u{e4}", "", "username=\"J\u{e4}\""),
    ("J\u{e4} x", ", charset=UTF-8", "username*=UTF-8''J%C3%A4%20x"),
    ("plain", ", charset=UTF-8", "username=\"plain\""),
  ])
  func namesOfUsers(user: String, more: String, expected: String) throws {
    #expect(try answers("Digest realm=r, nonce=n\(more)", user: user)[0].hasPrefix("Digest \(expected), realm=\"r\""))
  }
}

@Suite struct NonceMemoryTests {
  private let credentials = DigestCredentials(username: [0x75], password: [0x70])

  private func place(_ port: UInt16, keeper: String = "k") -> NonceMemory.Place {
    NonceMemory.Place(keeper: keeper, isSecure: false, host: [0x61], port: port)
  }

  private func challenge(_ nonce: String) throws -> DigestChallenge {
    try DigestChallenge.choose([Array("Digest realm=r, qop=auth, nonce=\"\(nonce)\"".utf8)]).get()
  }

  private func answer(_ memory: inout NonceMemory, _ place: NonceMemory.Place) -> String? {
    memory.answer(for: place, method: [0x47], target: [0x2f], credentials).map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func aNonceIsOfItsPlaceAlone() throws {
    var memory = NonceMemory()
    memory.remember(try challenge("n"), for: place(1))
    #expect(answer(&memory, place(1))?.contains("nonce=\"n\"") ?? false)
    #expect(answer(&memory, place(1))?.contains("nc=00000002") ?? false)
    for other in [place(2), place(1, keeper: "other")] { #expect(answer(&memory, other) == nil) }
    memory.forget(place(1))
    #expect(answer(&memory, place(1)) == nil)
  }

  @Test func theNextNonceBeginsAgain() throws {
    var memory = NonceMemory()
    memory.remember(try challenge("n"), for: place(1))
    _ = answer(&memory, place(1))
    memory.take(next: Array("m".utf8), for: place(1))
    memory.take(next: Array("of nobody".utf8), for: place(2))
    memory.take(next: [UInt8](repeating: 0x61, count: 5000), for: place(1))
    let said = answer(&memory, place(1)) ?? ""
    #expect(said.contains("nonce=\"m\"") && said.contains("nc=00000001"))
    #expect(memory.count == 1)
  }

  @Test func eachAnswerHasChanceOfItsOwn() throws {
    var memory = NonceMemory()
    memory.remember(try challenge("n"), for: place(1))
    let nonces = (0..<100).compactMap { _ in
      answer(&memory, place(1))?.split(separator: ", ").first { $0.hasPrefix("cnonce") }
    }
    #expect(Set(nonces).count == 100)
    #expect(nonces.allSatisfy { $0.count == "cnonce=\"\"".count + 24 })
  }

  @Test func theLeastUsedPlaceGivesWay() throws {
    var memory = NonceMemory()
    for port in 0..<UInt16(NonceMemory.mostPlaces) { memory.remember(try challenge("n"), for: place(port)) }
    _ = answer(&memory, place(0))
    memory.remember(try challenge("n"), for: place(1000))
    #expect(memory.count == NonceMemory.mostPlaces)
    #expect(memory.knows(place(0)) && memory.knows(place(1000)) && !memory.knows(place(1)))
  }
}

@Suite struct DigestAttemptsTests {
  private static let place = NonceMemory.Place(keeper: "k", isSecure: true, host: [0x61], port: 443)
  private static let bare = "Digest realm=r, nonce=n, qop=auth"
  private static let stale = "Digest realm=r, nonce=m, qop=auth, stale=true"

  /// Each row: whether a nonce is known, the challenges that come, and what is said of each.
  @Test(
    arguments: [
      (false, [bare], [nil]),
      (false, [bare, bare], [nil, "were refused"]),
      (false, [bare, stale], [nil, nil]),
      (false, [bare, stale, stale], [nil, nil, "were refused"]),
      (true, [bare], [nil]),
      (true, [stale, bare], [nil, "were refused"]),
      (true, [stale, stale, stale], [nil, nil, "were refused"]),
      (false, ["Basic realm=r"], ["were not sent: it offers basic, not Digest"]),
      (true, [bare, "Basic realm=r"], [nil, "were not sent: it offers basic, not Digest"]),
    ] as [(Bool, [String], [String?])])
  func whatIsTried(isKnown: Bool, challenges: [String], expected: [String?]) throws {
    var nonces = NonceMemory()
    var attempts = DigestAttempts(DigestCredentials(username: [0x75], password: [0x70]), for: Self.place)
    if isKnown { nonces.remember(try DigestChallenge.choose([Array(Self.bare.utf8)]).get(), for: Self.place) }
    #expect((attempts.answer(method: [0x47], target: [0x2f], &nonces) != nil) == isKnown)
    #expect(attempts.hasAnswered == isKnown)
    for (challenge, fault) in zip(challenges, expected) {
      #expect(attempts.challenged(by: [Array(challenge.utf8)], &nonces) == fault)
      // What was refused is not sent at once by the next request.
      #expect(nonces.knows(Self.place) == (fault == nil))
      _ = attempts.answer(method: [0x47], target: [0x2f], &nonces)
    }
  }
}
