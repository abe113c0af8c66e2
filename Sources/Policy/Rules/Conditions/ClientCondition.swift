// `clients`: addresses from which programs connect.

import Bytes

struct ClientCondition: ListCondition {
  static let setting = KnownSetting(
    "clients", .list(.text), sentence: "Addresses and CIDR blocks from which clients connect.")
  static let subject = ConditionSubject.sender

  let blocks: [AddressBlock]
  var values: [AddressBlock] { blocks }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> ClientCondition? {
    let blocks = reading.elements(setting, of: "addresses and CIDR blocks").compactMap {
      element -> (value: AddressBlock, setting: Setting)? in
      guard let text = reading.string(element) else { return nil }
      if let block = AddressBlock(text) { return (block.unmapped, element) }
      reading.error(
        element, AddressBlockText.fault(text) ?? "expected an address or a CIDR block, found \(text.quoted)")
      return nil
    }
    reading.warnOfRepetition(blocks) { "\($0)".quoted }
    return ClientCondition(blocks: blocks.map(\.value))
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    guard let address = facts.sender.address else { return context.isStrict }
    return holds(for: address)
  }

  /// An IPv4 client may arrive on an IPv6 socket (RFC 4291, 2.5.5.2).
  private func holds(for address: IPAddress) -> Bool {
    let mapped = address.mappedIPv4
    return blocks.contains { block in block.contains(address) || mapped.map(block.contains) ?? false }
  }

  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    guard let other = narrow.conditions[Self.self] else { return false }
    return other.blocks.allSatisfy { narrow in
      blocks.contains { $0.length <= narrow.length && $0.contains(narrow.address) }
    }
  }

  /// Two blocks are either nested or disjoint.
  func isApart(from other: Rule.Conditions) -> Bool {
    guard let other = other[Self.self] else { return false }
    return !blocks.contains { one in
      other.blocks.contains { $0.contains(one.address) || one.contains($0.address) }
    }
  }

  var expected: String { blocks.map { "\($0)" }.abridged }

  static func seen(_ request: SeenRequest) -> String {
    request.asker.sender.address.map { "\($0)" } ?? "a client whose address is not known"
  }

  static let option: SenderOption? = .client
  static func isSaid(by asker: Asker) -> Bool { asker.sender.address != nil }
  func fit(_ asker: inout Asker) { asker.sender.address = blocks.first?.address }
  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(clients: blocks) }
}
