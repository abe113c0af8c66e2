// Checks that involve several keys of request and response tables, some of which may be inherited: parameters that
// cannot be written, and keys without effect. A fault is reported at the rule's own part in it. If all of it is
// inherited, it has been reported at [defaults]. Tests: SerializerReadingTests, ParameterReadingTests,
// ResponseReadingTests.

import Serialization

struct SerializerChecks {
  let defaults: DefaultsDraft
  let reading: ConfigurationReading

  func checkDefaults() {
    guard let own = defaults.request.serializer else { return }
    checkXML(own, effective: own)
    checkEncoding(own, effective: own)
    checkStyle(own, effective: own)
  }

  /// Checks the rule's serializer after merging it with what it inherits.
  func check(_ rule: RuleDraft) {
    guard let own = rule.request.serializer else { return }
    let effective = SerializerDraft.merged(own, inheriting: defaults.request.serializer) ?? own
    checkSize(own, effective: effective)
    checkXML(own, effective: effective)
    checkEncoding(own, effective: effective)
    checkStyle(own, effective: effective)
  }

  // MARK: Parameters that cannot be written

  /// The contents of a single table were counted when it was read.
  private func checkSize(_ own: SerializerDraft, effective: SerializerDraft) {
    guard own.parameters != nil, let setting = own.settings["parameters"],
      let excess = effective.parameters?.size.excess
    else { return }
    reading.error(setting, "expected \(excess), together with the parameters of [defaults.request]")
  }

  /// Whether the style can express the parameters, and they are not too long then.
  private func checkStyle(_ own: SerializerDraft, effective: SerializerDraft) {
    guard let setting = own.settings["query_style"] ?? own.settings["encoding"] ?? own.settings["parameters"],
      let serialization = effective.serialization
    else { return }
    if serialization.style.arrays == .comma {
      for entry in serialization.parameters where entry.value.nestsInArrays {
        let name = String(decoding: entry.key, as: UTF8.self).quoted
        reading.error(
          setting,
          "arrays = \"comma\" has no way to write a table or an array in an array, which the parameter \(name) holds")
      }
    }
    let most = ParameterSize.mostEncodedBytes
    // What is too long in any style has already been reported.
    if serialization.query.count > most, effective.parameters?.size.excess == nil {
      reading.error(setting, "expected at most \(most) bytes of parameters when written in this style and encoding")
    }
  }

  /// Whether the encoding has every character of the parameters. For a secret only the name is reported.
  private func checkEncoding(_ own: SerializerDraft, effective: SerializerDraft) {
    guard let encoding = effective.encoding?.encoding else { return }
    let ownKeys = Set(own.parameters?.parameters.map(\.entry.key) ?? [])
    for parameter in effective.parameters?.parameters ?? [] {
      let entry = parameter.entry
      if encoding.canEncode(entry.key), entry.value.fits(encoding) { continue }
      let key = ownKeys.contains(entry.key) ? "parameters" : "encoding"
      // If both are inherited it has been reported at [defaults.request].
      guard let setting = own.settings[key] else { continue }
      let name = String(decoding: entry.key, as: UTF8.self).quoted
      reading.error(
        setting, "the parameter \(name) holds a character that the encoding \(encoding.name.quoted) does not have")
    }
  }

  private func checkXML(_ own: SerializerDraft, effective: SerializerDraft) {
    guard effective.format == .plist else { return }
    let fault = "a control character, U+FFFE or U+FFFF, which no XML can carry"
    var inherited: [String] = []
    let ownKeys = Set(own.parameters?.parameters.map(\.entry.key) ?? [])
    for parameter in effective.parameters?.parameters ?? [] {
      guard let place = parameter.unfitForXML else { continue }
      if ownKeys.contains(parameter.entry.key) {
        reading.error(place, "its name or value holds \(fault), and serializer = \"plist\" writes XML")
      } else {
        inherited.append(String(decoding: parameter.entry.key, as: UTF8.self))
      }
    }
    guard let name = inherited.first, own.format == .plist, defaults.request.serializer?.format != .plist,
      let setting = own.settings["serializer"]
    else { return }
    reading.error(setting, "the parameter \(name.quoted) of [defaults.request] holds \(fault)")
  }

  // MARK: Keys that do nothing

  func warnOfIdleDefaults(_ rules: [RuleDraft]) {
    if let own = defaults.request.serializer, own.isSound, own.transcodes == true, own.format ?? .http == .http {
      let isUsed = rules.contains { rule in
        guard let serializer = rule.request.serializer, let format = serializer.format else { return false }
        return format != .http && serializer.transcodes == nil
      }
      if !isUsed { warnOfIdleTranscoding(own) }
    }
    if let own = defaults.response {
      if !rules.contains(where: { $0.response?.judges ?? false }) { warnOfIdleAnswer(own, effective: own) }
      warnOfBodiesUnchecked(own, effective: own)
      let isUsed = rules.contains { $0.response?.kinds?.contains(.json) ?? false && $0.response?.removesNulls == nil }
      if !isUsed { warnOfNullsKept(own, effective: own) }
      let asksRoot = rules.contains { $0.response?.kinds?.contains(.json) ?? false && $0.response?.jsonRoot == nil }
      if !asksRoot { warnOfRootUnasked(own, effective: own) }
    }
  }

  func warnOfIdleKeys(_ rule: RuleDraft) {
    if rule.action == .deny, rule.enforce { return }
    if let own = rule.request.serializer {
      let effective = SerializerDraft.merged(own, inheriting: defaults.request.serializer) ?? own
      warnOfIdleSerializer(own, effective: effective)
    }
    guard let own = rule.response else { return }
    let effective = ResponseDraft.merged(own, inheriting: defaults.response) ?? own
    warnOfBodiesUnchecked(own, effective: effective)
    warnOfNullsKept(own, effective: effective)
    warnOfRootUnasked(own, effective: effective)
    warnOfIdleAnswer(own, effective: effective)
  }

  // MARK: Requests

  private func warnOfIdleSerializer(_ own: SerializerDraft, effective: SerializerDraft) {
    if effective.format ?? .http == .http { warnOfIdleTranscoding(own) }
    let hasParameters = !(effective.parameters?.parameters.isEmpty ?? true)
    let transcodes = effective.transcodes ?? false
    if !hasParameters, own.methodsInURI != nil, let setting = own.settings["parameters_in_uri"] {
      reading.warning(setting, "it has no effect: there are no 'parameters'")
    }
    if hasParameters || transcodes { return }
    let idle = "it has no effect: there are neither 'parameters' nor 'transcode = true'"
    if own.format ?? .http != .http { own.settings["serializer"].map { reading.warning($0, idle) } }
    own.settings["on_conflict"].map { reading.warning($0, idle) }
    own.settings["query_style"].map { reading.warning($0, idle) }
    own.settings["encoding"].map { reading.warning($0, idle) }
  }

  private func warnOfIdleTranscoding(_ own: SerializerDraft) {
    guard own.transcodes == true, let setting = own.settings["transcode"] else { return }
    reading.warning(
      setting,
      "it does nothing with serializer = \"http\", which writes forms as they are; \"json\" and \"plist\" re-encode them"
    )
  }

  // MARK: Responses

  private func warnOfBodiesUnchecked(_ own: ResponseDraft, effective: ResponseDraft) {
    guard let kinds = own.kinds, kinds.count > 1, let http = kinds.firstIndex(of: .http),
      let setting = own.settings["serializer"]
    else { return }
    if kinds[http...].contains(where: { $0 != .http }) {
      reading.warning(setting, "what stands behind \"http\" is never asked: \"http\" accepts every body")
    } else if kinds.contains(where: { $0 != .http }), !(effective.removesNulls ?? false) {
      reading.warning(setting, "no body is checked: \"http\" accepts what the others do not")
    }
  }

  private func warnOfNullsKept(_ own: ResponseDraft, effective: ResponseDraft) {
    guard own.removesNulls == true, let setting = own.settings["remove_nulls"],
      effective.settings["serializer"] == nil || effective.kinds != nil,
      !(effective.kinds ?? [.http]).contains(.json)
    else { return }
    reading.warning(setting, "it has no effect: no serializer is \"json\"")
  }

  private func warnOfRootUnasked(_ own: ResponseDraft, effective: ResponseDraft) {
    guard own.jsonRoot != nil, let setting = own.settings["json"],
      effective.settings["serializer"] == nil || effective.kinds != nil,
      !(effective.kinds ?? [.http]).contains(.json)
    else { return }
    reading.warning(setting, "this has no effect: no serializer is \"json\"")
  }

  /// Warns of "violation" if nothing is checked.
  private func warnOfIdleAnswer(_ own: ResponseDraft, effective: ResponseDraft) {
    guard let answer = own.answer, answer.occasions.contains(.violation), !effective.judges,
      let setting = own.settings["answer"]
    else { return }
    reading.warning(setting, "\"violation\" never comes: nothing in [rule.response] says what a response is held to")
  }
}

extension ParameterValue {
  /// Whether an array in it contains a table or an array.
  fileprivate var nestsInArrays: Bool {
    switch self {
    case .array(let elements): elements.contains(where: \.isContainer)
    case .dictionary(let entries): entries.contains { $0.value.nestsInArrays }
    case .string, .integer, .real, .boolean: false
    }
  }
}

extension SerializerDraft {
  /// Whether every key was read without error.
  fileprivate var isSound: Bool { settings["serializer"] == nil || format != nil }
}
