// How a connection reaches its destination, as far as a session needs to know.

import Bytes
import Policy
import Reachability
import Security

/// The path that a connection takes.
public struct UpstreamWay: Sendable {
  /// Name of the route.
  public let route: String
  /// The kind of link that it uses.
  public let link: ReachabilityStatus
  /// Whether it leads to this machine itself.
  public let leadsHome: Bool
  /// The parent proxy, `proxy.office.example:3128`, that requests are sent to in absolute-form (RFC 9112, 3.2.2); nil:
  /// they are sent to the destination.
  public let parent: String?
  /// Additional lines in the head for the parent, each with its line end.
  public var parentLines: [UInt8]
  /// The protocol on the connection.
  public var wire = HTTPProtocol.http11
  /// Attempts to answer a Digest challenge of the parent; nil: none is answered.
  public let digest: DigestAttempts?

  public init(
    route: String, link: ReachabilityStatus = .unknown, leadsHome: Bool = false, parent: String? = nil,
    parentLines: [UInt8] = [], digest: DigestAttempts? = nil
  ) {
    self.route = route
    self.link = link
    self.leadsHome = leadsHome
    self.parent = parent
    self.parentLines = parentLines
    self.digest = digest
  }

  public static let direct = UpstreamWay(route: Route.direct.name)
}

/// Why no upstream could be opened.
public struct UpstreamFailure: Error, Sendable {
  public let problem: Problem

  public init(
    _ kind: Problem.Kind, _ detail: String, difference: Difference? = nil, receivedStatus: Int? = nil
  ) {
    problem = Problem(kind, detail, difference: difference, receivedStatus: receivedStatus)
  }
}
