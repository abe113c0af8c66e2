// `clients`, `proxy_users` and `programs` of a rule: what is read, whom they let through, and what is said of the rest.

import Bytes
import Testing

@testable import Policy

@Suite struct SenderConditionTests {
  static let rule = "[[rule]]\nname = \"r\"\n"
  static let me = LocalClient(userID: 7, user: "me", cgroup: [])

  private func holds(_ body: String, _ sender: Sender, isTunnel: Bool = false) throws -> Bool {
    let policy = try loaded(Self.rule + body)
    return Explanation(
      by: policy, method: isTunnel ? "CONNECT" : "GET", scheme: isTunnel ? .https : .http, host: canonical("a.example"),
      port: isTunnel ? 443 : 80, path: isTunnel ? "" : "/", isTunnel: isTunnel, Asker(sender)
    ).decision.rule == 0
  }

  /// Without the excerpts of lines.
  private func diagnostics(_ body: String) -> [String] {
    let files = DictionaryFiles(["s.toml": Self.rule + body])
    return PolicyLoader.load(path: "s.toml", files: files).diagnostics.map { diagnostic in
      String(diagnostic.description.prefix { $0 != "\n" })
    }
  }

  // MARK: clients

  static let addresses: [(String, holds: Bool)] = [
    ("10.0.3.1", true), ("10.0.3.255", true), ("10.0.4.0", false), ("::ffff:10.0.3.9", true), ("::1", true),
    ("::2", false), ("2001:db8::7", true), ("2001:db9::", false), ("127.0.0.1", false),
  ]

  @Test(arguments: addresses) func clientsAreAddressesAndBlocks(text: String, holds: Bool) throws {
    let address = try #require(IPAddress(text))
    let body = "clients = [\"10.0.3.0/24\", \"::1\", \"2001:db8::/32\"]"
    #expect(try self.holds(body, Sender(address: address)) == holds)
    #expect(try self.holds(body, Sender(client: Self.me, address: address), isTunnel: true) == holds)
  }

  /// An IPv4 address in the form of IPv6 is that IPv4 address, as in `hosts`.
  @Test(arguments: ["::ffff:10.0.3.7", "::ffff:10.0.3.0/120"]) func aMappedAddressIsTheIPv4Address(text: String) throws
  {
    let sender = Sender(address: IPAddress("10.0.3.7"))
    #expect(try holds("clients = [\"\(text)\"]\naction = \"deny\"", sender))
    #expect(try !holds("clients = [\"\(text)\"]\naction = \"deny\"", Sender(address: IPAddress("10.0.4.7"))))
  }

  @Test func anAddressThatNobodySaysIsRefusedAndNotAllowed() throws {
    let body = "clients = [\"10.0.3.0/24\"]"
    #expect(try !holds(body, Sender()))
    #expect(try holds(body + "\naction = \"deny\"", Sender()))
    #expect(try !holds(body + "\naction = \"deny\"\nenforce = false", Sender()))
  }

  static let wrongClients = [
    ("\"10.0.3.1/24\"", "'10.0.3.1/24' has bits behind the first 24; did you mean '10.0.3.0/24'?"),
    ("\"10.0.3.0/33\"", "expected a prefix length from 0 to 32 behind '/', found '33'"),
    ("\"localhost\"", "expected an address or a CIDR block, found 'localhost'"),
    ("7", "expected a string, found an integer"),
  ]

  @Test(arguments: wrongClients) func whatIsNoAddressIsSaidWhereItStands(text: String, expected: String) {
    #expect(diagnostics("clients = [\(text)]") == ["s.toml:3:12: error: 'clients' in [rule]: \(expected)"])
  }

  // MARK: proxy_users

  @Test func aProxyUserIsTheNameThatWasGiven() throws {
    let body = "proxy_users = [\"ci\", \"ada\"]\n[proxy]\ncredentials = \"ci:x\\nada:y\\nbob:z\""
    #expect(try holds(body, Sender(proxyUser: "ci")) && holds(body, Sender(proxyUser: "ada"), isTunnel: true))
    #expect(try !holds(body, Sender(proxyUser: "bob")) && !holds(body, Sender(proxyUser: "CI")))
    // Nobody comes without a name where names are asked for.
    #expect(try !holds(body, Sender(client: Self.me)))
  }

  @Test func aNameThatNobodyHasIsTold() {
    #expect(
      diagnostics("proxy_users = [\"ci\"]") == [
        "s.toml:3:15: warning: 'proxy_users' in [rule]: this matches no client: [proxy] has no 'credentials'"
      ])
    #expect(
      diagnostics("proxy_users = [\"ci\", \"eve\"]\n[proxy]\ncredentials = \"ci:x\"") == [
        "s.toml:3:22: warning: 'proxy_users' in [rule]: there is no 'eve' among the 'credentials' of [proxy]"
      ])
    #expect(
      diagnostics("proxy_users = [\"a:b\"]") == [
        "s.toml:3:16: error: 'proxy_users' in [rule]: expected a name without ':' and control characters, found 'a:b'"
      ])
  }

  // MARK: programs

  static let programs: [(String, holds: Bool)] = [
    ("/usr/bin/git", true), ("/usr/bin/git2", false), ("/usr/lib/git-core/git-remote-https", true),
    ("/usr/lib/git-core/", true), ("/usr/lib/git-core", false), ("/opt/a/bin/x", true), ("/opt/a/b/bin/x", true),
    ("/opt/bin/x", false), ("/USR/bin/git", false),
  ]
  static let someProgram = "programs = [\"/usr/bin/git\", \"/usr/lib/git-core/*\", \"/opt/*/bin/*\"]"

  @Test(arguments: programs) func programsArePathsWithWildcards(path: String, holds: Bool) throws {
    #expect(try self.holds(Self.someProgram, Sender(client: Self.me, program: path)) == holds)
    #expect(try self.holds(Self.someProgram + "\naction = \"deny\"", Sender(client: Self.me, program: path)) == holds)
  }

  @Test(arguments: [nil, "/usr/bin/git (deleted)", "/usr/bin/git (another file)"])
  func aProgramInDoubtIsRefusedAndNotAllowed(program: String?) throws {
    let sender = Sender(client: Self.me, program: program)
    #expect(try !holds(Self.someProgram, sender))
    #expect(try holds(Self.someProgram + "\naction = \"deny\"", sender))
    #expect(try holds(Self.someProgram + "\nconnect = \"deny\"", sender, isTunnel: true))
    #expect(try !holds(Self.someProgram + "\nconnect = \"deny\"", sender))
    // Whoever is not of this machine runs none of its programs.
    #expect(try !holds(Self.someProgram + "\naction = \"deny\"", Sender(program: program)))
  }

  @Test func onlyProgramsHaveThemLookedUp() throws {
    #expect(try loaded(Self.rule + Self.someProgram).identity.asksForProgram)
    #expect(try loaded(Self.rule + Self.someProgram).identity.asksForClient)
    #expect(try !loaded(Self.rule + "users = [7]").identity.asksForProgram)
    #expect(try !loaded(Self.rule + "clients = [\"::1\"]").identity.asksForClient)
  }

  static let wrongPrograms = [
    ("git", "expected the path of an executable such as \"/usr/bin/git\" or \"/usr/lib/git-core/*\", found 'git'"),
    ("/usr/bin/../git", "'/usr/bin/../git' is no path as the kernel tells it: it has no empty, '.' or '..' component"),
    ("//git", "'//git' is no path as the kernel tells it: it has no empty, '.' or '..' component"),
    ("/" + String(repeating: "*a", count: 17), "expected at most 16 '*' in one path"),
  ]

  @Test(arguments: wrongPrograms) func whatIsNoPathOfTheKernelsIsSaidWhereItStands(text: String, expected: String) {
    #expect(diagnostics("programs = [\"\(text)\"]") == ["s.toml:3:13: error: 'programs' in [rule]: \(expected)"])
  }

  /// Against the plain recursion, over a small alphabet.
  @Test func wildcardsMatchAsTheRecursionSays() {
    func matches(_ pattern: Substring.UTF8View, _ text: Substring.UTF8View) -> Bool {
      guard let first = pattern.first else { return text.isEmpty }
      if first == 0x2a {
        return matches(pattern.dropFirst(), text) || !text.isEmpty && matches(pattern, text.dropFirst())
      }
      return text.first == first && matches(pattern.dropFirst(), text.dropFirst())
    }
    func words(_ letters: [String], _ count: Int) -> [String] {
      count == 0 ? [""] : words(letters, count - 1).flatMap { word in [word] + letters.map { word + $0 } }
    }
    for pattern in Set(words(["a", "b", "*"], 4)) {
      for text in Set(words(["a", "b"], 5)) {
        #expect(
          Wildcards.match(pattern.utf8, text.utf8) == matches(pattern[...].utf8, text[...].utf8), "\(pattern) \(text)")
      }
    }
  }

  // MARK: What one rule covers of another

  static let pairs: [(wide: String, narrow: String, covers: Bool)] = [
    ("clients = [\"10.0.0.0/8\"]", "clients = [\"10.1.0.0/16\"]", true),
    ("clients = [\"10.1.0.0/16\"]", "clients = [\"10.0.0.0/8\"]", false),
    ("clients = [\"10.0.0.0/8\"]", "", false), ("", "clients = [\"10.0.0.0/8\"]", true),
    ("proxy_users = [\"a\", \"b\"]", "proxy_users = [\"a\"]", true),
    ("proxy_users = [\"a\"]", "proxy_users = [\"a\", \"b\"]", false),
    ("programs = [\"/usr/*\"]", "programs = [\"/usr/bin/*\"]", true),
    ("programs = [\"/usr/bin/*\"]", "programs = [\"/usr/*\"]", false),
    // Of a program in doubt only what refuses matches.
    ("programs = [\"/usr/*\"]", "programs = [\"/usr/bin/*\"]\naction = \"deny\"", false),
    ("programs = [\"/usr/*\"]\naction = \"deny\"", "programs = [\"/usr/bin/*\"]\naction = \"deny\"", true),
  ]

  @Test(arguments: pairs) func whatIsCoveredNeverMatches(wide: String, narrow: String, covers: Bool) {
    let text =
      "[proxy]\ncredentials = \"a:x\\nb:y\"\n[[rule]]\nname = \"wide\"\n\(wide)\n[[rule]]\nname = \"narrow\"\n\(narrow)\n"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    #expect(result.policy != nil)
    #expect(result.diagnostics.contains { "\($0)".contains("can never match") } == covers, "\(result.diagnostics)")
  }

  // MARK: What is told

  @Test func whatNobodySaidIsAssumedAndTold() throws {
    let body =
      "clients = [\"10.0.3.0/24\"]\nproxy_users = [\"ci\"]\nprograms = [\"/usr/bin/git\"]\n[proxy]\ncredentials = \"ci:x\""
    let policy = try loaded(Self.rule + body)
    func explain(_ sender: Sender) -> Explanation {
      Explanation(
        by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false,
        Asker(sender))
    }
    let open = explain(Sender())
    #expect(open.assumptions.map(\.option) == [.client, .program, .proxyUser])
    #expect(open.passedOver.map(\.text) == ["clients: expected 10.0.3.0/24, seen a client whose address is not known"])
    var sender = Sender(client: Self.me, address: IPAddress("10.0.3.1"))
    #expect(explain(sender).passedOver.map(\.text) == ["proxy_users: expected ci, seen a client without a proxy user"])
    sender.proxyUser = "ci"
    #expect(
      explain(sender).passedOver.map(\.text) == [
        "programs: expected /usr/bin/git, seen a client whose program is not known"
      ])
    sender.program = "/usr/bin/git"
    #expect(explain(sender).decision.rule == 0 && explain(sender).assumptions.isEmpty)
  }

  static let changes = [
    ("clients = [\"10.0.3.0/24\"]", "clients = [\"10.0.3.0/25\"]", "--client 10.0.3.128"),
    ("proxy_users = [\"a\"]", "proxy_users = [\"b\"]", "--proxy-user a"),
    ("programs = [\"/usr/bin/*\"]", "programs = [\"/usr/bin/git\"]", "--program /usr/bin/other"),
  ]

  @Test(arguments: changes) func aDifferenceHasAWitness(before: String, after: String, witness: String) throws {
    func policy(_ body: String) throws -> Policy {
      try loaded(
        "[proxy]\ndefault = \"deny\"\ncredentials = \"a:x\\nb:y\"\n" + Self.rule + "hosts = [\"a.example\"]\n" + body)
    }
    let comparison = PolicyComparison(try policy(before), try policy(after))
    #expect(comparison.isComplete)
    #expect(
      comparison.differences.contains { $0.kind == .newlyDenied && $0.witness.contains(witness) }, "\(comparison)")
  }
}
