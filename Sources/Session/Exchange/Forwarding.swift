// Temporary.
import Bytes
import HTTP1
import Policy
import Security

extension Exchange {
  public var rule: Rule? { ruling.rule }
  public var enforces: Bool { ruling.enforces }
  public var timeouts: Timeouts { ruling.timeouts }
  public var security: SecurityPolicy { ruling.security }
  public var allowsCellularAccess: Bool { ruling.allowsCellularAccess }
  public var serviceType: ServiceType { ruling.serviceType }
  public var cachePolicy: CachePolicy { ruling.cachePolicy }
  public var resumesDownloads: Bool { ruling.resumesDownloads }
  public var setsAuthorization: Bool { ruling.setsAuthorization }
  public var askTerms: AskTerms { ruling.askTerms }
  public var answeredItself: Bool { record.answeredItself }
  public var refusedItsAnswer: Bool { record.refusedItsAnswer }
  public var isTextCut: Bool { record.isTextCut }
  public func tunnelState(client: TunnelState.Place, host: [UInt8], text: Span<UInt8>) -> TunnelState? {
    TunnelState(self, client: client, host: host, text: text)
  }
  public static func problem(
    ofTunnel interior: Interior, openedBy sender: Sender, with credential: ProxyCredential?, _ policy: Policy,
    _ workspace: inout Workspace
  ) -> Problem? { interior.problem(openedBy: sender, with: credential, policy, &workspace) }
}
