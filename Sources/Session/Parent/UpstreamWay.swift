// How a connection leads to its destination, as far as a session has to know.

import Bytes
import Policy
import Reachability
import Security

/// The way that a connection takes.
public struct UpstreamWay: Sendable {
  /// Name of the route.
  public let route: String
  /// The kind of link that it leaves by.
  public let link: ReachabilityStatus
  /// Whether it leads to this machine itself.
  public let leadsHome: Bool
  /// The parent proxy, `proxy.office.example:3128`, to which requests leave in absolute-form (RFC 9112, 3.2.2); nil: they leave
  /// to the destination.
  public let parent: String?
  /// Lines that the head has more for the parent, each with its line end.
  public var parentLines: [UInt8]
  /// What is spoken on the connection.
  public var wire = HTTPProtocol.http11
  /// What a Digest challenge of the parent is answered with; nil: none is.
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

/// Why no upstream could be had.
public struct UpstreamFailure: Error, Sendable {
  public let problem: Problem

  public init(
    _ kind: Problem.Kind, _ detail: String, difference: Difference? = nil, receivedStatus: Int? = nil
  ) {
    problem = Problem(kind, detail, difference: difference, receivedStatus: receivedStatus)
  }
}

extension Exchange {
  /// A parent's 407 is about the credentials of the route, which are not the client's: to it the answer would read as if this
  /// proxy asked for them.
  func parentWantsCredentials(_ parent: String, _ outputs: borrowing Outputs) -> Problem {
    Problem(
      .parentAuthentication,
      "The parent \(parent) of route '\(record.route ?? "-")' answered 407 for \(destination(outputs)): "
        + (challenged?.remark.map { "the route's digest credentials \($0)." }
          ?? "it expects other credentials than it was given."),
      receivedStatus: 407)
  }
}
