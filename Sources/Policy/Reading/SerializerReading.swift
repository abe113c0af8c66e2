// The request serializer of [rule.request] and [defaults.request]: reading its keys, and how the first table inherits
// from the second: key by key, and parameter by parameter. SerializerChecks checks combinations of keys.
// Tests: SerializerReadingTests.

import Serialization

/// The settings of a request table for parameters and bodies. A class: most of 10,000 rules have none.
final class SerializerDraft {
  /// The position of each key. A key without a value below has an error, which has been reported.
  private(set) var settings: [String: Setting] = [:]
  private(set) var format: RequestSerialization.Format? = nil
  private(set) var parameters: ParameterDraft? = nil
  private(set) var methodsInURI: [String]? = nil
  private(set) var queryStyle: QueryStyleDraft? = nil
  private(set) var encoding: EncodingDraft? = nil
  private(set) var transcodes: Bool? = nil
  private(set) var onConflict: RequestSerialization.ConflictReaction? = nil

  init() {}

  /// The effective settings of a rule with `own` that inherits the rest.
  init(_ own: SerializerDraft, inheriting inherited: SerializerDraft) {
    settings = own.settings.merging(inherited.settings) { own, _ in own }
    format = own.format ?? inherited.format
    parameters = (own.parameters ?? ParameterDraft()).inheriting(inherited.parameters ?? ParameterDraft())
    methodsInURI = own.methodsInURI ?? inherited.methodsInURI
    queryStyle = (own.queryStyle ?? QueryStyleDraft()).inheriting(inherited.queryStyle ?? QueryStyleDraft())
    encoding = own.encoding ?? inherited.encoding
    transcodes = own.transcodes ?? inherited.transcodes
    onConflict = own.onConflict ?? inherited.onConflict
  }

  /// nil if neither table has any.
  static func merged(_ own: SerializerDraft?, inheriting inherited: SerializerDraft?) -> SerializerDraft? {
    guard let own, let inherited else { return own ?? inherited }
    return SerializerDraft(own, inheriting: inherited)
  }

  /// As a value; nil if it leaves every request unchanged. Made once: rules that only inherit share it.
  private(set) lazy var serialization: RequestSerialization? = {
    let format = format ?? .http
    let serialization = RequestSerialization(
      format: format, parameters: parameters?.parameters.map(\.entry) ?? [],
      methodsInURI: methodsInURI ?? RequestSerialization.standardMethodsInURI,
      transcodes: transcodes ?? false && format != .http, onConflict: onConflict ?? .reject,
      style: queryStyle?.style ?? QueryStyle(), encoding: encoding?.encoding)
    return serialization.isNothing ? nil : serialization
  }()

  /// Form names of the secret parameters.
  private(set) lazy var secretNames: Set<String> =
    parameters?.parameters.reduce(into: []) { $0.formUnion($1.secretNames) } ?? []
}

extension SerializerDraft {
  /// Reads a key of a request table that no other reader handles.
  static func read(_ setting: Setting, into draft: inout SerializerDraft?, by reading: ConfigurationReading) {
    let serializer = draft ?? SerializerDraft()
    guard serializer.read(setting, by: reading) else { return reading.unread(setting, of: .request) }
    serializer.settings[setting.key] = setting
    draft = serializer
  }

  /// false: it has no such key.
  private func read(_ setting: Setting, by reading: ConfigurationReading) -> Bool {
    switch setting.key {
    case "serializer": format = reading.choice(setting, RequestSerialization.Format.self)
    case "parameters": parameters = ParameterDraft.read(setting, by: reading)
    case "parameters_in_uri": methodsInURI = Self.methodsInURI(setting, by: reading)
    case "query_style": queryStyle = QueryStyleDraft.read(setting, by: reading)
    case "encoding": encoding = EncodingDraft.read(setting, by: reading)
    case "transcode": transcodes = reading.boolean(setting)
    case "on_conflict": onConflict = reading.choice(setting, RequestSerialization.ConflictReaction.self)
    default: return false
    }
    return true
  }

  /// An empty list means none: parameters are then never written into the URI.
  private static func methodsInURI(_ setting: Setting, by reading: ConfigurationReading) -> [String]? {
    reading.array(setting, of: "strings").map { elements in
      MethodCondition.methods(elements, by: reading) { element in
        reading.warning(element, "nothing is added to a CONNECT, which asks for a tunnel")
      }
    }
  }
}
