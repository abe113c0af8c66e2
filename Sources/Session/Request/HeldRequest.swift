// Requests whose body a serializer rewrites ([rule.request]). The body is collected before anything is opened upstream,
// so a slow client occupies no upstream connection, and the origin gets a length.
//
//   head → (work) → nothing, or a body that is made ─────────→ connect
//             └ held → body … → (rewrite) → a new body ──────→ connect
//                       │            └ conflict → 415, or as it came
//                       └ longer than may be held → 413, or as it came, the rest of it streamed
//
// Tests: HeldRequestTests.

import Bytes
import HTTP1
import Policy
import Serialization

extension RequestSerialization {
  /// What has to be done to the body of a request with this head.
  func work(_ bytes: Span<UInt8>, _ head: borrowing RequestHead, limits: ContentLimits) -> BodyWork {
    let contentLength: UInt64? =
      switch head.framing {
      case .none, .untilClose: 0
      case .length(let length): length
      case .chunked: nil
      }
    let fields = head.fields
    let contentType = fields.only(.contentType)
    let body = RequestBodyHead(
      contentType: contentType, hasSeveralTypes: contentType == nil && fields.first(.contentType) != nil,
      contentLength: contentLength, isCoded: fields.contentCodings(bytes) != .codings([]),
      isPart: fields.contains(Self.contentRangeName, in: bytes))
    return work(bytes, method: head.method, body, limits: limits)
  }

  private static let contentRangeName = Array("content-range".utf8)
}

extension HeldBody {
  /// Rewrites the body of the request whose head is `head`, which `bytes` hold. Returns how its head changes.
  func rewrite(
    by serialization: RequestSerialization, _ head: borrowing RequestHead, _ bytes: Span<UInt8>,
    limits: ContentLimits, to body: inout ByteBuffer
  ) -> Result<RequestBodyEdits, SerializationConflict> {
    let outcome = serialization.rewrite(
      content.bytes, bytes, method: head.method, contentType: head.fields.only(.contentType), limits: limits,
      to: &body)
    switch outcome {
    case .failure(let conflict): return .failure(conflict)
    case .success(let rewritten):
      var edits = RequestBodyEdits(length: body.count, hasContinued: true)
      switch rewritten {
      case .ofSameType: edits.type = content.isEmpty ? .ifAbsent(serialization.contentType) : .asItCame
      case .ofSerializersType: edits.type = .replaced(serialization.contentType)
      }
      return .success(edits)
    }
  }

  /// Writes what was collected as it came. `isChunked`: in its transfer coding, and `isWhole`: with the end of it;
  /// content still to come follows on its own.
  func writeAsItCame(isChunked: Bool, isWhole: Bool, to out: inout ByteBuffer) {
    guard isChunked else { return out.append(contentsOf: content) }
    out.appendChunk(content.bytes)
    if !isWhole { return }
    out.append("0\r\n")
    out.append(contentsOf: trailers)
    out.append("\r\n")
  }
}

extension ExchangeRecord {
  /// Records that a body cannot be rewritten. Returns the error; nil if the rule lets the request pass unchanged.
  mutating func note(
    _ conflict: SerializationConflict, _ serialization: RequestSerialization, enforces: Bool
  ) -> Problem? {
    let kind: Problem.Kind = conflict.subject == .size ? .requestBodyTooLarge : .unsupportedBody
    let problem = Problem(kind, conflict.detail)
    answer.serializer = serialization.format.rawValue
    if serialization.onConflict == .reject {
      if enforces { return problem }
      found.report = kind
    }
    answer.violation = kind
    found.finding = Finding(problem)
    return nil
  }
}
