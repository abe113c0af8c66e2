// TRACE, and what a rule adds. Its response is the request as the last recipient got it. So what a rule adds would
// return to the client, credentials included: Apache does this in Debian's configuration.
//
// Nothing that a rule adds is sent with such a method, and a rule that carries a secret refuses it (405). That does not
// depend on `enforce`: it does not judge the request, it protects the secret. Tests: EchoMethodTests.

import Bytes

/// Methods whose response is the request itself.
public enum EchoMethod {
  /// RFC 9110, 9.3.8, and TRACK, its equivalent on Microsoft's servers. Case-sensitive, like all methods.
  public static func includes(_ method: Span<UInt8>) -> Bool {
    guard method.count == 5 else { return false }
    return method.equals(0..<5, "TRACE") || method.equals(0..<5, "TRACK")
  }
}

extension RequestPolicy {
  /// Whether it adds something that the client must not learn: a field or a parameter from a secret, or one with a
  /// telling name.
  var carriesSecret: Bool {
    digest != nil || !secretParameters.isEmpty
      || (fields.set + fields.defaults).contains { $0.isSecret || SecretWords.covers($0.name.span.string) }
  }
}

extension Policy {
  /// Whether the response to an echo method would contain a secret of the rule.
  func carriesSecret(_ decision: Decision) -> Bool {
    request(of: decision).carriesSecret
      || decision.rule.map { rules[$0].routes.contains(where: \.carriesSecret) } ?? false
  }

  /// The methods that a request of `decision` may use instead, for Allow (RFC 9110, 10.2.1).
  public func otherMethods(of decision: Decision) -> [String] {
    let methods = decision.rule.map { rules[$0].conditions.values(of: MethodCondition.self) } ?? []
    return (methods.isEmpty ? FieldSyntax.knownMethods : methods)
      .filter { !EchoMethod.includes(Array($0.utf8).span) && $0 != "CONNECT" }
  }
}
