// What a refused client, or its user, can do: the reason, whom to ask, which rule would allow the request, and what
// became of the question to an operator. The same facts in every form: plain, CONNECT, inside a tunnel, on HTTP/2.
// Tests: AdviceTests, test_ask.py.

import Bytes
import Policy

/// What a refusal contains beside its sentence.
public struct Advice: Sendable, Equatable {
  /// What became of a question to an operator.
  public enum Question: String, Sendable {
    case denied, unanswered
    /// Too many questions are waiting, or no operator can be asked.
    case unasked
  }

  /// The stable word of the decision: `default-denies`.
  public let reason: Decision.Reason
  /// Whom the client may ask (`contact` of [proxy]).
  public let contact: String?
  /// Text of the narrowest rule that would allow the request; nil: none should be written, or none would help.
  public let rule: String?
  /// nil: no operator was to be asked.
  public var question: Question? = nil
}

extension Decision {
  /// The text of a rule that allows the request, with a remark on its place if it must come before the rule that
  /// denies.
  public func placed(_ text: String, before rule: String?) -> String {
    switch reason {
    case .ruleDenies, .connectDenied, .portNotListed: "# Before rule '\(rule ?? "")', which denies it.\n" + text
    default: text
    }
  }

  /// Whether an additional rule would allow the refused request.
  public var isMendable: Bool {
    switch reason {
    case .defaultDeny, .ruleDenies, .connectDenied, .portNotListed, .ruleAsks, .operatorDenies, .unanswered: true
    default: false
    }
  }
}

/// What an exchange keeps of its request if it is refused or an operator is asked.
public final class Question: Sendable {
  public let request: AskedRequest
  /// The path itself; nil for a tunnel.
  let path: String?

  init(_ request: AskedRequest, path: String?) {
    self.request = request
    self.path = path
  }
}

extension Advice {
  /// Writes members of a JSON object, each preceded by a comma.
  func writeMembers(to out: inout ByteBuffer) {
    out.append(",\"reason\":\"")
    out.append(reason.rawValue)
    out.append("\"")
    if let question {
      out.append(",\"ask\":\"")
      out.append(question.rawValue)
      out.append("\"")
    }
    if let contact {
      out.append(",\"contact\":")
      out.append(json: contact)
    }
    if let rule {
      out.append(",\"allow\":")
      out.append(json: rule)
    }
  }

  /// Writes lines for people, each preceded by a line end.
  func writeLines(to out: inout ByteBuffer) {
    out.append("\nreason: ")
    out.append(reason.rawValue)
    if let contact {
      out.append("\nask: ")
      out.append(contact)
    }
    if let rule {
      out.append("\nThis rule would allow it:")
      for line in rule.split(separator: "\n") {
        out.append("\n  ")
        out.append(String(line))
      }
    }
  }
}
