// Who sends a request, as far as anybody knows.

import Bytes
import Reachability

public struct Sender: Sendable {
  /// The program at the other end of the connection; nil: it is not of this machine, or nobody has looked.
  public var client: LocalClient?
  /// From where it connects; nil: not said.
  public var address: IPAddress?
  /// The user of `credentials` whose password it knows; nil: none was asked for, or named.
  public var proxyUser: String?
  /// Path of the executable that it runs, as `ProgramFinder` tells it; nil: not known.
  public var program: String?

  public init(
    client: LocalClient? = nil, address: IPAddress? = nil, proxyUser: String? = nil, program: String? = nil
  ) {
    self.client = client
    self.address = address
    self.proxyUser = proxyUser
    self.program = program
  }

  /// A program that is known runs on this machine, whoever's it is.
  public mutating func nameClientOfProgram() {
    if client == nil, program != nil { client = LocalClient(userID: LocalClient.noUser, user: nil, cgroup: []) }
  }
}

/// Who asks, and by what link the machine leaves; nil: not known.
public struct Asker: Sendable {
  public var sender: Sender
  public var link: ReachabilityStatus?

  public init(_ sender: Sender = Sender(), link: ReachabilityStatus? = nil) {
    self.sender = sender
    self.link = link
  }
}
