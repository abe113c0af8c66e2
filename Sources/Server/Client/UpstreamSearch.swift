// Where the current request goes, and what opens a connection there.

import Policy
import Session
import Upstream

struct UpstreamSearch {
  /// nil: it is not known yet.
  private(set) var destination: Destination?
  /// What looks for a connection now.
  private(set) var connector: Connector?

  /// The destination of the request, by the first of its routes. Its host has to be in the workspace if it is not known
  /// yet.
  mutating func destination(of exchange: borrowing Exchange, _ live: LivePolicy, _ worker: Worker) -> Destination {
    if let destination { return destination }
    let routes = worker.routes.list(of: exchange.record.ruled.decision?.rule, live)
    let found = worker.upstreams.acquire(
      worker.workspace.decisions.host, port: exchange.upstream.port, exchange.originSecurity(live),
      by: worker.routes.firstOpen(routes, now: worker.now))
    destination = found
    return found
  }

  /// Changes to another route to the same host and port.
  mutating func turn(to route: RouteState, _ worker: Worker) -> Destination {
    guard let old = destination else { preconditionFailure("a connector without a destination") }
    let turned = worker.upstreams.acquire(
      CanonicalHost(canonical: old.host, address: old.literal), port: old.port, old.security, by: route)
    worker.upstreams.release(old, now: worker.now)
    destination = turned
    return turned
  }

  /// The destination was acquired for a tunnel that goes on.
  mutating func goOn(to destination: Destination) { self.destination = destination }

  mutating func begin(_ connector: Connector) { self.connector = connector }

  /// The connector has come to an end.
  mutating func end() { connector = nil }

  /// The connector, which is of no more use.
  mutating func takeConnector() -> Connector? {
    let taken = connector
    connector = nil
    return taken
  }

  /// The exchange is over.
  mutating func release(_ worker: Worker) {
    if let destination { worker.upstreams.release(destination, now: worker.now) }
    destination = nil
  }
}
