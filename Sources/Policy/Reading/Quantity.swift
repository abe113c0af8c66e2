// Durations and sizes in the configuration: a whole number and a unit in one string.

/// A unit and its value in the smallest one.
private struct Unit {
  let name: String
  let worth: Int64
}

/// A kind of quantity: how it is read and how it is written.
public struct Quantity: Sendable {
  let noun: String
  let example: String
  /// From the smallest unit to the largest.
  private let units: [Unit]

  /// In milliseconds.
  static let duration = Quantity(
    noun: "a duration", example: "10s",
    units: [
      Unit(name: "ms", worth: 1), Unit(name: "s", worth: 1000), Unit(name: "m", worth: 60_000),
      Unit(name: "h", worth: 3_600_000), Unit(name: "d", worth: 86_400_000),
    ])

  /// In bytes.
  static let size = Quantity(
    noun: "a size", example: "64KiB",
    units: [
      Unit(name: "B", worth: 1), Unit(name: "KiB", worth: 1 << 10), Unit(name: "MiB", worth: 1 << 20),
      Unit(name: "GiB", worth: 1 << 30),
    ])

  private init(noun: String, example: String, units: [Unit]) {
    self.noun = noun
    self.example = example
    self.units = units
  }

  /// `a duration such as "10s" (units ms, s, m, h, d)`
  var expectation: String {
    "\(noun) such as \"\(example)\" (units \(units.map(\.name).joined(separator: ", ")))"
  }

  /// A regular expression (ECMA 262) for texts of this kind.
  var pattern: String { "^[0-9]+(\(units.map(\.name).joined(separator: "|")))$" }

  /// The value of a text, or nil if it is none. Values too large for 64 bits become the largest one.
  func parse(_ text: String) -> Int64? {
    let digits = text.utf8.prefix { (0x30...0x39).contains($0) }
    guard !digits.isEmpty, let unit = units.first(where: { $0.name == text.dropFirst(digits.count) }) else {
      return nil
    }
    guard let number = Int64(String(text.prefix(digits.count))) else { return Int64.max }
    let (value, isTooLarge) = number.multipliedReportingOverflow(by: unit.worth)
    return isTooLarge ? Int64.max : value
  }

  /// A duration as written in the configuration, in milliseconds; nil if `text` is none.
  public static func milliseconds(_ text: String) -> Int64? { duration.parse(text) }

  /// The shortest text that reads back: with the largest unit that leaves no remainder.
  func text(_ value: Int64) -> String {
    let unit = units.last { value != 0 && value % $0.worth == 0 } ?? units[0]
    return "\(value / unit.worth)\(unit.name)"
  }
}

extension Quantity {
  /// `100ms to 10m`
  func text(_ range: ClosedRange<Int64>) -> String { "\(text(range.lowerBound)) to \(text(range.upperBound))" }
}

extension ConfigurationReading {
  func quantity(_ setting: Setting, _ quantity: Quantity, in range: ClosedRange<Int64>) -> Int64? {
    guard case .string(let text) = setting.value.content else {
      expected(quantity.expectation, setting)
      return nil
    }
    guard let value = quantity.parse(text) else {
      error(setting, "expected \(quantity.expectation), found \(text.quoted)")
      return nil
    }
    if range.contains(value) { return value }
    error(setting, "expected \(quantity.noun) from \(quantity.text(range)), found \(text.quoted)")
    return nil
  }
}
