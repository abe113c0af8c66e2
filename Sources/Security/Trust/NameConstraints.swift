// Name constraints (RFC 5280, 4.2.1.10), where OpenSSL is too lenient. It compares the names of a path with the
// subtrees, but compares a wildcard literally, and assumes that constraints and names are well formed. These checks are
// additional and do not repeat OpenSSL's.

import Bytes

struct NameConstraints {
  let permitted: [GeneralName]
  let excluded: [GeneralName]
  /// What is wrong with the extension itself; nil if it can be applied.
  let fault: String?

  /// nil if it is not a sequence.
  init?(_ value: UnsafeBufferPointer<UInt8>) {
    guard let lists = DERReader.sequence(value) else { return nil }
    var permitted: [GeneralName] = []
    var excluded: [GeneralName] = []
    var fault = lists.isEmpty ? "neither permitted nor excluded subtrees" : nil
    for list in lists {
      guard list.tag == 0xa0 || list.tag == 0xa1, let subtrees = list.elements else {
        fault = fault ?? "what is no list of subtrees"
        continue
      }
      if subtrees.isEmpty { fault = fault ?? "an empty list of subtrees" }
      for subtree in subtrees {
        guard subtree.tag == DER.sequence, let parts = subtree.elements, let base = parts.first else {
          fault = fault ?? "a subtree that is malformed"
          continue
        }
        let name = GeneralName(base)
        // minimum is zero, which DER omits, and maximum is absent.
        let isBounded = parts.dropFirst().contains { $0.tag != 0x80 || $0.content.contains { $0 != 0 } }
        if isBounded { fault = fault ?? "a subtree with a minimum or maximum" }
        if !name.isWellFormedBase { fault = fault ?? "the malformed \(name.description)" }
        if list.tag == 0xa0 { permitted.append(name) } else { excluded.append(name) }
      }
    }
    self.permitted = permitted
    self.excluded = excluded
    self.fault = fault
  }

  /// Why `name` must be rejected even if OpenSSL's comparison accepts it; nil if there is no reason.
  func fault(of name: GeneralName) -> String? {
    let bases = (permitted + excluded).filter { $0.tag == name.tag }
    guard !bases.isEmpty else { return nil }
    switch name.kind {
    case .domain, .address, .mail, .resource, .directory:
      if !name.isWellFormed { return "the malformed \(name.description)" }
      return name.kind == .domain ? wildcardFault(of: name) : nil
    // OpenSSL rejects a name whose constrained form it does not know.
    case .other, .x400, .ediParty, .registered, nil: return nil
    }
  }

  /// `*.example.com` also means `bar.example.com`: if that is excluded, so is the wildcard.
  private func wildcardFault(of name: GeneralName) -> String? {
    guard name.content.starts(with: [0x2a, 0x2e]) else { return nil }
    let parent = name.content.dropFirst().map(\.asciiLowercased)
    for base in excluded where base.kind == .domain {
      let text = base.content.map(\.asciiLowercased)
      guard text.count > parent.count, text.suffix(parent.count) == parent[...],
        !text.dropLast(parent.count).contains(0x2e)
      else { continue }
      return "\(name.description), which covers the excluded \(base.description)"
    }
    return nil
  }
}
