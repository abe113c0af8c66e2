// `methods`: compared exactly, in upper and lower case (RFC 9110, 9.1).

import Bytes

struct MethodCondition: ListCondition {
  static let setting = KnownSetting("methods", .list(.text), sentence: "Methods, in the exact spelling.")
  static let subject = ConditionSubject.request

  let methods: [String]
  var values: [String] { methods }
  /// The methods as bytes, so matching needs no conversion.
  private let bytes: [[UInt8]]

  init(_ methods: [String]) {
    self.methods = methods
    bytes = methods.map { Array($0.utf8) }
  }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> MethodCondition? {
    let methods = methods(reading.elements(setting, of: "strings"), by: reading) { element in
      reading.warning(
        element, "methods are not looked at when a tunnel is asked for; 'connect' says what is done with one")
    }
    return MethodCondition(methods)
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    for method in bytes where method.span.equals(facts.method) { return true }
    return false
  }

  var expected: String { methods.abridged }
  static func seen(_ request: SeenRequest) -> String { request.method }
  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(methods: methods) }
}

extension MethodCondition {
  /// The methods in a list. `warnOfConnect` is called for CONNECT, which is not the method of a request.
  static func methods(_ elements: [Setting], by reading: ConfigurationReading, warnOfConnect: (Setting) -> Void)
    -> [String]
  {
    let methods = elements.compactMap { element -> (value: String, setting: Setting)? in
      guard let method = reading.string(element) else { return nil }
      guard FieldSyntax.isToken(method) else {
        reading.error(element, "expected a method (a token, RFC 9110, 9.1), found \(method.quoted)")
        return nil
      }
      if method == "CONNECT" { warnOfConnect(element) }
      if method.contains("*") {
        reading.warning(
          element, "a method has no wildcards, and none is named \(method.quoted); without this key, any is meant")
      }
      warnOfCase(method, element, by: reading)
      return (method, element)
    }
    reading.warnOfRepetition(methods) { $0.quoted }
    return methods.map(\.value)
  }

  private static func warnOfCase(_ method: String, _ setting: Setting, by reading: ConfigurationReading) {
    guard !FieldSyntax.knownMethods.contains(method), FieldSyntax.knownMethods.contains(method.uppercased())
    else { return }
    reading.warning(setting, "methods are case-sensitive; did you mean '\(method.uppercased())'?")
  }
}
