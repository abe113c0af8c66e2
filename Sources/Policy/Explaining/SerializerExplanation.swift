// The part of `explain` about parameters and bodies of requests, and how they are sent. For secret parameters it shows
// only the names. Tests: SerializerExplanationTests.

import Bytes
import Serialization

/// What is done to the parameters and the body of a request.
public struct SerializerExplanation: Sendable {
  /// Where the parameters go.
  public enum Placement: String, Sendable { case query, body }

  /// A value with its form name; nil if it is secret.
  public struct Parameter: Hashable, Sendable {
    public let name: String
    public let value: String?
  }

  /// nil: parameters and body stay as they are.
  public let serialization: RequestSerialization?
  public let placement: Placement
  /// In the order in which they are written.
  public let parameters: [Parameter]
  /// A body of unknown length is buffered whole and sent with its length.
  public let buffersUploads: Bool
  public let serviceType: ServiceType
  public let throttle: Throttle?
  public let allowsCellularAccess: Bool
  /// false: what would be rejected is allowed, and logged.
  public let isEnforced: Bool
}

extension SerializerExplanation {
  /// For a tunnel that the proxy does not read: how its bytes are sent.
  init(by policy: Policy, ofClosedTunnel decision: Decision) {
    let request = policy.request(of: decision)
    self.init(
      serialization: nil, placement: .body, parameters: [], buffersUploads: false, serviceType: request.serviceType,
      throttle: request.throttle, allowsCellularAccess: request.allowsCellularAccess,
      isEnforced: decision.rule.map { policy.rules[$0].enforce } ?? true)
  }

  init(by policy: Policy, of decision: Decision, method: String) {
    let request = policy.request(of: decision)
    let serialization = EchoMethod.includes(Array(method.utf8).span) ? nil : request.serialization
    let isInURI = serialization?.methodsInURI.contains(Array(method.utf8)) ?? false
    let placement: Placement = isInURI ? .query : .body
    let isForm = isInURI || serialization?.format == .http
    var list = ParameterList(
      secretNames: request.secretParameters, style: isForm ? serialization?.style ?? QueryStyle() : QueryStyle(),
      writesEmpty: !isForm)
    for entry in serialization?.parameters ?? [] { list.add(entry) }
    self.init(
      serialization: serialization, placement: placement, parameters: list.parameters,
      buffersUploads: request.buffersUploads, serviceType: request.serviceType, throttle: request.throttle,
      allowsCellularAccess: request.allowsCellularAccess,
      isEnforced: decision.rule.map { policy.rules[$0].enforce } ?? true)
  }
}

/// The values of a tree with their names. The configuration reader limits its depth.
private struct ParameterList {
  /// In the form of `ParameterName`.
  let secretNames: Set<String>
  let style: QueryStyle
  /// Whether the serializer writes empty tables and arrays: a form cannot express them.
  let writesEmpty: Bool
  private(set) var parameters: [SerializerExplanation.Parameter] = []

  /// The name of a value: as listed among the secrets, and as written.
  private struct Name {
    let known: String
    let written: String
  }

  init(secretNames: Set<String>, style: QueryStyle, writesEmpty: Bool) {
    self.secretNames = secretNames
    self.style = style
    self.writesEmpty = writesEmpty
  }

  mutating func add(_ entry: ParameterEntry) { add(entry, of: nil) }

  private mutating func add(_ entry: ParameterEntry, of table: Name?) {
    let key = String(decoding: entry.key, as: UTF8.self)
    add(
      entry.value,
      Name(
        known: ParameterName.member(key, of: table?.known), written: ParameterName.member(key, of: table?.written)))
  }

  private mutating func add(_ value: ParameterValue, _ name: Name) {
    switch value {
    case .string(let text): append(name, String(decoding: text, as: UTF8.self))
    case .integer(let number): append(name, "\(number)")
    case .real(let number): append(name, Self.text(number))
    case .boolean(let value): append(name, value ? "true" : "false")
    case .array(let values):
      if values.isEmpty, writesEmpty { append(name, "[]") }
      for (index, value) in values.enumerated() {
        let element = Name(
          known: ParameterName.element(of: name.known), written: style.elementName(name.written, at: index))
        add(value, element)
      }
    case .dictionary(let entries):
      if entries.isEmpty, writesEmpty { append(name, "{}") }
      for entry in entries { add(entry, of: name) }
    }
  }

  /// The shortest decimal that reads back as the same number, without a trailing `.0`.
  private static func text(_ number: Double) -> String {
    let text = "\(number)"
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }

  private mutating func append(_ name: Name, _ value: String) {
    parameters.append(
      SerializerExplanation.Parameter(
        name: name.written, value: secretNames.contains(name.known) ? nil : value))
  }
}

// MARK: As text

extension SerializerExplanation {
  var lines: [String] { (bodyLines + connectionLines).map { "  \($0)" } }

  private var bodyLines: [String] {
    guard let serialization else { return [] }
    var lines: [String] = []
    if !parameters.isEmpty {
      lines.append(
        "parameters: \(placement == .query ? "in the query" : "in the body, \(serialization.format.phrase)")")
      if placement == .body, !serialization.transcodes {
        lines.append("multipart/form-data: the parameters are parts of their own, before those of the body")
      }
      lines += parameters.map { "parameter \($0.name): \($0.value ?? "(value hidden)")" }
    }
    let style = serialization.style
    if style != QueryStyle() {
      lines.append(
        "query style: arrays \"\(style.arrays.rawValue)\", booleans \"\(style.booleans.rawValue)\", "
          + "space \"\(style.space.rawValue)\"")
    }
    if let encoding = serialization.encoding {
      lines.append("encoding: \(encoding.name), of parameters in queries and forms, and of forms that are read")
    }
    if serialization.transcodes {
      lines.append("transcode: a body that is a form is sent \(serialization.format.phrase)")
    }
    if serialization.transcodes || placement == .body && !parameters.isEmpty {
      lines.append("on conflict: \(conflictText(serialization.onConflict))")
    }
    return lines
  }

  private func conflictText(_ reaction: RequestSerialization.ConflictReaction) -> String {
    switch reaction {
    case .pass: "the request passes as it came"
    case .reject where !isEnforced: "the request passes as it came, and is logged (enforce = false)"
    case .reject: "the request is rejected (413, 415)"
    }
  }

  private var connectionLines: [String] {
    var lines: [String] = []
    if buffersUploads {
      lines.append("uploads: a body of unknown length is taken whole, and leaves with its length and without trailers")
    }
    if serviceType != .standard {
      lines.append("service type: \(serviceType.rawValue), DSCP \(serviceType.codePoint)")
    }
    if let throttle {
      let links = RouteExplanation.alternatives(throttle.links)
      lines.append(
        "throttle: \(throttle.phrases.joined(separator: "; "))"
          + (links.isEmpty ? "" : ", while the destination or the parent is reached by \(links)"))
    }
    if !allowsCellularAccess {
      lines.append("cellular access: not allowed; 503 while the destination or the parent is reached by wwan")
    }
    return lines
  }
}

extension RequestSerialization.Format {
  fileprivate var phrase: String {
    switch self {
    case .http: "as a form"
    case .json: "as JSON"
    case .plist: "as an XML property list"
    }
  }
}

// MARK: As JSON

extension SerializerExplanation {
  /// Members of the object that shows what will be done; none if nothing is.
  var json: [(String, JSONText)] {
    var members: [(String, JSONText)] = []
    if let serialization { members.append(("serialization", json(of: serialization))) }
    if buffersUploads { members.append(("buffer_uploads", .boolean(true))) }
    if serviceType != .standard { members.append(("service_type", .string(serviceType.rawValue))) }
    if let throttle { members.append(("throttle", throttle.json)) }
    if !allowsCellularAccess { members.append(("allows_cellular_access", .boolean(false))) }
    return members
  }

  private func json(of serialization: RequestSerialization) -> JSONText {
    .object([
      ("serializer", .string(serialization.format.rawValue)),
      (
        "parameters",
        .array(
          parameters.map {
            .object([("name", .string($0.name)), ("value", $0.value.map(JSONText.string) ?? .null)])
          })
      ),
      ("parameters_in", .string(placement.rawValue)), ("query_style", serialization.style.json),
      ("encoding", .string(serialization.encoding?.name ?? "utf-8")),
      ("transcode", .boolean(serialization.transcodes)),
      ("on_conflict", .string(serialization.onConflict.rawValue)), ("enforce", .boolean(isEnforced)),
    ])
  }
}

extension QueryStyle {
  fileprivate var json: JSONText {
    .object([
      ("arrays", .string(arrays.rawValue)), ("booleans", .string(booleans.rawValue)),
      ("space", .string(space.rawValue)),
    ])
  }
}

extension Throttle {
  fileprivate var phrases: [String] {
    var phrases: [String] = []
    if let upload {
      let packet = Quantity.size.text(Int64(upload.packetBytes))
      let delay = Quantity.duration.text(upload.delayMilliseconds)
      phrases.append("after each \(packet) towards the destination nothing is sent to it for \(delay)")
    }
    if let downloadBytesPerSecond {
      phrases.append("\(Quantity.size.text(downloadBytesPerSecond)) a second towards the client")
    }
    return phrases
  }

  fileprivate var json: JSONText {
    .object([
      ("packet_bytes", upload.map { .number($0.packetBytes) } ?? .null),
      ("delay_ms", upload.map { .number(Int($0.delayMilliseconds)) } ?? .null),
      ("download_bytes_per_second", downloadBytesPerSecond.map { .number(Int($0)) } ?? .null),
      ("when", .array(links.map { .string($0.rawValue) })),
    ])
  }
}
