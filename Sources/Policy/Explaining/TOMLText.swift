// TOML as text, for commands that print configuration. Tests: TOMLTextTests.

extension String {
  /// A basic string of TOML 1.0, with its quotation marks.
  var inTOML: String {
    var output = "\""
    for scalar in unicodeScalars {
      switch scalar {
      case "\"": output += "\\\""
      case "\\": output += "\\\\"
      case _ where scalar.isUnprintable: output += scalar.escaped
      default: output.unicodeScalars.append(scalar)
      }
    }
    return output + "\""
  }

  /// A key of TOML 1.0: bare if possible.
  var asTOMLKey: String {
    let isBare = !isEmpty && utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x5f || $0 == 0x2d }
    return isBare ? self : inTOML
  }
}

extension TOMLValue.Content {
  /// The value in one line.
  var inTOML: String {
    switch self {
    case .string(let text): text.inTOML
    case .integer(let number): "\(number)"
    case .float(let number): number.isFinite ? "\(number)" : number.isNaN ? "nan" : number < 0 ? "-inf" : "inf"
    case .boolean(let value): value ? "true" : "false"
    case .dateTime(let text): text
    case .array(let values): "[\(values.map(\.content.inTOML).joined(separator: ", "))]"
    case .table(let entries):
      entries.isEmpty
        ? "{}" : "{ \(entries.map { "\($0.key.asTOMLKey) = \($0.value.content.inTOML)" }.joined(separator: ", ")) }"
    }
  }

  /// A float becomes a string: JSON cannot express infinities and NaN.
  var json: JSONText {
    switch self {
    case .string(let text), .dateTime(let text): .string(text)
    case .integer(let number): .number(Int(number))
    case .float: .string(inTOML)
    case .boolean(let value): .boolean(value)
    case .array(let values): .array(values.map(\.content.json))
    case .table(let entries): .object(entries.map { ($0.key, $0.value.content.json) })
    }
  }
}
