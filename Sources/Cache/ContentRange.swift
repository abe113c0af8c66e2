// Content-Range of a partial answer (RFC 9110, 14.4). Tests: ContentRangeTests.

import Bytes

/// `bytes 0-499/1234`: which bytes, out of how many.
public struct ContentRange: Sendable, Equatable {
  public let bytes: Range<UInt64>
  /// nil: the origin does not know the total (`*`).
  public let total: UInt64?

  public init(_ bytes: Range<UInt64>, of total: UInt64?) {
    self.bytes = bytes
    self.total = total
  }

  /// The range of a partial answer; nil if the field is missing or occurs more than once.
  public init?(_ fields: MessageFields) {
    guard let value = fields.only("content-range") else { return nil }
    self.init(value)
  }

  /// nil if the unit is not bytes, if it names no bytes, or if it contradicts itself.
  public init?(_ value: [UInt8]) {
    let text = value.span
    guard text.count > 6, text.equals(0..<6, ignoringCase: "bytes ") else { return nil }
    guard let dash = value.firstIndex(of: 0x2d), let slash = value.firstIndex(of: 0x2f), dash < slash,
      let first = Decimal.number(value[6..<dash]), let last = Decimal.number(value[(dash + 1)..<slash]), first <= last
    else { return nil }
    let complete = value[(slash + 1)...]
    if complete.elementsEqual([0x2a]) {
      self.init(first..<last + 1, of: nil)
      return
    }
    guard let total = Decimal.number(complete), last < total else { return nil }
    self.init(first..<last + 1, of: total)
  }
}

enum Decimal {
  /// The most digits in a byte count. More digits would exceed any file.
  private static let mostDigits = 18

  /// nil if `digits` is empty, too long, or contains anything but digits.
  static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
    guard !digits.isEmpty, digits.count <= mostDigits, digits.allSatisfy({ $0.isASCIIDigit }) else { return nil }
    return digits.reduce(UInt64(0)) { $0 * 10 + UInt64($1 & 0xf) }
  }
}
