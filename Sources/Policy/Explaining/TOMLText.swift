// TOML as text, for what commands print in the form of the configuration. Tests: TOMLTextTests.

extension String {
  /// A basic string of TOML 1.0, between its quotation marks.
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

  /// A key of TOML 1.0: bare where it can be.
  var asTOMLKey: String {
    let isBare = !isEmpty && utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x5f || $0 == 0x2d }
    return isBare ? self : inTOML
  }
}
