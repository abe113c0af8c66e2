// The request serializer of [rule.request] and [defaults.request]: reading its keys, and how the first table inherits from
// the second: key by key, and parameter by parameter. What several keys say together is in SerializerChecks.
// Tests: SerializerReadingTests.

import Serialization

/// What a request table says of parameters and bodies. A class: most of 10,000 rules say nothing of them.
final class SerializerDraft {
  /// Where each key stands. One without a value below has an error, which has been reported.
  var settings: [String: Setting] = [:]
  var format: RequestSerialization.Format? = nil
  var parameters: ParameterDraft? = nil
  var methodsInURI: [String]? = nil
  var queryStyle: QueryStyleDraft? = nil
  var encoding: EncodingDraft? = nil
  var transcodes: Bool? = nil
  var onConflict: RequestSerialization.ConflictReaction? = nil

  init() {}

  /// What holds for a rule that says `own` and inherits the rest.
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

  /// nil where neither says anything.
  static func merged(_ own: SerializerDraft?, inheriting inherited: SerializerDraft?) -> SerializerDraft? {
    guard let own, let inherited else { return own ?? inherited }
    return SerializerDraft(own, inheriting: inherited)
  }

  /// As a value; nil where it leaves every request as it is. Made once: rules that only inherit share it.
  private(set) lazy var serialization: RequestSerialization? = {
    let format = format ?? .http
    let serialization = RequestSerialization(
      format: format, parameters: parameters?.parameters.map(\.entry) ?? [],
      methodsInURI: methodsInURI ?? RequestSerialization.standardMethodsInURI,
      transcodes: transcodes ?? false && format != .http, onConflict: onConflict ?? .reject,
      style: queryStyle?.style ?? QueryStyle(), encoding: encoding?.encoding)
    return serialization.isNothing ? nil : serialization
  }()

  /// Names of parameters, as a form has them, that are secret.
  private(set) lazy var secretNames: Set<String> =
    parameters?.parameters.reduce(into: []) { $0.formUnion($1.secretNames) } ?? []
}

extension ConfigurationReading {
  /// Reads a key of a request table that no other reader took.
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

  /// An empty list is none: parameters are never written into the URI then.
  private func methodsInURI(_ setting: Setting) -> [String]? {
    array(setting, of: "strings").map { elements in
      methods(elements) { element in
        warning(element, "nothing is added to a CONNECT, which asks for a tunnel")
      }
    }
  }
}
