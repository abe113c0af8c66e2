// The files of the local authority, in the directory of [authority].
//
//   authority.pem  authority.key   the authority that signs
//   next.pem       next.key        one that waits, so that clients can learn to trust it before it signs
//   previous.pem   previous.key    the one that signed before; clients may still know no other
//   authorities.pem                the certificates of all that have not expired, for programs that add a file to
//                                  what they trust
//   bundle.pem                     the same after the anchors of the system and of [trust], for programs that replace
//                                  what they trust by a file
//   truststore.jks                 the same for Java
//
// A roll-over is `ca init` (makes next), time for clients to get the new bundle, then `ca activate` (next signs, and
// the old one becomes previous). `ca activate --previous` goes back. Only files that can be made again are ever
// overwritten: the last three, and a previous authority if there is a newer one.
//
// Each file appears in one step. If an activation is interrupted at any step, the same command completes it.

import Policy
import Security
import Transport

/// Why the files are not a valid authority, or cannot be changed.
struct AuthorityDirectoryFault: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }

  init(_ path: String, _ fault: AuthorityFault) { self.init("\(path): \(fault)") }
  init(cannot verb: String, _ path: String, _ error: SystemError) {
    let why =
      error.isForeignLink
      ? "a symbolic link stands there, or on the way, that another user could have put there; it is not followed"
      : "\(error)"
    self.init("cannot \(verb) \(path): \(why)")
  }
}

struct AuthorityDirectory {
  enum Role: String, CaseIterable {
    case active = "authority"
    case next
    case previous
  }

  /// An authority that clients have to trust, now or soon.
  struct Member {
    let role: Role
    let certificate: AuthorityCertificate
    /// The contents of the file.
    let text: [UInt8]
  }

  /// Of a certificate or a key, in bytes: far above the real size of either.
  private static let largestFileBytes = 1 << 20
  private static let certificateMode: UInt32 = 0o644
  private static let keyMode: UInt32 = 0o600
  /// Users who may read the certificates look them up here.
  private static let directoryMode: UInt32 = 0o755
  /// Permission bits that a key must not have: write for its group, read or write for all. Its group may read it, so a
  /// daemon can use a key that it cannot replace.
  private static let exposingBits: UInt32 = 0o027
  /// Permission bits that neither the directory nor a certificate in it may have: who can write to one can put another
  /// authority there.
  private static let replacingBits: UInt32 = 0o022

  let path: String

  func certificatePath(_ role: Role) -> String { "\(path)/\(role.rawValue).pem" }
  func keyPath(_ role: Role) -> String { "\(path)/\(role.rawValue).key" }
  var authoritiesPath: String { "\(path)/authorities.pem" }
  var bundlePath: String { "\(path)/bundle.pem" }
  var javaStorePath: String { "\(path)/truststore.jks" }

  var hasAuthority: Bool { Files.isReadable(certificatePath(.active)) }

  // MARK: Reading

  /// nil if there is no such file.
  func certificate(_ role: Role) -> Result<Member?, AuthorityDirectoryFault> {
    let file = certificatePath(role)
    switch Files.readGuarded(file, limit: Self.largestFileBytes) {
    case .failure(let error) where error.isAbsence: return .success(nil)
    case .failure(let error): return .failure(AuthorityDirectoryFault(cannot: "read", file, error))
    case .success(let (_, mode)) where mode & Self.replacingBits != 0: return .failure(Self.replaceable(file, mode))
    case .success(let (text, _)):
      return AuthorityCertificate.read(text)
        .map { Member(role: role, certificate: $0, text: text) }
        .mapError { AuthorityDirectoryFault(file, $0) }
    }
  }

  private static func replaceable(_ path: String, _ mode: UInt32) -> AuthorityDirectoryFault {
    AuthorityDirectoryFault(
      "\(path) has mode 0\(String(mode & 0o7777, radix: 8)): whoever can write to it can put another authority there; "
        + "chmod go-w it")
  }

  /// The authorities that have not expired at `seconds` since 1970. The one that signs comes first, even if it has
  /// expired.
  func live(at seconds: Int64) throws -> [Member] {
    guard let active = try certificate(.active).get() else {
      throw AuthorityDirectoryFault("there is no authority in \(path); 'sallyport ca init' makes one")
    }
    let others = try [Role.next, .previous].compactMap { try certificate($0).get() }
    return [active] + others.filter { $0.certificate.certificate.notAfter > seconds }
  }

  /// The authority that signs, with its key: `key` if the configuration has one from elsewhere.
  func load(key: [UInt8]?, at seconds: Int64) -> Result<Authority, AuthorityDirectoryFault> {
    do {
      guard let member = try certificate(.active).get() else {
        throw AuthorityDirectoryFault("there is no authority in \(path); 'sallyport ca init' makes one")
      }
      if let mode = Files.mode(path), mode & Self.replacingBits != 0 {
        throw Self.replaceable(path, mode)
      }
      let bytes = try key ?? readKey(.active).get()
      switch Authority.load(member.certificate, key: bytes, at: seconds) {
      case .success(let authority): return .success(authority)
      case .failure(let fault): throw misfit(fault, hasOwnKey: key != nil)
      }
    } catch let fault as AuthorityDirectoryFault {
      return .failure(fault)
    } catch {
      return .failure(AuthorityDirectoryFault("\(error)"))
    }
  }

  private func misfit(_ fault: AuthorityFault, hasOwnKey: Bool) -> AuthorityDirectoryFault {
    let file = certificatePath(.active)
    guard fault == .keyMismatch else { return AuthorityDirectoryFault(file, fault) }
    if hasOwnKey { return AuthorityDirectoryFault("\(file): the key of [authority] is not that of the certificate") }
    return AuthorityDirectoryFault(
      "\(keyPath(.active)) is not the key of \(file); "
        + "'sallyport ca activate' completes an activation that was interrupted"
    )
  }

  func readKey(_ role: Role) -> Result<[UInt8], AuthorityDirectoryFault> {
    let file = keyPath(role)
    switch Files.readGuarded(file, limit: Self.largestFileBytes) {
    case .failure(let error): return .failure(AuthorityDirectoryFault(cannot: "read", file, error))
    case .success(let (_, mode)) where mode & Self.exposingBits != 0:
      let digits = String(mode, radix: 8)
      return .failure(
        AuthorityDirectoryFault(
          "\(file) has mode 0\(digits): the key must not be open to all, nor writable by its group; chmod 0600 it, "
            + "and make another authority if anyone may have read it"))
    case .success(let (bytes, _)): return .success(bytes)
    }
  }

  // MARK: Making

  /// Makes an authority: the one that signs if there is none, otherwise the next one. Returns which it is.
  func establish(permitted: [NameSubtree], host: String, date: String, at seconds: Int64) throws -> Role {
    let role: Role = Files.isThere(certificatePath(.active)) ? .next : .active
    for file in [certificatePath(role), keyPath(role)] where Files.isThere(file) { throw Self.inTheWay(file, role) }
    let made: NewAuthority
    switch Authority.make(host: host, date: date, permitted: permitted, at: seconds) {
    case .success(let authority): made = authority
    case .failure(let fault): throw AuthorityDirectoryFault("no authority made: \(fault)")
    }
    if case .failure(let error) = Files.createDirectory(path, mode: Self.directoryMode) {
      throw AuthorityDirectoryFault(cannot: "make", path, error)
    }
    try create(keyPath(role), made.key, mode: Self.keyMode, role: role)
    do {
      try create(certificatePath(role), made.certificate, mode: Self.certificateMode, role: role)
    } catch {
      _ = Files.remove(keyPath(role))
      throw error
    }
    return role
  }

  private func create(_ file: String, _ bytes: [UInt8], mode: UInt32, role: Role) throws {
    guard case .failure(let error) = Files.create(file, bytes, mode: mode) else { return }
    throw error.isPresence ? Self.inTheWay(file, role) : AuthorityDirectoryFault(cannot: "write", file, error)
  }

  private static func inTheWay(_ file: String, _ role: Role) -> AuthorityDirectoryFault {
    let advice =
      role == .next ? "'sallyport ca activate' lets it sign" : "it is not overwritten: move it away if it is not needed"
    return AuthorityDirectoryFault("\(file) exists already; \(advice)")
  }

  // MARK: Activating

  /// Lets `incoming` sign. The one that signed becomes previous; if `incoming` is the previous one, it becomes next.
  /// `key` is from the configuration, for an authority whose key is not in the directory.
  func activate(_ incoming: Role, key: [UInt8]?, at seconds: Int64) throws {
    let outgoing: Role = incoming == .previous ? .next : .previous
    // It is read once more when it no longer signs, and a fault would then stop what is half done.
    _ = try certificate(.active).get()
    guard let member = try certificate(incoming).get() else {
      throw AuthorityDirectoryFault(
        "there is no \(certificatePath(incoming)) to activate; 'sallyport ca init' makes one")
    }
    if outgoing == .next, Files.isThere(certificatePath(.next)) {
      throw AuthorityDirectoryFault("\(certificatePath(.next)) is in the way: move it away first")
    }
    switch try whereKeyIs(of: member, incoming, key, seconds: seconds) {
    case .inFile:
      try keep(outgoing)
      try step("replace", at: keyPath(.active), Files.move(keyPath(incoming), to: keyPath(.active)))
    case .elsewhere:
      try keep(outgoing)
      if Files.isThere(keyPath(.active)) { try step("remove", at: keyPath(.active), Files.remove(keyPath(.active))) }
    case .alreadyInPlace: break
    }
    try step(
      "replace", at: certificatePath(.active), Files.move(certificatePath(incoming), to: certificatePath(.active)))
  }

  private enum KeyPlace {
    case inFile
    /// The configuration has it.
    case elsewhere
    /// An activation was interrupted between the key and the certificate.
    case alreadyInPlace
  }

  private func whereKeyIs(
    of member: Member, _ role: Role, _ configured: [UInt8]?, seconds: Int64
  ) throws -> KeyPlace {
    func fits(_ key: [UInt8]) -> AuthorityFault? {
      switch Authority.load(member.certificate, key: key, at: seconds) {
      case .success: nil
      case .failure(let fault): fault
      }
    }
    if Files.isThere(keyPath(role)) {
      if let fault = fits(try readKey(role).get()) { throw AuthorityDirectoryFault(certificatePath(role), fault) }
      return .inFile
    }
    if Files.isThere(keyPath(.active)), fits(try readKey(.active).get()) == nil { return .alreadyInPlace }
    if let configured, fits(configured) == nil { return .elsewhere }
    throw AuthorityDirectoryFault(
      "\(keyPath(role)) is missing, and no other key is that of \(certificatePath(role))")
  }

  /// Gives the authority that signs a second name, under which it is kept.
  private func keep(_ outgoing: Role) throws {
    let pairs = [(certificatePath(.active), certificatePath(outgoing)), (keyPath(.active), keyPath(outgoing))]
    for (from, to) in pairs {
      if Files.isThere(from) {
        try step("write", at: to, Files.copyName(from, to: to))
      } else if Files.isThere(to) {
        try step("remove", at: to, Files.remove(to))
      }
    }
  }

  private func step(_ verb: String, at path: String, _ result: Result<Void, SystemError>) throws {
    if case .failure(let error) = result { throw AuthorityDirectoryFault(cannot: verb, path, error) }
  }
}
