// TRACE, and what a rule adds. The answer to it is the request as the last recipient got it, so what a rule adds would come
// back to the client, credentials too: Apache as Debian ships it does so.
//
// Nothing that a rule adds goes with such a method, and a rule that carries a secret refuses it (405). That does not depend on
// `enforce`: it is no judgement of the request, but what keeps the secret. Tests: EchoMethodTests.

import Bytes

/// Methods that are answered with the request itself.
public enum EchoMethod {
  /// RFC 9110, 9.3.8, and TRACK, which is the same to Microsoft's servers. Case-sensitive, as methods are.
  public static func includes(_ method: Span<UInt8>) -> Bool {
    guard method.count == 5 else { return false }
    return method.equals(0..<5, "TRACE") || method.equals(0..<5, "TRACK")
  }
}

extension RequestPolicy {
  /// Whether it adds what the client is not to know: a field or a parameter from a secret, or one whose name says so.
  var carriesSecret: Bool {
    digest != nil || !secretParameters.isEmpty
      || (fields.set + fields.defaults).contains { $0.isSecret || SecretWords.covers($0.name.span.string) }
  }
}

extension Route {
  /// Whether a parent is sent credentials, which come back where it is the last recipient (Max-Forwards).
  var carriesSecret: Bool { parent?.credentials != nil }
}

extension Policy {
  /// Whether the answer to a method that is answered with the request would hold a secret of the rule's.
  func carriesSecret(_ decision: Decision) -> Bool {
    request(of: decision).carriesSecret
      || decision.rule.map { rules[$0].routes.contains(where: \.carriesSecret) } ?? false
  }

  /// The methods that a request of `decision` may have instead, for Allow (RFC 9110, 10.2.1).
  public func otherMethods(of decision: Decision) -> [String] {
    let methods = decision.rule.map { rules[$0].conditions.methods } ?? []
    return (methods.isEmpty ? FieldSyntax.knownMethods : methods)
      .filter { !EchoMethod.includes(Array($0.utf8).span) && $0 != "CONNECT" }
  }
}
