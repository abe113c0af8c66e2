// The digest of a security policy: SHA-256 over all its settings. Two policies have the same digest only if their
// settings are the same. Every item is preceded by its length and every list by its count, so no two sequences of items
// give the same bytes. Sets are written in a fixed order. Tests: PolicyDigestTests changes one setting at a time.

extension SecurityPolicy.Settings {
  /// 32 bytes.
  var digest: [UInt8] {
    var text = DigestText()
    text.append("sallyport security policy 2")
    text.append(pinSet) { $0.append($1) }
    text.append(allowInvalidCertificates)
    text.append(validatesDomainName)
    text.append(anchors) { $0.append($1.digest) }
    text.append(profile) { $0.append($1.rawValue) }
    text.append(minimumVersion.rawValue)
    text.append(maximumVersion.rawValue)
    text.append(ciphers) { $0.append($1.text) }
    text.append(serverName) { $0.append($1) }
    // The certificate identifies the key. The key itself never goes into anything that may be shown.
    text.append(clientIdentity) { $0.append($1.certificates.map(\.der)) }
    text.append(revocation)
    return sha256(text.bytes)
  }
}

private struct DigestText {
  private(set) var bytes: [UInt8] = []

  /// Eight bytes, the highest first.
  mutating func append(_ number: UInt64) {
    for shift in stride(from: 56, through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
    }
  }

  mutating func append(_ item: [UInt8]) {
    append(UInt64(item.count))
    bytes += item
  }

  mutating func append(_ text: String) { append(Array(text.utf8)) }
  mutating func append(_ flag: Bool) { bytes.append(flag ? 1 : 0) }

  mutating func append(_ list: [[UInt8]]) {
    append(UInt64(list.count))
    for item in list { append(item) }
  }

  mutating func append(set: [[UInt8]]) { append(Set(set).sorted { $0.lexicographicallyPrecedes($1) }) }

  mutating func append<Value>(_ value: Value?, _ write: (inout DigestText, Value) -> Void) {
    append(value != nil)
    if let value { write(&self, value) }
  }

  mutating func append(_ set: PinSet) {
    append(set.name)
    append(set.mode.rawValue)
    append(set: set.keys.map(\.bytes))
    append(set: set.certificates.map(\.der))
    append(set.expires) { $0.append(UInt64(bitPattern: $1)) }
    append(set.failsOnExpiry)
    append(set.enforce)
  }

  mutating func append(_ revocation: Revocation) {
    switch revocation {
    case .none: append("none")
    case .staple: append("staple")
    case .crl(let lists):
      append("crl")
      append(set: lists)
    }
  }
}
