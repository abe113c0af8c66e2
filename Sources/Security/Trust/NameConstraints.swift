// Name constraints (RFC 5280, 4.2.1.10) where OpenSSL looks away: it compares the names of a path with the subtrees, but
// takes a wildcard for the name that it is written as, and constraints and names for well formed. What is here comes on
// top of its comparison and repeats none of it.

import Bytes

struct NameConstraints {
  let permitted: [GeneralName]
  let excluded: [GeneralName]
  /// What is wrong with the extension itself; nil where it can be followed.
  let fault: String?

  /// nil where it is no sequence.
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
        // minimum is zero, which DER leaves out, and maximum is absent.
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

  /// Why `name` cannot be let pass, though it compares well: nil where it can.
  func fault(of name: GeneralName) -> String? {
    let bases = (permitted + excluded).filter { $0.tag == name.tag }
    guard !bases.isEmpty else { return nil }
    switch name.kind {
    case .domain, .address, .mail, .resource, .directory:
      if !name.isWellFormed { return "the malformed \(name.description)" }
      return name.kind == .domain ? wildcardFault(of: name) : nil
    // OpenSSL refuses a name of a constrained form that it does not know.
    case .other, .x400, .ediParty, .registered, nil: return nil
    }
  }

  /// `*.example.com` stands for `bar.example.com`: where that is excluded, so is the wildcard.
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
