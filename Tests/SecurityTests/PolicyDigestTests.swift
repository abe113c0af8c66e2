// The digest of a policy: one setting changed, another digest; nothing changed, the same.

import Security
import Testing
import TestSupport

@Suite struct PolicyDigestTests {
  typealias Change = @Sendable (inout SecurityPolicy.Settings) -> Void

  private static func set(_ change: (inout PinSet) -> Void) -> PinSet {
    var set = PinSet(name: "payments")
    set.keys = [pin(of: World.leaf)]
    change(&set)
    return set
  }

  private static func identity(_ certificate: TestCertificate) -> ClientIdentity? {
    try? ClientIdentity.read(certificates: certificate.der, key: certificate.key.der).get()
  }

  /// Every one says something else than every other.
  private static let changes: [(String, Change)] = [
    ("nothing", { _ in }),
    ("allow_invalid_certificates", { $0.allowInvalidCertificates = true }),
    ("validates_domain_name", { $0.validatesDomainName = false }),
    ("minimum version", { $0.minimumVersion = .tls13 }),
    ("maximum version", { $0.maximumVersion = .tls12 }),
    ("both versions", { settings in (settings.minimumVersion, settings.maximumVersion) = (.tls11, .tls12) }),
    ("ciphers", { $0.ciphers = try? CipherList("DEFAULT") }),
    ("other ciphers", { $0.ciphers = try? CipherList("HIGH") }),
    ("server name", { $0.serverName = "DEFAULT" }),
    ("anchors", { $0.anchors = anchors([World.root]) }),
    ("other anchors", { $0.anchors = anchors([World.privateRoot]) }),
    ("both anchors", { $0.anchors = anchors([World.root, World.privateRoot]) }),
    ("no anchors at all", { $0.anchors = anchors([]) }),
    ("profile public", { $0.profile = .public }),
    ("profile private", { $0.profile = .private }),
    ("anchors with another profile", { $0.anchors = anchors([World.root]).with(profile: .public) }),
    ("client certificate", { $0.clientIdentity = identity(World.leaf) }),
    ("another client certificate", { $0.clientIdentity = identity(World.privateLeaf) }),
    ("staple", { $0.revocation = .staple }),
    ("a list", { $0.revocation = .crl([[1, 2]]) }),
    ("two lists of the same bytes", { $0.revocation = .crl([[1], [2]]) }),
    ("no lists", { $0.revocation = .crl([]) }),
    ("pin set", { $0.pinSet = set { _ in } }),
    ("mode", { $0.pinSet = set { $0.mode = .certificate } }),
    ("mode none", { $0.pinSet = set { $0.mode = .none } }),
    ("another key", { $0.pinSet = set { $0.keys = [pin(of: World.root)] } }),
    ("two keys", { $0.pinSet = set { $0.keys.append(pin(of: World.root)) } }),
    ("no keys", { $0.pinSet = set { $0.keys = [] } }),
    ("certificate", { $0.pinSet = set { $0.certificates = certificates([World.leaf]) } }),
    ("expiry", { $0.pinSet = set { $0.expires = 0 } }),
    ("another expiry", { $0.pinSet = set { $0.expires = 1 } }),
    ("on_expiry", { $0.pinSet = set { $0.failsOnExpiry = false } }),
    ("enforce", { $0.pinSet = set { $0.enforce = false } }),
    ("another set of the same pins", { $0.pinSet = PinSet(name: "other") }),
  ]

  @Test func everySettingCounts() {
    var seen: [[UInt8]: String] = [:]
    for (name, change) in Self.changes {
      let digest = policy { change(&$0) }.digest
      #expect(digest.count == 32)
      if let other = seen.updateValue(name, forKey: digest) { Issue.record("\(name) is as \(other)") }
    }
  }

  @Test func theSameIsTheSame() {
    for (name, change) in Self.changes {
      #expect(policy { change(&$0) }.digest == policy { change(&$0) }.digest, "\(name)")
    }
  }

  @Test func orderAndRepetitionDoNotCount() {
    let one = policy { $0.pinSet = Self.set { $0.keys = [pin(of: World.root), pin(of: World.leaf)] } }
    let other = policy {
      $0.pinSet = Self.set { $0.keys = [pin(of: World.leaf), pin(of: World.root), pin(of: World.leaf)] }
    }
    #expect(one.digest == other.digest)
    #expect(anchors([World.root, World.leaf]).digest == anchors([World.leaf, World.root, World.leaf]).digest)
  }
}
