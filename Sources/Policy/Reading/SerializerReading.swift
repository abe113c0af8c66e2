// The request serializer of [rule.request] and [defaults.request]: reading its keys, and how the first table inherits
// from the second: key by key, and parameter by parameter. SerializerChecks checks combinations of keys.
// Tests: SerializerReadingTests.

import Serialization

/// The settings of a request table for parameters and bodies. A class: most of 10,000 rules have none.
final class SerializerDraft {
  /// The position of each key. A key without a value below has an error, which has been reported.
  var settings: [String: Setting] = [:]
  var format: RequestSerialization.Format? = nil
  var parameters: ParameterDraft? = nil
  var methodsInURI: [String]? = nil
  var queryStyle: QueryStyleDraft? = nil
  var encoding: EncodingDraft? = nil
  var transcodes: Bool? = nil
  var onConflict: RequestSerialization.ConflictReaction? = nil

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

extension ConfigurationReading {
  /// Reads a key of a request table that no other reader handles.
  func readSerializerKey(_ setting: Setting, _ draft: inout RequestDraft) {
    let serializer = draft.serializer ?? SerializerDraft()
    switch setting.key {
    case "serializer": serializer.format = choice(setting, RequestSerialization.Format.self)
    case "parameters": serializer.parameters = parameters(setting)
    case "parameters_in_uri": serializer.methodsInURI = methodsInURI(setting)
    case "query_style": serializer.queryStyle = queryStyle(setting)
    case "encoding": serializer.encoding = encoding(setting)
    case "transcode": serializer.transcodes = boolean(setting)
    case "on_conflict": serializer.onConflict = choice(setting, RequestSerialization.ConflictReaction.self)
    default: return unread(setting, of: .request)
    }
    serializer.settings[setting.key] = setting
    draft.serializer = serializer
  }

  /// An empty list means none: parameters are then never written into the URI.
  private func methodsInURI(_ setting: Setting) -> [String]? {
    array(setting, of: "strings").map { elements in
      methods(elements) { element in
        warning(element, "nothing is added to a CONNECT, which asks for a tunnel")
      }
    }
  }
}
