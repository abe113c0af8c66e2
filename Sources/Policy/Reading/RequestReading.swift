// [rule.request] and [defaults.request], and how the first inherits from the second: key by key, header fields name by
// name. The rule's values take precedence. Parameters and bodies are in SerializerReading, `throttle` in
// ThrottleReading, `authorization` in AuthorizationReading. Tests: RequestReadingTests.

import Security

/// One edit of the header section as read from the file.
struct HeaderEdit {
  enum Kind { case standard, set, remove }

  let kind: Kind
  let name: String
  var value = GivenValue(bytes: [], isSecret: false)
  /// The value is computed for each request from these.
  var digest: DigestCredentials? = nil
  let setting: Setting

  var lowercaseName: String { name.lowercased() }
}

/// A request table; nil for keys that it does not set.
struct RequestDraft {
  /// The position of each key.
  private(set) var settings: [String: Setting] = [:]
  private(set) var timeoutMilliseconds: Int64? = nil
  private(set) var cookies: Bool? = nil
  private(set) var encodesPath: Bool? = nil
  private(set) var edits: [HeaderEdit] = []
  /// nil: there are no settings for parameters and bodies.
  private(set) var serializer: SerializerDraft? = nil
  private(set) var buffersUploads: Bool? = nil
  private(set) var serviceType: ServiceType? = nil
  private(set) var throttle: Throttle? = nil
  private(set) var cachePolicy: CachePolicy? = nil
  private(set) var resumes: Bool? = nil
  private(set) var allowsCellularAccess: Bool? = nil

  /// The request policy of a rule with these settings that inherits the rest.
  func policy(inheriting inherited: RequestDraft = RequestDraft()) -> RequestPolicy {
    var policy = RequestPolicy()
    policy.timeoutMilliseconds = timeoutMilliseconds ?? inherited.timeoutMilliseconds
    policy.cookies = cookies ?? inherited.cookies ?? true
    policy.encodesPath = encodesPath ?? inherited.encodesPath ?? false
    policy.buffersUploads = buffersUploads ?? inherited.buffersUploads ?? false
    policy.serviceType = serviceType ?? inherited.serviceType ?? .standard
    policy.throttle = throttle ?? inherited.throttle
    policy.resumesDownloads = resumes ?? inherited.resumes ?? false
    policy.cachePolicy = cachePolicy ?? inherited.cachePolicy ?? .useProtocol
    policy.allowsCellularAccess = allowsCellularAccess ?? inherited.allowsCellularAccess ?? true
    let serializer = SerializerDraft.merged(serializer, inheriting: inherited.serializer)
    policy.serialization = serializer?.serialization
    policy.secretParameters = serializer?.secretNames ?? []
    let merged = merged(inheriting: inherited)
    policy.fields = fields(of: merged)
    policy.digest = merged.last { $0.digest != nil }?.digest
    return policy
  }

  private func merged(inheriting inherited: RequestDraft) -> [HeaderEdit] {
    let own = Set(edits.map(\.lowercaseName))
    return inherited.edits.filter { !own.contains($0.lowercaseName) } + edits
  }

  private func fields(of merged: [HeaderEdit]) -> FieldEdits {
    var fields = FieldEdits()
    let replaced = Set(merged.filter { $0.kind == .set }.map(\.lowercaseName))
    for edit in merged {
      switch edit.kind {
      case .remove: fields.remove(edit.name)
      case .set where edit.digest != nil: fields.remove(edit.name)
      case .set:
        fields.set(
          edit.name, edit.value.bytes, isSecret: edit.value.isSecret, isWithheld: edit.value.isWithheld)
      case .standard:
        if replaced.contains(edit.lowercaseName) { continue }
        fields.setDefault(
          edit.name, edit.value.bytes, isSecret: edit.value.isSecret, isWithheld: edit.value.isWithheld)
      }
    }
    return fields
  }
}

extension RequestDraft {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> RequestDraft {
    var draft = RequestDraft()
    for setting in table.settings {
      draft.settings[setting.key] = setting
      switch setting.key {
      case "headers": draft.edits += reading.table(setting).map { HeaderEdit.list($0, by: reading) } ?? []
      case "user_agent": draft.edits += [HeaderEdit.userAgent(setting, by: reading)].compactMap { $0 }
      case "accept_language": draft.edits += [HeaderEdit.acceptLanguage(setting, by: reading)].compactMap { $0 }
      case "authorization": draft.edits += [HeaderEdit.authorization(setting, by: reading)].compactMap { $0 }
      case "timeout": draft.timeoutMilliseconds = reading.quantity(setting, .duration, in: Bounds.duration)
      case "cookies": draft.cookies = reading.boolean(setting)
      case "encode_path": draft.encodesPath = reading.boolean(setting)
      case "buffer_uploads": draft.buffersUploads = reading.boolean(setting)
      case "service_type": draft.serviceType = reading.choice(setting, ServiceType.self)
      case "throttle": draft.throttle = Throttle.read(setting, by: reading)
      case "cache_policy": draft.cachePolicy = reading.choice(setting, CachePolicy.self) ?? .returnCacheDontLoad
      case "resume": draft.resumes = reading.boolean(setting)
      case "allows_cellular_access": draft.allowsCellularAccess = reading.boolean(setting)
      default: SerializerDraft.read(setting, into: &draft.serializer, by: reading)
      }
    }
    HeaderEdit.checkConflicts(draft.edits, by: reading)
    return draft
  }
}

extension HeaderEdit {
  /// Most languages in `accept_language`: the weights fall by 0.1, as AFNetworking's do.
  private static let mostLanguages = 6

  fileprivate static func list(_ table: ConfigurationTable, by reading: ConfigurationReading) -> [HeaderEdit] {
    table.settings.flatMap { setting -> [HeaderEdit] in
      switch setting.key {
      case "default": return reading.table(setting).map { writtenFields($0, .standard, by: reading) } ?? []
      case "set": return reading.table(setting).map { writtenFields($0, .set, by: reading) } ?? []
      case "remove": return removedFields(setting, by: reading)
      default:
        reading.unread(setting, of: .headers)
        return []
      }
    }
  }

  private static func writtenFields(
    _ table: ConfigurationTable, _ kind: HeaderEdit.Kind, by reading: ConfigurationReading
  ) -> [HeaderEdit] {
    table.settings.compactMap { setting in
      guard isField(setting.key, setting, at: setting.keyBegin, refused: FieldSyntax.owned, by: reading) else {
        return nil
      }
      guard let value = headerValue(setting, mayBeSecret: SecretWords.covers(setting.key), by: reading) else {
        return nil
      }
      return HeaderEdit(kind: kind, name: setting.key, value: value, setting: setting)
    }
  }

  private static func removedFields(_ setting: Setting, by reading: ConfigurationReading) -> [HeaderEdit] {
    (reading.strings(setting) ?? []).compactMap { name, element in
      guard isField(name, element, at: element.value.begin, refused: FieldSyntax.kept, by: reading) else { return nil }
      if name.contains("*") {
        reading.warning(
          element, "a field name has no wildcards here: only a field named exactly \(name.quoted) is taken out")
      }
      return HeaderEdit(kind: .remove, name: name, setting: element)
    }
  }

  static func isField(
    _ name: String, _ setting: Setting, at position: TOMLPosition, refused: Set<String>,
    by reading: ConfigurationReading
  )
    -> Bool
  {
    if !FieldSyntax.isToken(name) {
      let text =
        "[\(setting.table)]: expected the name of a header field (a token, RFC 9110, 5.1), found \(name.quoted)"
      reading.report(.error, setting.source, position: position, message: text)
      return false
    }
    if refused.contains(name.lowercased()) {
      let text =
        "[\(setting.table)]: \(name.quoted) belongs to the connection or the framing; the proxy writes it itself"
      reading.report(.error, setting.source, position: position, message: text)
      return false
    }
    return true
  }

  /// A value that may be written after a field's name.
  private static func headerValue(_ setting: Setting, mayBeSecret: Bool = false, by reading: ConfigurationReading)
    -> GivenValue?
  {
    guard let value = reading.stringOrSecret(setting, mayBeSecret: mayBeSecret) else { return nil }
    guard let fault = FieldSyntax.fault(ofValue: value.bytes) else { return value }
    reading.error(setting, fault)
    return nil
  }

  fileprivate static func userAgent(_ setting: Setting, by reading: ConfigurationReading) -> HeaderEdit? {
    guard let value = headerValue(setting, by: reading) else { return nil }
    guard !value.bytes.isEmpty else {
      reading.error(setting, "the value is empty; to send no User-Agent, put it into headers.remove")
      return nil
    }
    return HeaderEdit(kind: .set, name: "User-Agent", value: value, setting: setting)
  }

  fileprivate static func acceptLanguage(_ setting: Setting, by reading: ConfigurationReading) -> HeaderEdit? {
    guard let texts = reading.strings(setting) else { return nil }
    for (text, element) in texts where !isLanguageRange(text) {
      reading.error(
        element, "expected a language range such as \"de\" or \"en-GB\" (RFC 4647, 2.1), found \(text.quoted)"
      )
    }
    guard !texts.isEmpty else {
      if case .array(let values) = setting.value.content, !values.isEmpty { return nil }
      reading.error(setting, "expected at least one language; to send no Accept-Language, put it into headers.remove")
      return nil
    }
    reading.warnOfRepetition(texts.map { ($0.text.lowercased(), $0.setting) }) { $0.quoted }
    if texts.count > mostLanguages {
      let text = "only the first \(mostLanguages) languages are sent, because the weights fall from 1 by 0.1"
      reading.warning(texts[mostLanguages].setting, text)
    }
    let weighted = texts.prefix(mostLanguages).enumerated().map { index, entry in
      // As AFHTTPRequestSerializer writes it ("%@;q=%0.1g"), the first with its weight too.
      index == 0 ? "\(entry.text);q=1" : "\(entry.text);q=0.\(10 - index)"
    }
    let value = GivenValue(bytes: Array(weighted.joined(separator: ", ").utf8), isSecret: false)
    return HeaderEdit(kind: .set, name: "Accept-Language", value: value, setting: setting)
  }

  private static func isLanguageRange(_ text: String) -> Bool {
    if text == "*" { return true }
    let parts = text.utf8.split(separator: 0x2d, omittingEmptySubsequences: false)
    return parts.enumerated().allSatisfy { index, part in
      let isAllowed = part.allSatisfy { $0.isASCIILetter || (index > 0 && $0.isASCIIDigit) }
      return (1...8).contains(part.count) && (isAllowed || (index > 0 && part.elementsEqual([0x2a])))
    }
  }

  // MARK: Conflicts

  /// Reports contradictory edits of one field in one table.
  fileprivate static func checkConflicts(_ edits: [HeaderEdit], by reading: ConfigurationReading) {
    var first: [String: HeaderEdit] = [:]
    let ordered = edits.sorted { $0.setting.value.begin < $1.setting.value.begin }
    for edit in ordered {
      guard let earlier = first[edit.lowercaseName] else {
        first[edit.lowercaseName] = edit
        continue
      }
      let place = "line \(earlier.setting.value.begin.line)"
      switch (earlier.kind, edit.kind) {
      case (.set, .set): reading.error(edit.setting, "\(edit.name.quoted) is set twice; the other place is \(place)")
      case (.standard, .standard):
        reading.error(edit.setting, "\(edit.name.quoted) has two defaults; the other one is in \(place)")
      case (.remove, .remove): reading.warning(edit.setting, "\(edit.name.quoted) is removed already in \(place)")
      case (.set, .remove), (.remove, .set):
        reading.error(
          edit.setting,
          "\(edit.name.quoted) is both set and removed, the other in \(place); "
            + "a field that is set replaces what the client sent")
      case (.standard, .remove), (.remove, .standard):
        reading.error(
          edit.setting,
          "\(edit.name.quoted) has a default and is removed, the other in \(place); "
            + "to replace what the client sent, use headers.set")
      case (.standard, .set), (.set, .standard):
        reading.warning(
          edit.setting,
          "the default of \(edit.name.quoted) is never used, because it is set as well; see \(place)")
      }
    }
  }
}
