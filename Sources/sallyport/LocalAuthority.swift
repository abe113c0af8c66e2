// The local authority, if a rule needs one: loaded to run, and checked by `check`.

import Policy
import Security
import Transport

/// The authority that a policy names.
struct LocalAuthority {
  private let settings: AuthoritySettings
  private let trust: TrustSource
  private let directory: AuthorityDirectory
  /// The first rule that needs an authority.
  private let interceptingRule: Rule?

  init(of policy: Policy) {
    settings = policy.configuration.authority
    trust = policy.configuration.trust
    directory = AuthorityDirectory(path: settings.directory)
    interceptingRule = policy.rules.first { $0.connect == .intercept }
  }

  /// nil if no rule intercepts. `warn` is told in a sentence what may stay as it was, and why.
  func load(warn: (String) -> Void) -> Result<Authority?, AuthorityDirectoryFault> {
    guard interceptingRule != nil else { return .success(nil) }
    let seconds = Clock.wall / 1000
    return directory.load(key: settings.key, at: seconds).map { authority in
      switch trustFiles(at: seconds) {
      case .success(let files): tell(of: files.refresh(), warn: warn)
      case .failure(let fault): warn(staleness(fault))
      }
      return authority
    }
  }

  private func trustFiles(at seconds: Int64) -> Result<TrustFiles, any Error> {
    Result { try TrustFiles(directory, anchors: trust.pem, at: seconds) }
  }

  /// Of files that are not there, `sallyport env` tells those who would be pointed at them.
  private func tell(of states: TrustFiles.States, warn: (String) -> Void) {
    let files = [
      (states.authorities, directory.authoritiesPath), (states.bundle, directory.bundlePath),
      (states.javaStore, directory.javaStorePath),
    ]
    for (state, path) in files where state == .stale {
      warn("\(path) is out of date and cannot be written; until that is mended, programs go on with it")
    }
  }

  private func staleness(_ fault: any Error) -> String {
    "\(fault); until that is mended, \(directory.authoritiesPath) and \(directory.bundlePath) stay as they are"
  }

  /// The certificate of the authority that signs; nil if no rule needs one, or it cannot be read.
  var certificate: AuthorityCertificate? {
    guard interceptingRule != nil, case .success(let member?) = directory.certificate(.active) else {
      return nil
    }
    return member.certificate
  }

  /// What would keep the daemon from starting or programs from trusting it, now or soon. A user other than root may be
  /// unable to read a key that the daemon can.
  var diagnostics: [Diagnostic] {
    // This user may not read the key, and the loader has already reported that.
    guard let rule = interceptingRule, !settings.isKeyWithheld else { return [] }
    let seconds = Clock.wall / 1000
    func diagnostic(_ severity: Diagnostic.Severity, _ sentence: String) -> Diagnostic {
      Diagnostic(severity, at: rule.location, "rule '\(rule.name)' intercepts, and \(sentence)")
    }
    var found: [Diagnostic] = []
    switch directory.load(key: settings.key, at: seconds) {
    case .success(let authority):
      if let words = ExpiryNotice.words(authority.certificate.certificate.notAfter, now: seconds) {
        let path = directory.certificatePath(.active)
        found.append(diagnostic(.warning, "the certificate \(path) \(words); 'sallyport ca init' makes the next one"))
      }
    case .failure(let fault):
      found.append(diagnostic(directory.hasAuthority && !Process.isRoot ? .warning : .error, "\(fault)"))
    }
    // What keeps the authority from being loaded is not said twice.
    if case .failure(let fault) = trustFiles(at: seconds), !found.contains(where: { $0.message.hasSuffix("\(fault)") })
    {
      found.append(diagnostic(.warning, staleness(fault)))
    }
    return found
  }
}
