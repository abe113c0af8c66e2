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

  /// nil if no rule intercepts.
  func load() -> Result<Authority?, AuthorityDirectoryFault> {
    guard interceptingRule != nil else { return .success(nil) }
    let seconds = Clock.wall / 1000
    return directory.load(key: settings.key, at: seconds).map { authority in
      // Best effort: 'sallyport env' reports files that are out of date.
      _ = try? TrustFiles(directory, anchors: trust.pem, at: seconds).refresh()
      return authority
    }
  }

  /// The certificate of the authority that signs; nil if no rule needs one, or it cannot be read.
  var certificate: AuthorityCertificate? {
    guard interceptingRule != nil, case .success(let member?) = directory.certificate(.active) else {
      return nil
    }
    return member.certificate
  }

  /// What would keep the daemon from starting, now or soon. A user other than root may be unable to read a key that the
  /// daemon can.
  var diagnostic: Diagnostic? {
    // This user may not read the key, and the loader has already reported that.
    guard let rule = interceptingRule, !settings.isKeyWithheld else { return nil }
    let seconds = Clock.wall / 1000
    let fault: AuthorityDirectoryFault
    switch directory.load(key: settings.key, at: seconds) {
    case .success(let authority):
      return ExpiryNotice.words(authority.certificate.certificate.notAfter, now: seconds).map {
        Diagnostic(
          .warning, at: rule.location,
          "rule '\(rule.name)' intercepts, and the certificate \(directory.certificatePath(.active)) \($0); "
            + "'sallyport ca init' makes the next one")
      }
    case .failure(let found): fault = found
    }
    let severity: Diagnostic.Severity = directory.hasAuthority && !Process.isRoot ? .warning : .error
    return Diagnostic(severity, at: rule.location, "rule '\(rule.name)' intercepts, and \(fault)")
  }
}
