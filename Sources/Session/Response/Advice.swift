// What a client that the policy refuses can do about it, or its person: why, whom to ask, which rule would allow it, and what
// became of the question to an operator. The same facts on every way: plain, CONNECT, inside a tunnel, on HTTP/2.
// Tests: AdviceTests, test_ask.py.

import Bytes
import Policy

/// What is said with a refusal beside its sentence.
public struct Advice: Sendable, Equatable {
  /// What became of a question to an operator.
  public enum Question: String, Sendable {
    case denied, unanswered
    /// As many questions wait as may, or nobody can be asked.
    case unasked
  }

  /// The stable word of the decision: `default-denies`.
  public let reason: Decision.Reason
  /// Whom the client may ask (`contact` of [proxy]).
  public let contact: String?
  /// Text of the narrowest rule that would allow the request; nil: none should be written, or none would do.
  public let rule: String?
  /// nil: no operator was to be asked.
  public var question: Question? = nil
}

extension Exchange {
  /// Of the refusal by `decision`.
  func advice(on decision: Decision, question: Advice.Question? = nil) -> Advice {
    Advice(
      reason: decision.reason, contact: policy.configuration.proxy.contact,
      rule: decision.isMendable ? narrowestRule(for: decision) : nil, question: question)
  }

  /// How the tunnel is to be treated is said where the rule that asks says it.
  private func narrowestRule(for decision: Decision) -> String? {
    let connect = decision.rule.flatMap { policy.rules[$0].connect }
    guard let question else { return nil }
    let rule = question.request.rule(connect: asked.contains(.isTunnel) ? connect : nil, path: question.path)
    guard let text = rule?.text else { return nil }
    return decision.placed(text, before: self.rule?.name)
  }
}

extension Decision {
  /// The text of a rule that allows what this denies, with a word on where it has to stand: before the rule that denies.
  public func placed(_ text: String, before rule: String?) -> String {
    switch reason {
    case .ruleDenies, .connectDenied, .portNotListed: "# Before rule '\(rule ?? "")', which denies it.\n" + text
    default: text
    }
  }

  /// Whether a rule beside those there are would allow what it refuses.
  public var isMendable: Bool {
    switch reason {
    case .defaultDeny, .ruleDenies, .connectDenied, .portNotListed, .ruleAsks, .operatorDenies, .unanswered: true
    default: false
    }
  }
}

/// What an exchange keeps of its request, where it is refused or an operator is asked.
public final class Question: Sendable {
  public let request: AskedRequest
  /// The path itself; nil of a tunnel.
  let path: String?

  init(_ request: AskedRequest, path: String?) {
    self.request = request
    self.path = path
  }
}

extension ByteBuffer {
  /// Members of a JSON object, each with a comma before it.
  mutating func append(_ advice: Advice) {
    append(",\"reason\":\"")
    append(advice.reason.rawValue)
    append("\"")
    if let question = advice.question {
      append(",\"ask\":\"")
      append(question.rawValue)
      append("\"")
    }
    if let contact = advice.contact {
      append(",\"contact\":")
      append(json: contact)
    }
    if let rule = advice.rule {
      append(",\"allow\":")
      append(json: rule)
    }
  }

  /// Lines for people, each with a line end before it.
  mutating func append(textOf advice: Advice) {
    append("\nreason: ")
    append(advice.reason.rawValue)
    if let contact = advice.contact {
      append("\nask: ")
      append(contact)
    }
    if let rule = advice.rule {
      append("\nThis rule would allow it:")
      for line in rule.split(separator: "\n") {
        append("\n  ")
        append(String(line))
      }
    }
  }
}
