// The decision table: what a path must satisfy beyond OpenSSL's checks, one row per requirement. `inPublic` and
// `inPrivate` give the certificates of a path that it applies to. BR are the CA/Browser Forum's baseline requirements
// for TLS server certificates.
//
// What decides where a requirement applies:
// - A certificate below an anchor must meet what its authority must meet. In "public" that is RFC 5280 and the BR. In
//   "private" it is what RFC 5280 forbids, except for what usual private authorities (OpenSSL, easy-rsa, step-ca,
//   mkcert, AD CS) write. They omit key identifiers, write basicConstraints that are not critical, and put no purpose
//   into leaves.
// - An anchor is trusted because an operator or the system decided so, not because of its contents. It is only rejected
//   if it contradicts itself, or if OpenSSL and other programs could read a path in two ways. No row rejects a root of
//   Debian's bundle.
// - A trusted leaf is its own anchor. In "private", no requirement on authorities applies to it.
// - Name constraints need not be critical: BR 7.1.2.5.2 makes an exception from RFC 5280, and private authorities omit
//   the mark too. They are enforced either way.
// What OpenSSL rejects itself has no row: critical key identifiers, unknown critical extensions, keyUsage without a
// bit, and an intermediate without CA:TRUE or keyCertSign.

import COpenSSL

extension PathRequirement {
  static let all: [PathRequirement] = form + extensions + authority + leaf + identifiers + keys + constraints

  // MARK: The certificate itself

  private static let form: [PathRequirement] = [
    PathRequirement(
      name: "version of extensions", section: "RFC 5280, 4.1.2.1", inPublic: .all, inPrivate: .all,
      expected: "version 3, because there are extensions",
      found: { $0.facts.extensions.isEmpty ? nil : version($0.facts) }),
    PathRequirement(
      name: "version", section: "BR 7.1.1", inPublic: .all, inPrivate: .none, expected: "version 3",
      found: { version($0.facts) }),
    PathRequirement(
      name: "serial number, length", section: "RFC 5280, 4.1.2.2", inPublic: [.leaf, .between, .trustedLeaf],
      inPrivate: [.leaf, .between, .trustedLeaf],
      expected: "a serial number that is not negative and has at most 20 octets",
      found: { SerialNumber($0.facts).lengthFault }),
    PathRequirement(
      name: "serial number, zero", section: "RFC 5280, 4.1.2.2", inPublic: [.leaf, .between, .trustedLeaf],
      inPrivate: [.leaf, .between], expected: "a positive serial number",
      found: { SerialNumber($0.facts).isZero ? "zero" : nil }),
    PathRequirement(
      name: "signature algorithm", section: "RFC 5280, 4.1.1.2", inPublic: .all, inPrivate: .all,
      expected: "the same signature algorithm inside and beside the signature",
      found: { cossl_signature_algorithms_agree($0.facts.certificate) ? nil : "two" }),
    PathRequirement(
      name: "issuer", section: "RFC 5280, 4.1.2.4 and 4.1.2.6", inPublic: .all, inPrivate: [.leaf, .between, .anchor],
      expected: "the name of an issuer, which each authority must have",
      found: { isEmpty(X509_get_issuer_name($0.facts.certificate)) ? "an empty one" : nil }),
    PathRequirement(
      name: "encoding of the validity", section: "RFC 5280, 4.1.2.5", inPublic: [.leaf, .between, .trustedLeaf],
      inPrivate: [.leaf, .between],
      expected: "times as UTCTime through 2049 and as GeneralizedTime from 2050 on",
      found: { timeFault($0.facts.certificate) }),
  ]

  // MARK: Extensions

  private static let extensions: [PathRequirement] = [
    PathRequirement(
      name: "repeated extensions", section: "RFC 5280, 4.2", inPublic: .all, inPrivate: .all,
      expected: "each extension once", found: { $0.facts.duplicate.map { "two of \($0)" } }),
    PathRequirement(
      name: "malformed extensions", section: "RFC 5280, 4.2", inPublic: .all, inPrivate: .all,
      expected: "extensions that are well formed", found: { $0.facts.malformedExtension }),
    PathRequirement(
      name: "policy constraints", section: "RFC 5280, 4.2.1.11", inPublic: .all, inPrivate: .all,
      expected: "policyConstraints that are critical", found: { uncritical(NID_policy_constraints, $0) }),
    PathRequirement(
      name: "inhibitAnyPolicy", section: "RFC 5280, 4.2.1.14", inPublic: .all, inPrivate: .all,
      expected: "inhibitAnyPolicy that is critical", found: { uncritical(NID_inhibit_any_policy, $0) }),
    PathRequirement(
      name: "path length without authority", section: "RFC 5280, 4.2.1.9", inPublic: .all,
      inPrivate: [.leaf, .between, .anchor],
      expected: "no path length, because it may not sign certificates", found: { pathLengthFault($0.facts) }),
  ]

  // MARK: Authorities

  private static let authority: [PathRequirement] = [
    PathRequirement(
      name: "basic constraints of an authority", section: "RFC 5280, 4.2.1.9", inPublic: .authorities,
      inPrivate: .between, expected: "basicConstraints with CA:TRUE",
      found: { $0.facts.isAuthority ? nil : $0.facts[NID_basic_constraints] == nil ? "none" : "CA:FALSE" }),
    PathRequirement(
      name: "critical basic constraints", section: "RFC 5280, 4.2.1.9", inPublic: .authorities, inPrivate: .none,
      expected: "basicConstraints that are critical",
      found: { isOldAnchor($0) ? nil : uncritical(NID_basic_constraints, $0) }),
    PathRequirement(
      name: "key usage of an authority", section: "RFC 5280, 4.2.1.3", inPublic: .between, inPrivate: .none,
      expected: "keyUsage with keyCertSign", found: { $0.facts.signsCertificates ? nil : "none" }),
    PathRequirement(
      name: "purposes of a root", section: "BR 7.1.2.1.2", inPublic: .anchor, inPrivate: .none,
      expected: "no extKeyUsage in a root",
      found: { $0.facts.isSelfNamed && $0.facts[NID_ext_key_usage] != nil ? "one" : nil }),
  ]

  // MARK: The leaf

  private static let leaf: [PathRequirement] = [
    PathRequirement(
      name: "leaf that is an authority", section: "BR 7.1.2.7.8", inPublic: .leaves, inPrivate: .leaf,
      expected: "a server's certificate that is not an authority's",
      found: { $0.facts.isAuthority ? "basicConstraints with CA:TRUE" : nil }),
    PathRequirement(
      name: "leaf that signs certificates", section: "RFC 5280, 4.2.1.9", inPublic: .leaves, inPrivate: .leaf,
      expected: "a server's certificate that may not sign others",
      found: { $0.facts.signsCertificates ? "keyUsage with keyCertSign" : nil }),
    PathRequirement(
      name: "name constraints in a leaf", section: "RFC 5280, 4.2.1.10", inPublic: .leaves, inPrivate: .leaf,
      expected: "no nameConstraints, which are for authorities",
      found: { $0.facts[NID_name_constraints] == nil ? nil : "some" }),
    PathRequirement(
      name: "purposes of a leaf", section: "BR 7.1.2.7.6", inPublic: .leaves, inPrivate: .none,
      expected: "extKeyUsage", found: { $0.facts[NID_ext_key_usage] == nil ? "none" : nil }),
    PathRequirement(
      name: "purpose serverAuth", section: "RFC 5280, 4.2.1.12", inPublic: .leaves, inPrivate: .leaves,
      expected: "serverAuth in extKeyUsage",
      found: { ($0.facts.purposes?.contains(NID_server_auth) ?? true) ? nil : "other purposes alone" }),
    PathRequirement(
      name: "purposes beside serverAuth", section: "BR 7.1.2.7.10", inPublic: .leaves, inPrivate: .none,
      expected: "serverAuth and clientAuth alone among the common purposes", found: { purposeFault($0.facts) }),
    PathRequirement(
      name: "critical purposes", section: "BR 7.1.2.7.6", inPublic: .leaves, inPrivate: .none,
      expected: "extKeyUsage that is not critical",
      found: { $0.facts[NID_ext_key_usage]?.isCritical == true ? "a critical one" : nil }),
    PathRequirement(
      name: "names of a leaf", section: "BR 7.1.2.7.12", inPublic: .leaves, inPrivate: .none,
      expected: "subjectAltName", found: { $0.facts[NID_subject_alt_name] == nil ? "none" : nil }),
    PathRequirement(
      name: "critical names of a leaf without a subject", section: "RFC 5280, 4.1.2.6", inPublic: .leaves,
      inPrivate: .leaf, expected: "a critical subjectAltName, because the subject is empty",
      found: {
        isEmpty(X509_get_subject_name($0.facts.certificate)) ? uncritical(NID_subject_alt_name, $0) : nil
      }),
    PathRequirement(
      name: "critical names of a leaf with a subject", section: "BR 7.1.2.7.12", inPublic: .leaves, inPrivate: .none,
      expected: "a subjectAltName that is not critical, because there is a subject",
      found: {
        let isCritical = $0.facts[NID_subject_alt_name]?.isCritical == true
        return isCritical && !isEmpty(X509_get_subject_name($0.facts.certificate)) ? "a critical one" : nil
      }),
    PathRequirement(
      name: "malformed names of a leaf", section: "BR 7.1.2.7.12", inPublic: .leaves, inPrivate: .none,
      expected: "names of hosts that are well formed in subjectAltName", found: { nameFault($0.facts) }),
    PathRequirement(
      name: "common name of a leaf", section: "BR 7.1.4.3", inPublic: .leaves, inPrivate: .none,
      expected: "a common name that is one of subjectAltName, as it is written there",
      found: { CommonName.fault($0.facts) }),
  ]

  // MARK: Identifiers of keys

  private static let identifiers: [PathRequirement] = [
    PathRequirement(
      name: "subject key identifier", section: "RFC 5280, 4.2.1.2", inPublic: .authorities, inPrivate: .none,
      expected: "subjectKeyIdentifier, because it signs certificates",
      found: { $0.facts[NID_subject_key_identifier] != nil || isOldAnchor($0) ? nil : "none" }),
    PathRequirement(
      name: "authority key identifier", section: "RFC 5280, 4.2.1.1", inPublic: .all, inPrivate: .none,
      expected: "authorityKeyIdentifier with a keyIdentifier",
      found: { place in
        // A root may omit it.
        if [.anchor, .trustedLeaf].contains(place.position) && place.facts.isSelfNamed { return nil }
        return X509_get0_authority_key_id(place.facts.certificate) == nil ? "none" : nil
      }),
    PathRequirement(
      name: "authority key identifier of a root", section: "BR 7.1.2.1.3", inPublic: [.anchor, .trustedLeaf],
      inPrivate: .none, expected: "an authorityKeyIdentifier, if any, that names the root itself",
      found: { RootIdentifier.fault($0.facts) }),
  ]

  // MARK: Keys

  private static let keys: [PathRequirement] = [
    PathRequirement(
      name: "kind of key", section: "BR 6.1.5", inPublic: .all, inPrivate: .all,
      expected: "an RSA or EC key, or EdDSA of a private authority", found: { PublicKeyKind($0.facts).algorithmFault }),
    PathRequirement(
      name: "EdDSA and RSASSA-PSS keys", section: "BR 7.1.3.1", inPublic: .all, inPrivate: .none,
      expected: "a key for RSA or ECDSA", found: { PublicKeyKind($0.facts).uncommonFault }),
    PathRequirement(
      name: "size of RSA keys", section: "BR 6.1.5", inPublic: .all, inPrivate: .all,
      expected: "a modulus of at least 2048 bits whose number can be divided by eight",
      found: { PublicKeyKind($0.facts).sizeFault }),
    PathRequirement(
      name: "named curves", section: "RFC 5480, 2.1.1", inPublic: .all, inPrivate: .all,
      expected: "an EC key on a curve that is named", found: { PublicKeyKind($0.facts).describedCurveFault }),
    PathRequirement(
      name: "public curves", section: "BR 6.1.5", inPublic: .all, inPrivate: .none,
      expected: "a key on P-256, P-384 or P-521", found: { PublicKeyKind($0.facts).uncommonCurveFault }),
  ]

  // MARK: Name constraints

  private static let constraints: [PathRequirement] = [
    PathRequirement(
      name: "form of name constraints", section: "RFC 5280, 4.2.1.10", inPublic: .authorities,
      inPrivate: .authorities, expected: "nameConstraints that are well formed",
      found: { $0.facts.nameConstraints?.fault }),
    PathRequirement(
      name: "names under constraints", section: "RFC 5280, 4.2.1.10", inPublic: [.leaf, .between],
      inPrivate: [.leaf, .between], expected: "names within the nameConstraints of its authorities",
      found: { constraintFault($0) }, isOfPath: true),
  ]
}
