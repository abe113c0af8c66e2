// The local authority, if a rule needs one: loaded to run, and checked by `check`.

import Policy
import Security
import Transport

extension Policy {
  /// The first rule that needs an authority.
  private var interceptingRule: Rule? { rules.first { $0.connect == .intercept } }

  private var authorityDirectory: AuthorityDirectory { AuthorityDirectory(path: configuration.authority.directory) }

  /// nil if no rule intercepts.
  func loadAuthority() -> Result<Authority?, AuthorityDirectoryFault> {
    guard interceptingRule != nil else { return .success(nil) }
    let seconds = Clock.wall / 1000
    return authorityDirectory.load(key: configuration.authority.key, at: seconds).map { authority in
      // Best effort: 'sallyport env' reports files that are out of date.
      _ = try? TrustFiles(authorityDirectory, anchors: configuration.trust.pem, at: seconds).refresh()
      return authority
    }
  }

  /// The certificate of the authority that signs; nil if no rule needs one, or it cannot be read.
  var authorityCertificate: AuthorityCertificate? {
    guard interceptingRule != nil, case .success(let member?) = authorityDirectory.certificate(.active) else {
      return nil
    }
    return member.certificate
  }

  /// What would keep the daemon from starting, now or soon. A user other than root may be unable to read a key that the
  /// daemon can.
  func authorityDiagnostic() -> Diagnostic? {
    // This user may not read the key, and the loader has already reported that.
    guard let rule = interceptingRule, !configuration.authority.isKeyWithheld else { return nil }
    let seconds = Clock.wall / 1000
    let fault: AuthorityDirectoryFault
    switch authorityDirectory.load(key: configuration.authority.key, at: seconds) {
    case .success(let authority):
      return ExpiryNotice.words(authority.certificate.certificate.notAfter, now: seconds).map {
        Diagnostic(
          .warning, at: rule.location,
          "rule '\(rule.name)' intercepts, and the certificate \(authorityDirectory.certificatePath(.active)) \($0); "
            + "'sallyport ca init' makes the next one")
      }
    case .failure(let found): fault = found
    }
    let severity: Diagnostic.Severity = authorityDirectory.hasAuthority && !Process.isRoot ? .warning : .error
    return Diagnostic(severity, at: rule.location, "rule '\(rule.name)' intercepts, and \(fault)")
  }
}
