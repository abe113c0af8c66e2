// Kerberos tokens for parents, one for each connection to a parent that asks for Negotiate. Making one may mean waiting
// for a key distribution center, for as long as krb5.conf(5) says. So each Kerberos client has its own thread: a center
// that does not answer keeps no other client waiting.

import Bytes
import Policy
import Security
import Transport

/// Makes tokens for one Kerberos client at one parent.
final class TokenMint: Sendable {
  typealias Outcome = Result<[UInt8], KerberosToken.Fault>

  private struct Request {
    let lookUp: LookUp
    let completion: @Sendable (Outcome) -> Void
  }

  private struct Waiting {
    var requests: [Request] = []
    var isStarted = false
  }

  /// How many requests are added between two removals of those that were called off. A center that does not answer
  /// blocks the thread for a minute, and clients that give up meanwhile leave their requests here.
  private static let requestsPerSweep = 256

  private let client: KerberosClient
  private let host: String
  private let waiting = Locked(Waiting())
  private let wake = Wake()

  init(_ client: KerberosClient, host: String) {
    self.client = client
    self.host = host
  }

  /// `completion` runs on the thread of the mint, and must only pass the outcome on. It is not called if `lookUp` is
  /// called off.
  func make(_ lookUp: LookUp, _ completion: @escaping @Sendable (Outcome) -> Void) {
    waiting.withLock { waiting in
      if waiting.requests.count.isMultiple(of: Self.requestsPerSweep) {
        waiting.requests.removeAll { !$0.lookUp.isWanted }
      }
      waiting.requests.append(Request(lookUp: lookUp, completion: completion))
      if waiting.isStarted { return }
      // Otherwise this one waits until its time is over, or the next one can start the thread.
      waiting.isStarted = tryStartThread(named: "kerberos") { while true { Self.turn(self) } } == nil
    }
    wake.signal()
  }

  /// See `startThread`.
  @inline(never)
  private static func turn(_ mint: TokenMint) {
    _ = Poll.either(mint.wake.descriptor, mint.wake.descriptor, milliseconds: -1)
    mint.wake.clear()
    let requests = mint.waiting.withLock { waiting in
      let taken = waiting.requests
      waiting.requests = []
      return taken
    }
    var outcome: Outcome? = nil
    for request in requests where request.lookUp.isWanted {
      // A request that has waited for one failure has waited long enough.
      if case .failure = outcome {
      } else {
        outcome = KerberosToken.make(keytab: mint.client.keytab, principal: mint.client.principal, host: mint.host)
      }
      if let outcome { request.completion(outcome) }
    }
  }
}

/// The mints of all loops, by client and parent.
final class TokenMints: Sendable {
  private struct Place: Hashable {
    let client: KerberosClient
    let host: String
  }

  private let mints = Locked<[Place: TokenMint]>([:])

  func mint(for client: KerberosClient, at parent: Route.Parent) -> TokenMint {
    let host = parent.host.bytes.span.string
    return mints.withLock { mints in
      if let known = mints[Place(client: client, host: host)] { return known }
      let made = TokenMint(client, host: host)
      mints[Place(client: client, host: host)] = made
      return made
    }
  }
}
