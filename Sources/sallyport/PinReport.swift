// The output of `sallyport pin`: certificates, verdicts, and the table to paste.

import Policy
import Security

struct PinReport {
  let host: HostOperand?
  let serverName: String?
  let source: Source
  let chain: PinnedChain
  /// For messages: "system", or a file.
  let anchors: String

  // MARK: Text

  /// The table, preceded by everything else as comments, so that it can be appended to a file as it is.
  var text: String {
    var text = ""
    for line in findings.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
      text += line.isEmpty ? "#\n" : "# \(line)\n"
    }
    return text + "\n" + table
  }

  private var findings: String {
    var parts: [String] = []
    if let server = source.server, let host { parts.append("\(host.host):\(host.port) (\(server))\n") }
    if let complaint = source.complaint { parts.append("the handshake ended behind the certificates: \(complaint)\n") }
    parts.append(verdict)
    parts += chain.members.enumerated().map { "\n\($0.offset + 1). " + describe($0.element) }
    return parts.joined()
  }

  private var against: String { anchors == "system" ? "the system's anchors" : anchors }

  private var verdict: String {
    let chainLine = chain.fault.map { "not verified against \(against): \($0)" } ?? "verified against \(against)"
    guard chain.checksName else { return chainLine + "; no name was given to check\n" }
    let name = serverName ?? host?.host ?? ""
    return chainLine + "\n" + (chain.nameFault.map { "not for '\(name)': \($0)\n" } ?? "for '\(name)'\n")
  }

  private func describe(_ member: PinnedChain.Member) -> String {
    let certificate = member.certificate
    var lines = [
      ("subject", certificate.subject.isEmpty ? "(empty)" : certificate.subject),
      ("issuer", certificate.isSelfSigned ? "itself" : certificate.issuer),
      (
        "valid",
        "\(Dates.day(certificate.notBefore)) to \(Dates.day(certificate.notAfter)), \(validity(certificate))"
      ),
      ("key", certificate.keyDescription),
    ]
    if member.role == .leaf { lines.append(("names", Self.listed(certificate.names))) }
    lines.append(("pin", certificate.publicKeyPin.description))
    lines.append(("worth", worth(member)))
    let title = member.role.rawValue + (member.wasSent ? "" : ", not sent: an anchor")
    return "\(title)\n"
      + lines.map { name, value in
        "   \(name)\(String(repeating: " ", count: 9 - name.utf8.count))\(value)\n"
      }.joined()
  }

  private func validity(_ certificate: Certificate) -> String {
    if chain.seconds < certificate.notBefore { return "not valid yet" }
    return Dates.remaining(from: chain.seconds, until: certificate.notAfter)
  }

  private static let mostNames = 10

  private static func listed(_ names: [String]) -> String {
    if names.isEmpty { return "(none)" }
    let shown = names.prefix(mostNames).joined(separator: ", ")
    return names.count > mostNames ? "\(shown) and \(names.count - mostNames) more" : shown
  }

  /// The effect of pinning it.
  private func worth(_ member: PinnedChain.Member) -> String {
    switch member.role {
    case .leaf where chain.fault == nil: "the narrowest pin; it is gone when the server gets a new key"
    case .leaf: "the chain is not verified: this pin counts with allow_invalid_certificates, or with other anchors"
    case .intermediate:
      "good backup: it outlives new keys of the server, until its authority signs with another intermediate"
    case .root: "backup of the longest life, and the widest: whatever this root vouches for passes"
    case .unverified: "none: it is in no chain that verifies, so a pin on it is never met"
    }
  }

  // MARK: The table

  /// A bare key of TOML: letters, digits, `-` and `_`.
  private var tableName: String {
    let name = serverName ?? host?.host ?? chain.members.first?.certificate.names.first ?? "pinned"
    let letters = name.lowercased().unicodeScalars.map { scalar -> Character in
      scalar.isASCII
        && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) || "-_".unicodeScalars.contains(scalar))
        ? Character(scalar) : "-"
    }
    return String(letters).split(separator: "-").joined(separator: "-")
  }

  /// The leaf and the nearest backup; the others as comments.
  private var table: String {
    guard let leaf = chain.members.first else { return "" }
    let lines =
      [line(leaf, isComment: false)]
      + chain.backups.enumerated().map { line($0.element, isComment: $0.offset > 0) }
    let advice =
      chain.backups.isEmpty ? "  # no backup here: add the pin of a key that the server keeps in reserve\n" : ""
    let rule =
      "# in a rule:\n# security.pins = \"\(tableName)\""
      + (serverName.map { "\n# security.server_name = \"\($0)\"" } ?? "")
    return """
      \(rule)
      [pins.\(tableName)]
      mode = "public-key"
      spki = [
      \(lines.joined())\(advice)]

      """
  }

  private func line(_ member: PinnedChain.Member, isComment: Bool) -> String {
    let certificate = member.certificate
    let name = certificate.subject.isEmpty ? certificate.names.first ?? "" : certificate.subject
    let role = member.role == .leaf ? "leaf" : "backup, \(member.role.rawValue)"
    let entry = "\(isComment ? "# " : "")\"\(certificate.publicKeyPin)\","
    return "  \(entry)  # \(role): \(name), until \(Dates.day(certificate.notAfter))\n"
  }

  // MARK: JSON

  var json: JSONText {
    .object([
      ("host", host.map { .string($0.host) } ?? .null),
      ("port", host.map { .number(Int($0.port)) } ?? .null),
      ("server", source.server.map { .string($0) } ?? .null),
      ("server_name", serverName.map { .string($0) } ?? .null),
      ("complaint", source.complaint.map { .string($0) } ?? .null),
      ("anchors", .string(anchors)),
      ("verified", .boolean(chain.fault == nil)),
      ("fault", chain.fault.map { .string($0) } ?? .null),
      ("name_matches", chain.checksName ? .boolean(chain.nameFault == nil) : .null),
      ("name_fault", chain.nameFault.map { .string($0) } ?? .null),
      ("certificates", .array(chain.members.map(json))),
      ("toml", .string(table)),
    ])
  }

  private func json(_ member: PinnedChain.Member) -> JSONText {
    let certificate = member.certificate
    return .object([
      ("role", .string(member.role.rawValue)),
      ("sent", .boolean(member.wasSent)),
      ("backup", .boolean(member.role == .intermediate || member.role == .root)),
      ("subject", .string(certificate.subject)),
      ("issuer", .string(certificate.issuer)),
      ("serial", .string(certificate.serialNumber)),
      ("not_before", .string(Dates.time(certificate.notBefore))),
      ("not_after", .string(Dates.time(certificate.notAfter))),
      ("days_left", .number(Int(Dates.days(from: chain.seconds, until: certificate.notAfter)))),
      ("key", .string(certificate.keyDescription)),
      ("names", .strings(certificate.names)),
      ("pin", .string(certificate.publicKeyPin.description)),
      ("worth", .string(worth(member))),
    ])
  }
}
