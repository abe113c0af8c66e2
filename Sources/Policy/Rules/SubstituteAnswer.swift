// `answer` of [rule.response]: what a client gets when its origin fails, in place of the proxy's error or the origin's
// response.
//
// The file is read together with the configuration, once even if many rules name it. So no loop ever waits for a disk,
// and what is sent is what was there when the policy was checked. Tests: SubstituteAnswerTests.

import Bytes
import Serialization

/// A file that is sent when an origin fails.
public struct SubstituteAnswer: Sendable {
  /// When it is sent.
  public enum Occasion: String, Sendable, CaseIterable {
    /// No response arrived: name, connection, time, or an early end. Certificates and pins do not count: a peer that
    /// cannot prove to be the origin is not a failing origin.
    case unreachable
    /// The origin answered with a status of 500 to 599.
    case serverError = "5xx"
    /// The checks of [rule.response] reject the response.
    case violation
  }

  /// As the configuration names it, relative to the working directory.
  public let path: String
  /// Value of Content-Type.
  public let type: String
  public let content: [UInt8]
  /// In the order of the file.
  public let occasions: [Occasion]

  public init(path: String, type: String, content: [UInt8], occasions: [Occasion]) {
    self.path = path
    self.type = type
    self.content = content
    self.occasions = occasions
  }

  /// `offline.html (text/html, 120B) where unreachable, 5xx`.
  var text: String {
    let occasions = occasions.map(\.rawValue).joined(separator: ", ")
    return "\(path) (\(type), \(Quantity.size.text(Int64(content.count)))) where \(occasions)"
  }

  var json: JSONText {
    .object([
      ("file", .string(path)), ("type", .string(type)), ("bytes", .number(content.count)),
      ("when", .array(occasions.map { .string($0.rawValue) })),
    ])
  }
}

// MARK: Reading

extension SubstituteAnswer {
  /// Largest file in bytes: a page with embedded pictures. Each client that receives it needs a copy.
  static let largestBytes = 1 << 20
  static let standardOccasions: [Occasion] = [.unreachable, .serverError]

  /// nil after an error.
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> SubstituteAnswer? {
    guard let table = reading.table(setting) else { return nil }
    var given: [String: Setting] = [:]
    var file: (path: String, content: [UInt8])? = nil
    var type: String? = nil
    var occasions: [Occasion]? = standardOccasions
    for setting in table.settings {
      given[setting.key] = setting
      switch setting.key {
      case "file": file = answer(at: setting, by: reading)
      case "type": type = contentType(setting, by: reading)
      case "when": occasions = Self.occasions(setting, by: reading)
      default: reading.unread(setting, of: .answer)
      }
    }
    for key in ["file", "type"] where given[key] == nil {
      reading.error(setting, "expected a table with 'file' and 'type', found none of the name \(key.quoted)")
    }
    guard let file, let type, let occasions else { return nil }
    return SubstituteAnswer(path: file.path, type: type, content: file.content, occasions: occasions)
  }

  private static func answer(at setting: Setting, by reading: ConfigurationReading) -> (path: String, content: [UInt8])?
  {
    guard let text = reading.string(setting), let path = reading.path(setting, text) else { return nil }
    if reading.secretUse == .unneeded { return (path, []) }
    switch reading.files.read(path, limit: largestBytes) {
    case .success(let content): return (path, content)
    case .failure(let fault):
      if fault.isDenied, reading.secretUse == .inspected {
        reading.note(setting, "not readable by you: the service reads it (\(path.quoted): \(fault))")
        return (path, [])
      }
      reading.error(setting, "cannot read \(path.quoted), of \(largestBytes >> 20) MiB at most: \(fault)")
      return nil
    }
  }

  /// One type, with its parameters.
  private static func contentType(_ setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let text = reading.string(setting) else { return nil }
    let bytes = Array(text.utf8)
    guard MediaType(bytes.span) != nil, bytes.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }), !text.hasPrefix("*") else {
      reading.error(setting, "expected a media type such as \"text/html; charset=utf-8\", found \(text.quoted)")
      return nil
    }
    return text
  }

  private static func occasions(_ setting: Setting, by reading: ConfigurationReading) -> [Occasion]? {
    guard let elements = reading.array(setting, of: "strings") else { return nil }
    let read = elements.compactMap { element in
      reading.choice(element, Occasion.self).map { (value: $0, setting: element) }
    }
    if elements.isEmpty {
      reading.error(setting, "an empty list never sends the file; leave the key out for [\"unreachable\", \"5xx\"]")
    }
    reading.warnOfRepetition(read) { $0.rawValue.quoted }
    var seen: Set<Occasion> = []
    let distinct = read.map(\.value).filter { seen.insert($0).inserted }
    return distinct.isEmpty ? nil : distinct
  }
}
