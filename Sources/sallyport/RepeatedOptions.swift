// Options that may be given more than once, such as `ca init --permit a.example --permit b.example`.

extension Arguments {
  /// Takes every `--name value` and `--name=value` out of `arguments`, up to `--`, and answers the values in order.
  static func take(every name: String, from arguments: inout [String]) throws -> [String] {
    let end = arguments.firstIndex(of: "--") ?? arguments.count
    var values: [String] = []
    var rest: [String] = []
    var options = arguments[..<end]
    while let argument = options.popFirst() {
      if argument == "--\(name)" {
        guard let value = options.popFirst() else { throw UsageError(message: "'--\(name)' needs a value") }
        values.append(value)
      } else if argument.hasPrefix("--\(name)=") {
        values.append(String(argument.dropFirst("--\(name)=".count)))
      } else {
        rest.append(argument)
      }
    }
    arguments = rest + arguments[end...]
    return values
  }
}
