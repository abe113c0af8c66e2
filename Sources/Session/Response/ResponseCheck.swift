// What a rule checks of responses ([rule.response]): the verdict on a head, and on content that was held for it.
//
//   head → (judge) → accepted ──────────────────────────────→ passes as any other
//             │  └ rejected → 502
//             └ held → content … → (judge) → accepted, rewritten or annotated → leaves whole
//                        │             └ rejected → 502
//                        └ longer than may be held → 502, or passes unchecked with what came first
//
// Nothing of a response whose content is held is sent before the verdict. Tests: HeldResponseTests.

import Bytes
import HTTP1
import Policy
import Serialization

/// Responses that are not the final answer but a step towards it, or a part of it. NSURLSession does not show the first
/// two to its serializers.
enum Unjudged: String {
  /// 3xx with Location.
  case redirect
  /// 401 with WWW-Authenticate, and 407.
  case challenge
  /// 206 (RFC 9110, 15.3.7).
  case part
}

/// What to do with a response after its head.
enum HeadVerdict {
  case passes(ResponseHeadEdits)
  case rejected(HeadJudgement)
  case holds(HeadJudgement)
}

struct ResponseCheck {
  let checks: ResponseSerialization
  let enforces: Bool
  let limits: ContentLimits

  /// nil: the response is not checked.
  init?(_ ruling: Ruling) {
    guard let checks = ruling.checks else { return nil }
    self.checks = checks
    enforces = ruling.enforces
    limits = ruling.contentLimits
  }

  /// Judges the head of a response to `request`. `hasContent`: content follows.
  func judge(
    _ head: borrowing ResponseHead, _ bytes: Span<UInt8>, to request: borrowing RequestSide, hasContent: Bool
  ) -> HeadVerdict {
    // RFC 9110, 15.4.5: 304 stands for what the client has already; 1xx and 204 have no content.
    if head.status == 204 { return .passes(ResponseHeadEdits()) }
    if head.status == 304 {
      var edits = ResponseHeadEdits()
      // RFC 9110, 15.4.5: it has the entity tag of the content that the client has, which may have been rewritten.
      edits.isRewritten = checks.removesNulls
      return .passes(edits)
    }
    if let unjudged = unjudged(head, bytes, asksForPart: request.asksForPart) {
      return .passes(ResponseHeadEdits(unjudged: unjudged))
    }
    let judgement = checks.judgeHead(
      status: head.status, contentType: head.fields.only(.contentType),
      repeated: head.fields.repeated(.contentType), in: bytes, hasContent: hasContent)
    if rejects(judgement.violations) { return .rejected(judgement) }
    if judgement.looksAtContent { return .holds(judgement) }
    var edits = ResponseHeadEdits()
    edits.violations = judgement.violations
    if judgement.removesNulls, request.traits.contains(.isHead) {
      // The head does not describe the content that GET would bring.
      edits.isRewritten = true
      edits.framing = .unsaid
    }
    return .passes(edits)
  }

  /// Why the response is not checked; nil: it is.
  private func unjudged(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>, asksForPart: Bool) -> Unjudged? {
    switch head.status {
    // A part that nobody asked for is a response like any other.
    case 206: checks.parts == .pass && asksForPart ? .part : nil
    case 301, 302, 303, 307, 308: Self.leadsElsewhere(bytes, head.fields) ? .redirect : nil
    case 401: head.fields.first(.wwwAuthenticate) == nil ? nil : .challenge
    case 407: .challenge
    default: nil
    }
  }

  /// Whether clients follow it, so that its content is shown to no one.
  private static func leadsElsewhere(_ bytes: Span<UInt8>, _ fields: FieldSection) -> Bool {
    fields.lines.contains { bytes.equals($0.name, ignoringCase: "location") && !$0.value.isEmpty }
  }

  /// Whether one of them calls for rejection, under an enforced rule.
  func rejects(_ violations: [ResponseViolation]) -> Bool { enforces && refused(violations) != nil }

  /// The first violation that the rule rejects, were it enforced; nil: none.
  func refused(_ violations: [ResponseViolation]) -> ResponseViolation? {
    violations.first { checks.reaction(to: $0.subject) == .reject }
  }

  /// The problem that lists all violations and is named after the first.
  static func problem(
    of violations: [ResponseViolation], in upstream: Problem.Upstream, from destination: String
  ) -> Problem {
    let sentences = violations.map(\.sentence).joined(separator: "; ")
    return Problem(
      violations.first.map { Problem.Kind($0.subject) } ?? .malformedContent,
      "The response of \(destination): \(sentences).", violations: violations,
      receivedStatus: upstream.status, upstream: upstream)
  }

  /// The encoding in the Content-Type of a response; nil if no serializer uses it.
  func charset(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>) -> [UInt8]? {
    guard checks.readsText, let value = head.fields.only(.contentType) else { return nil }
    return ResponseSerialization.charset(of: bytes.extracting(value))
  }
}
