// [rule.response] and [defaults.response]: reading the keys, and how the first inherits from the second, key by key,
// including those of `on_violation`. SerializerChecks checks combinations of keys. Tests: ResponseReadingTests.

import Bytes
import Serialization

/// A response table. A class: most of 10,000 rules have none.
final class ResponseDraft {
  typealias Kind = ResponseSerialization.Kind
  typealias Reaction = ResponseSerialization.Reaction

  /// The position of each key. A key without a value below has an error, which has been reported.
  private(set) var settings: [String: Setting] = [:]
  private(set) var kinds: [Kind]? = nil
  private(set) var acceptableStatus: StatusRanges? = nil
  private(set) var acceptableTypes: [MediaRange]? = nil
  private(set) var removesNulls: Bool? = nil
  private(set) var onStatus: Reaction? = nil
  private(set) var onContentType: Reaction? = nil
  private(set) var onBody: Reaction? = nil
  private(set) var onOversize: Reaction? = nil
  private(set) var malformed: ResponseSerialization.Malformed? = nil
  private(set) var parts: ResponseSerialization.Parts? = nil
  private(set) var jsonRoot: ResponseSerialization.JSONRoot? = nil
  private(set) var answer: SubstituteAnswer? = nil
  /// Whether it checks responses. `malformed` is only about heads, and `answer` about missing responses.
  private(set) lazy var judges =
    settings.isEmpty || settings.keys.contains { $0 != "malformed" && $0 != "answer" }

  init() {}

  /// The effective settings of a rule with `own` that inherits the rest.
  init(_ own: ResponseDraft, inheriting inherited: ResponseDraft) {
    settings = own.settings.merging(inherited.settings) { own, _ in own }
    kinds = own.kinds ?? inherited.kinds
    acceptableStatus = own.acceptableStatus ?? inherited.acceptableStatus
    acceptableTypes = own.acceptableTypes ?? inherited.acceptableTypes
    removesNulls = own.removesNulls ?? inherited.removesNulls
    onStatus = own.onStatus ?? inherited.onStatus
    onContentType = own.onContentType ?? inherited.onContentType
    onBody = own.onBody ?? inherited.onBody
    onOversize = own.onOversize ?? inherited.onOversize
    malformed = own.malformed ?? inherited.malformed
    parts = own.parts ?? inherited.parts
    jsonRoot = own.jsonRoot ?? inherited.jsonRoot
    answer = own.answer ?? inherited.answer
    judges = own.judges || inherited.judges
  }

  /// nil if neither table exists: responses are not checked.
  static func merged(_ own: ResponseDraft?, inheriting inherited: ResponseDraft?) -> ResponseDraft? {
    guard let own, let inherited else { return own ?? inherited }
    return ResponseDraft(own, inheriting: inherited)
  }

  /// As a value. Made once: rules that only inherit share it.
  private(set) lazy var serialization: ResponseSerialization = {
    let standard = ResponseSerialization()
    return ResponseSerialization(
      kinds: kinds ?? standard.kinds, acceptableStatus: acceptableStatus ?? standard.acceptableStatus,
      acceptableTypes: acceptableTypes, removesNulls: removesNulls ?? standard.removesNulls,
      onStatus: onStatus ?? standard.onStatus, onContentType: onContentType ?? standard.onContentType,
      onBody: onBody ?? standard.onBody, onOversize: onOversize ?? standard.onOversize,
      malformed: malformed ?? standard.malformed, parts: parts ?? standard.parts,
      jsonRoot: jsonRoot ?? standard.jsonRoot, judges: judges)
  }()
}

extension ResponseDraft {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> ResponseDraft {
    let draft = ResponseDraft()
    for setting in table.settings {
      draft.settings[setting.key] = setting
      switch setting.key {
      case "serializer": draft.kinds = serializers(setting, by: reading)
      case "acceptable_status": draft.acceptableStatus = statusRanges(setting, by: reading)
      case "acceptable_content_types": draft.acceptableTypes = mediaRanges(setting, by: reading)
      case "remove_nulls": draft.removesNulls = reading.boolean(setting)
      case "on_violation": reading.table(setting).map { draft.readReactions($0, by: reading) }
      case "oversize": draft.onOversize = reading.choice(setting, ResponseSerialization.Reaction.self)
      case "malformed": draft.malformed = reading.choice(setting, ResponseSerialization.Malformed.self)
      case "parts": draft.parts = reading.choice(setting, ResponseSerialization.Parts.self)
      case "json": draft.jsonRoot = reading.choice(setting, ResponseSerialization.JSONRoot.self)
      case "answer": draft.answer = SubstituteAnswer.read(setting, by: reading)
      default: reading.unread(setting, of: .response)
      }
    }
    return draft
  }

  private func readReactions(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in table.settings {
      switch setting.key {
      case "status": onStatus = reading.choice(setting, ResponseSerialization.Reaction.self)
      case "content_type": onContentType = reading.choice(setting, ResponseSerialization.Reaction.self)
      case "body": onBody = reading.choice(setting, ResponseSerialization.Reaction.self)
      default: reading.unread(setting, of: .violation)
      }
    }
  }

  // MARK: Serializers

  /// One serializer, or a list: the first that accepts a response decides.
  private static func serializers(_ setting: Setting, by reading: ConfigurationReading) -> [ResponseSerialization.Kind]?
  {
    switch setting.value.content {
    case .string: return reading.choice(setting, ResponseSerialization.Kind.self).map { [$0] }
    case .array(let values):
      guard !values.isEmpty else {
        let words = ResponseSerialization.Kind.allCases.map(\.rawValue).alternativesInTOML
        reading.error(setting, "expected at least one of \(words)")
        return nil
      }
      let kinds = values.map(setting.element).compactMap { element in
        reading.choice(element, ResponseSerialization.Kind.self).map { (value: $0, setting: element) }
      }
      reading.warnOfRepetition(kinds) { $0.rawValue.quoted }
      var seen: Set<ResponseSerialization.Kind> = []
      let distinct = kinds.map(\.value).filter { seen.insert($0).inserted }
      return distinct.isEmpty ? nil : distinct
    default:
      reading.expected("a string or an array of strings", setting)
      return nil
    }
  }

  // MARK: Status

  private static func statusRanges(_ setting: Setting, by reading: ConfigurationReading) -> StatusRanges? {
    guard let elements = reading.array(setting, of: "status codes and ranges") else { return nil }
    guard !elements.isEmpty else {
      reading.error(setting, "an empty list accepts no response; leave the key out for \"\(StatusRanges.successful)\"")
      return nil
    }
    var accepted: [ClosedRange<Int>] = []
    for element in elements {
      guard let range = statusRange(element, by: reading) else { continue }
      if accepted.contains(where: { $0.contains(range.lowerBound) && $0.contains(range.upperBound) }) {
        reading.warning(element, "\(StatusRanges([range])) is accepted already")
      }
      accepted.append(range)
    }
    return StatusRanges(accepted)
  }

  private static func statusRange(_ setting: Setting, by reading: ConfigurationReading) -> ClosedRange<Int>? {
    switch setting.value.content {
    case .integer: return reading.integer(setting, in: StatusRanges.legal).map { $0...$0 }
    case .string(let text): return statusRange(setting, text, by: reading)
    default:
      reading.expected(statusExpectation, setting)
      return nil
    }
  }

  private static let statusExpectation =
    "a status code such as 304 or \"304\", or a range such as \"200-299\", "
    + "from \(StatusRanges.legal.lowerBound) to \(StatusRanges.legal.upperBound)"

  private static func statusRange(_ setting: Setting, _ text: String, by reading: ConfigurationReading) -> ClosedRange<
    Int
  >? {
    let codes = text.utf8.split(separator: 0x2d, omittingEmptySubsequences: false).map { status(String($0)) }
    if codes.count == 1, let code = codes[0] {
      return code...code
    } else if codes.count == 2, let first = codes[0], let last = codes[1] {
      if first <= last { return first...last }
      reading.error(setting, "the range \(text.quoted) is empty; did you mean '\(last)-\(first)'?")
    } else {
      reading.error(setting, "expected \(statusExpectation), found \(text.quoted)")
    }
    return nil
  }

  /// Three digits (RFC 9110, 15).
  private static func status(_ text: String?) -> Int? {
    guard let text, text.utf8.count == 3, text.utf8.allSatisfy(\.isASCIIDigit), let code = Int(text),
      StatusRanges.legal.contains(code)
    else { return nil }
    return code
  }

  // MARK: Types

  private static func mediaRanges(_ setting: Setting, by reading: ConfigurationReading) -> [MediaRange]? {
    guard let elements = reading.array(setting, of: "strings") else { return nil }
    guard !elements.isEmpty else {
      reading.error(setting, "an empty list accepts no response; write [\"*/*\"] to accept any type")
      return nil
    }
    let ranges = elements.compactMap { element -> (value: MediaRange, setting: Setting)? in
      guard let text = reading.string(element) else { return nil }
      switch MediaRange.parse(text) {
      case .success(let range): return (range, element)
      case .failure(let fault):
        reading.error(element, fault.description)
        return nil
      }
    }
    reading.warnOfRepetition(ranges) { $0.description.quoted }
    return ranges.map(\.value)
  }
}
