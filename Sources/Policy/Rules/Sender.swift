// Who sends a request, as far as known.

import Bytes
import Reachability

public struct Sender: Sendable {
  /// The program at the other end of the connection; nil: it is not on this machine, or was not looked up.
  public var client: LocalClient?
  /// Where it connects from; nil: not given.
  public var address: IPAddress?
  /// The user of `credentials` that it authenticated as; nil: none was required, or named.
  public var proxyUser: String?
  /// Path of its executable, as `ProgramFinder` reports it; nil: unknown.
  public var program: String?

  public init(
    client: LocalClient? = nil, address: IPAddress? = nil, proxyUser: String? = nil, program: String? = nil
  ) {
    self.client = client
    self.address = address
    self.proxyUser = proxyUser
    self.program = program
  }

  /// A known program runs on this machine, whoever its user is.
  public mutating func nameClientOfProgram() {
    if client == nil, program != nil { client = LocalClient(userID: LocalClient.noUser, user: nil, cgroup: []) }
  }
}

/// Who asks, and the link that carries the default route; nil: unknown.
public struct Asker: Sendable {
  public var sender: Sender
  public var link: ReachabilityStatus?
  /// In milliseconds since 1970; 0: not said.
  public var wall: Int64

  public init(_ sender: Sender = Sender(), link: ReachabilityStatus? = nil, wall: Int64 = 0) {
    self.sender = sender
    self.link = link
    self.wall = wall
  }
}
