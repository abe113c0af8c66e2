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
      // Best effort: 'sallyport env' reports files that are out of date.
      case .success(let files): _ = files.refresh()
      case .failure(let fault): warn(staleness(fault))
      }
      return authority
    }
  }

  private func trustFiles(at seconds: Int64) -> Result<TrustFiles, any Error> {
    Result { try TrustFiles(directory, anchors: trust.pem, at: seconds) }
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
    let fault: AuthorityDirectoryFault
    switch directory.load(key: settings.key, at: seconds) {
    case .success(let authority):
      var sentences: [String] = []
      if let words = ExpiryNotice.words(authority.certificate.certificate.notAfter, now: seconds) {
        sentences.append(
          "the certificate \(directory.certificatePath(.active)) \(words); 'sallyport ca init' makes the next one")
      }
      if case .failure(let fault) = trustFiles(at: seconds) { sentences.append(staleness(fault)) }
      return sentences.map { Diagnostic(.warning, at: rule.location, "rule '\(rule.name)' intercepts, and \($0)") }
    case .failure(let found): fault = found
    }
    let severity: Diagnostic.Severity = directory.hasAuthority && !Process.isRoot ? .warning : .error
    return [Diagnostic(severity, at: rule.location, "rule '\(rule.name)' intercepts, and \(fault)")]
  }
}
