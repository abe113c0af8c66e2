// sallyport ca: the local authority of connect = "intercept".
//
//   init      makes one, or the next one if one exists
//   activate  lets the next one sign
//   show      the contents of the certificates
//   export    the certificates, to be trusted by programs
//
// The files and the steps of a roll-over: AuthorityDirectory. Tests: test_ca.py.

import Policy
import Security
import Transport

/// Where the authority is, and its key if that is elsewhere: --directory, or else the configuration. nil: the
/// configuration has errors, which have been printed. Of its secrets, only the key matters here.
private func authorityDirectory(_ options: Arguments) -> AuthorityPlace? {
  if let named = options.values["directory"] { return AuthorityPlace(directory: AuthorityDirectory(path: named)) }
  let result = ConfigurationFile.load(options.values["config"], secrets: .inspected)
  for diagnostic in result.diagnostics where diagnostic.severity != .note { Output.complain("\(diagnostic)\n") }
  guard let configuration = result.policy?.configuration else { return nil }
  let settings = configuration.authority
  return AuthorityPlace(
    directory: AuthorityDirectory(path: settings.directory), key: settings.key, isKeyWithheld: settings.isKeyWithheld,
    anchors: configuration.trust.pem)
}

private struct AuthorityPlace {
  let directory: AuthorityDirectory
  var key: [UInt8]? = nil
  var isKeyWithheld = false
  /// From [trust], in PEM.
  var anchors: [UInt8] = []
}

private var now: Int64 { Clock.wall / 1_000 }

// MARK: init

nonisolated func authorityInitCommand(_ options: Arguments) throws -> Int32 {
  let permitted = try (options.lists["permit"] ?? []).map(permittedSubtree)
  try options.refuseOperands()
  guard let place = authorityDirectory(options) else { return 1 }
  let directory = place.directory
  let role = try directory.establish(permitted: permitted, host: hostName(), date: Dates.day(now), at: now)
  guard let made = try directory.certificate(role).get() else { return 1 }
  Output.answer("\(directory.certificatePath(role))\n" + facts(made.certificate))
  Output.answer("  key          \(directory.keyPath(role)), not encrypted, mode 0600\n\n")
  Output.answer(role == .active ? firstSteps(directory) : nextSteps)
  if place.key != nil { Output.answer("The configuration takes the key from elsewhere: put this one there.\n") }
  reportTrustFiles(try TrustFiles(directory, anchors: place.anchors, at: now))
  return 0
}

/// The operand of --permit: a name, which also permits the names below it, an address, or a CIDR block.
private func permittedSubtree(_ text: String) throws -> NameSubtree {
  let pattern: HostPattern
  switch HostPattern.parse(text) {
  case .success(let read): pattern = read
  case .failure(let fault): throw UsageError(message: "'--permit': \(fault)")
  }
  switch pattern {
  case .name(let name), .atOrBelow(let name): return .name(name)
  case .block(let block): return .addresses(block.address.octets, prefixLength: block.length)
  case .any: throw UsageError(message: "'--permit' narrows what may be signed; for any name leave it out")
  case .oneLabelBelow(let name):
    throw UsageError(
      message: "'--permit \(text)': a certificate cannot say that; '\(name)' permits it and all below it")
  }
}

private func hostName() -> String {
  let name = (try? Files.read("/proc/sys/kernel/hostname", limit: 4_096).get()) ?? []
  return String(decoding: name.prefix { $0 != 0x0a }, as: UTF8.self)
}

private func firstSteps(_ directory: AuthorityDirectory) -> String {
  """
  Programs must trust it before a rule may say connect = "intercept":
    for a shell or a unit    sallyport env
    for the whole machine    cp \(directory.certificatePath(.active)) /usr/local/share/ca-certificates/sallyport.crt
                             update-ca-certificates
  The daemon reads it when it starts, and when it reloads.

  """
}

private let nextSteps = """
  This is the next authority; the present one goes on signing. Let programs trust both ('sallyport env' and
  'sallyport ca export' give both), then let it sign: sallyport ca activate

  """

// MARK: activate

nonisolated func authorityActivateCommand(_ options: Arguments) throws -> Int32 {
  try options.refuseOperands()
  guard let place = authorityDirectory(options) else { return 1 }
  let (directory, key) = (place.directory, place.key)
  if place.isKeyWithheld {
    throw AuthorityDirectoryFault("'key' in [authority]: not readable by you: run this as the user of the service")
  }
  let incoming: AuthorityDirectory.Role = options.flags.contains("previous") ? .previous : .next
  try directory.activate(incoming, key: key, at: now)
  guard let active = try directory.certificate(.active).get() else { return 1 }
  Output.answer("\(directory.certificatePath(.active))\n" + facts(active.certificate))
  Output.answer("\nIt signs once the daemon reloads: systemctl reload sallyport\n")
  let other: AuthorityDirectory.Role = incoming == .next ? .previous : .next
  Output.answer("The one before is \(directory.certificatePath(other)).\n")
  if let key, case .failure(let fault) = directory.load(key: key, at: now) {
    Output.complain("sallyport: \(fault); put the key of this authority there before the daemon reloads\n")
  }
  reportTrustFiles(try TrustFiles(directory, anchors: place.anchors, at: now))
  return 0
}

/// Writes authorities.pem and bundle.pem, and reports where that was not possible.
private func reportTrustFiles(_ files: TrustFiles) {
  let states = files.refresh()
  if states.authorities != .current {
    Output.complain("sallyport: cannot write \(files.directory.authoritiesPath)\n")
  }
  if files.bundle == nil {
    Output.complain(
      "sallyport: the system has no bundle of anchors to merge with; \(files.directory.bundlePath) not made\n")
  } else if states.bundle != .current {
    Output.complain("sallyport: cannot write \(files.directory.bundlePath)\n")
  }
}

// MARK: show

nonisolated func authorityShowCommand(_ options: Arguments) throws -> Int32 {
  try options.refuseOperands()
  guard let place = authorityDirectory(options) else { return 1 }
  let directory = place.directory
  let members = try directory.live(at: now)
  if options.flags.contains("json") {
    Output.answer(JSONText.array(members.map { json($0, place) }).text + "\n")
  } else {
    let texts = members.map { member in
      "\(member.role): \(directory.certificatePath(member.role))\n" + facts(member.certificate)
        + "  key          \(keyStatus(member.role, place))\n"
    }
    Output.answer(texts.joined(separator: "\n"))
  }
  return 0
}

private func facts(_ authority: AuthorityCertificate) -> String {
  let certificate = authority.certificate
  return """
      subject      \(certificate.subject)
      fingerprint  SHA-256 \(colons(authority.fingerprint))
      pin          \(certificate.publicKeyPin)
      valid        \(Dates.day(certificate.notBefore)) to \(Dates.day(certificate.notAfter)), \
    \(Dates.remaining(from: now, until: certificate.notAfter))
      permits      \(authority.permitted.isEmpty ? "any name and address" : list(authority.permitted))
      excludes     \(authority.excluded.isEmpty ? "nothing" : list(authority.excluded))

    """
}

private func list(_ subtrees: [NameSubtree]) -> String { subtrees.map(\.description).joined(separator: ", ") }

/// Where the key of an authority is, and whether it fits; never the key itself.
private func keyStatus(_ role: AuthorityDirectory.Role, _ place: AuthorityPlace) -> String {
  let directory = place.directory
  if role == .active, let key = place.key {
    if place.isKeyWithheld { return "from the configuration, not readable by you" }
    let fault = keyFault(role, directory, key: key)
    return "from the configuration" + (fault.map { ": \($0)" } ?? "")
  }
  let file = directory.keyPath(role)
  guard Files.exists(file) else { return "\(file) is not there" }
  guard Files.isReadable(file) else { return "\(file), which this user may not read" }
  return file + (keyFault(role, directory, key: nil).map { ": \($0)" } ?? "")
}

private func keyFault(_ role: AuthorityDirectory.Role, _ directory: AuthorityDirectory, key: [UInt8]?) -> String? {
  do {
    guard let member = try directory.certificate(role).get() else { return nil }
    let bytes = try key ?? directory.readKey(role).get()
    if case .failure(let fault) = Authority.load(member.certificate, key: bytes, at: now) { return fault.description }
    return nil
  } catch {
    return "\(error)"
  }
}

private func json(_ member: AuthorityDirectory.Member, _ place: AuthorityPlace) -> JSONText {
  let directory = place.directory
  let authority = member.certificate
  let certificate = authority.certificate
  return .object([
    ("role", .string("\(member.role)")),
    ("certificate", .string(directory.certificatePath(member.role))),
    ("key", .string(keyStatus(member.role, place))),
    ("subject", .string(certificate.subject)),
    ("serial", .string(certificate.serialNumber)),
    ("fingerprint_sha256", .string(colons(authority.fingerprint))),
    ("pin", .string(certificate.publicKeyPin.description)),
    ("not_before", .string(Dates.time(certificate.notBefore))),
    ("not_after", .string(Dates.time(certificate.notAfter))),
    ("days_left", .number(Int(Dates.days(from: now, until: certificate.notAfter)))),
    ("permitted", .strings(authority.permitted.map(\.description))),
    ("excluded", .strings(authority.excluded.map(\.description))),
  ])
}

private func colons(_ bytes: [UInt8]) -> String {
  bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined(separator: ":")
}

// MARK: export

nonisolated func authorityExportCommand(_ options: Arguments) throws -> Int32 {
  try options.refuseOperands()
  let format = options.values["format"] ?? "pem"
  let isBundle = options.flags.contains("bundle")
  let role = try options.values["only"].map(readRole)
  if isBundle && (format == "der" || role != nil) {
    throw UsageError(message: "'--bundle' goes with neither '--only' nor '--format der'")
  }
  guard let place = authorityDirectory(options) else { return 1 }
  let directory = place.directory
  let bytes = isBundle ? try bundle(place) : try export(directory, format, role: role)
  guard let file = options.values["output"] else {
    Output.answer(bytes: bytes)
    return 0
  }
  if case .failure(let error) = Files.replace(file, bytes, mode: 0o644) {
    throw AuthorityDirectoryFault(cannot: "write", file, error)
  }
  return 0
}

private func readRole(_ text: String) throws -> AuthorityDirectory.Role {
  guard let role = AuthorityDirectory.Role.allCases.first(where: { "\($0)" == text }) else {
    throw UsageError(message: "'--only' takes active, next or previous, not '\(text)'")
  }
  return role
}

private func bundle(_ place: AuthorityPlace) throws -> [UInt8] {
  guard let bundle = try TrustFiles(place.directory, anchors: place.anchors, at: now).bundle else {
    throw AuthorityDirectoryFault("the system has no bundle of anchors to merge with")
  }
  return bundle
}

private func export(
  _ directory: AuthorityDirectory, _ format: String, role: AuthorityDirectory.Role?
) throws -> [UInt8] {
  let members = try directory.live(at: now).filter { role == nil || $0.role == role }
  guard let first = members.first else {
    throw AuthorityDirectoryFault("there is no authority of that kind in \(directory.path)")
  }
  if format == "pem" { return members.flatMap { $0.text.last == 0x0a ? $0.text : $0.text + [0x0a] } }
  guard members.count == 1 else {
    let roles = members.map { "\($0.role)" }.joined(separator: ", ")
    throw AuthorityDirectoryFault("DER holds one certificate, and there are \(roles): say which with '--only'")
  }
  return first.certificate.certificate.der
}
