// The outcome of a request that a program makes: the decision on the CONNECT through which it reaches an https origin,
// and on the request itself if the proxy reads it.
//
// This is only the decision, made in the same steps as in `explain` but without texts, so it is fast enough for
// thousands of requests: `[[expect]]`, `diff`. Tests: ForecastTests.

import Bytes
import Reachability

/// The decision on a request, and on the URL that its rule maps it to.
struct MappedDecision {
  /// The decision of the rules on the original request.
  let asked: Decision
  /// Where the rule sends it; nil: to the host that it names.
  let mapping: RequestMapping?
  /// The decision that denies the mapped URL; nil: none.
  let objection: Decision?

  var decision: Decision { objection ?? asked }
}

extension MappedDecision {
  /// The host is in `workspace`. If the rule has a target, it is the target's afterwards.
  init(by policy: Policy, of facts: borrowing RequestFacts, in workspace: inout DecisionWorkspace) {
    asked = policy.decide(facts, in: &workspace)
    mapping = policy.mapping(of: asked, facts, in: &workspace)
    objection = mapping?.objection.flatMap { $0.verdict == .deny ? $0 : nil }
  }
}

/// The outcome of a request.
public struct Forecast: Sendable {
  /// A CONNECT, or a request that the proxy reads.
  public struct Step: Sendable {
    public let decision: Decision
    /// How a tunnel is treated; nil for a request.
    public let connect: ConnectTreatment?
    /// The entry that forbids the literal address that it names; nil: none, or it names no address.
    public let block: AddressMatch?
    /// The path contained bytes above 0x7F, and the rule does not encode them (400).
    public let refusesRawPath: Bool

    /// Whether it proceeds: at once, or after an operator says yes.
    public var isAllowed: Bool { decision.verdict != .deny && block == nil && !refusesRawPath }

    public var verdict: Decision.Verdict { isAllowed ? decision.verdict : .deny }
  }

  /// The CONNECT; nil for a request that needs none.
  public let tunnel: Step?
  /// The request; nil if the tunnel is denied, or the proxy does not read it.
  public let request: Step?

  /// The step that settles it: the last one.
  public let last: Step

  private init(tunnel: Step, request: Step?) {
    self.tunnel = tunnel
    self.request = request
    last = request ?? tunnel
  }

  private init(request: Step) {
    tunnel = nil
    self.request = request
    last = request
  }

  public var verdict: Decision.Verdict { last.verdict }
}

extension NamedRequest {
  /// Whether programs reach it with CONNECT. Programs that send `GET https://…` directly are covered by `absolute`.
  public func needsTunnel(absolute: Bool) -> Bool { isHTTPS && !isTunnel && !absolute }
}

extension Forecast {
  /// `absolute`: the request is sent directly, without CONNECT. `own`: the addresses of the machine.
  public init(
    by policy: Policy, of request: NamedRequest, _ asker: Asker = Asker(), absolute: Bool = false,
    own: OwnAddresses = .unknown
  ) {
    var workspace = DecisionWorkspace()
    func step(_ request: NamedRequest) -> Step {
      Step(by: policy, of: request, asker, own: own, in: &workspace)
    }
    guard request.needsTunnel(absolute: absolute) else {
      let step = step(request)
      if request.isTunnel { self.init(tunnel: step, request: nil) } else { self.init(request: step) }
      return
    }
    let tunnel = step(request.tunnel)
    let isRead = tunnel.isAllowed && tunnel.connect == .intercept
    self.init(tunnel: tunnel, request: isRead ? step(request) : nil)
  }
}

extension Forecast.Step {
  fileprivate init(
    by policy: Policy, of request: NamedRequest, _ asker: Asker, own: OwnAddresses,
    in workspace: inout DecisionWorkspace
  ) {
    let method = Array(request.method.utf8)
    let path = Array(request.path.utf8)
    workspace.host = request.host
    let outcome = MappedDecision(
      by: policy,
      of: RequestFacts(
        scheme: request.isHTTPS ? .https : .http, port: request.port, method: method.span, path: path.span,
        isTunnel: request.isTunnel, sender: asker.sender, link: asker.link ?? .unknown, wall: asker.wall),
      in: &workspace)
    let treatment = request.isTunnel ? policy.treatment(of: outcome.decision) : nil
    let decision = outcome.decision.asTunnel(connect: treatment)
    let address = (outcome.mapping?.target.host ?? request.host).address
    self.init(
      decision: decision, connect: request.isTunnel ? policy.treatment(of: decision) : nil,
      block: address.flatMap { policy.denyingBlock($0, rule: decision.rule, isOwn: own.contains) },
      refusesRawPath: request.isRawPath && decision.verdict != .deny && !policy.request(of: decision).encodesPath)
  }
}
