// Tunnels of the previous daemon: it gave them to systemd when it stopped, and they continue here.
//
// They were allowed when they were opened and stay allowed whatever the configuration says now, as across a reload; its
// times and limits apply to them from here on. They count as connections, and for `connections_per_host`, even if that
// exceeds the limits for new ones. Tests: Tests/EndToEndTests/test_tunnels_over_restarts.py.

import Bytes
import Policy
import Session
import Transport
import Upstream

extension StoredTunnel {
  /// Takes over what systemd kept, and deals it out to the loops. Called once, when nothing can stop the daemon from
  /// starting any more and no loop runs.
  static func takeOver(_ parcels: [Descriptor], for shared: SharedState) {
    if parcels.isEmpty { return }
    let log = shared.log
    var tunnels: [StoredTunnel] = []
    for parcel in parcels {
      do throws(StoredTunnel.Fault) {
        tunnels.append(try StoredTunnel.unpack(parcel))
      } catch {
        log.event(.warning, "a tunnel that systemd kept is closed: \(error)")
      }
      parcel.close()
    }
    // Before a byte moves: if they were passed again after a crash, their records would be out of date.
    Systemd.forget(StoredTunnel.name)
    for (index, var tunnel) in tunnels.enumerated() {
      // Here, not in the loops: the first request of one loop must not come before another loop has counted its
      // tunnels.
      tunnel.holdsPlace = shared.quota.claim(ConnectionQuota.Place(host: tunnel.state.host, port: tunnel.state.port))
      shared.places.take()
      shared.mailboxes[index % shared.mailboxes.count].post(.tunnel(tunnel))
    }
    log.event(.info, .counted(tunnels.count, "open tunnel goes on", plural: "open tunnels go on"))
  }

  /// The tunnel continues in a loop, which has counted its client.
  func goOn(_ worker: Worker) {
    let slot = worker.occupy(.free)
    let place = state.client
    let connection = Accepted(descriptor: client, peer: SocketAddress(place.address, port: place.port))
    let conversation = Conversation(slot: slot, connection, worker)
    worker.reoccupy(slot, .client(conversation))
    conversation.resume(self, worker)
  }
}

extension StoredTunnel {
  /// Its upstream, as if it had just been reached.
  func takeBack(_ worker: Worker) -> Upstream {
    guard let host = state.canonicalHost else { preconditionFailure("a record without a host was accepted") }
    worker.workspace.decisions.host = host
    // Whichever route it has, no other connection will be opened for it.
    let route = worker.routes.direct
    let destination = worker.upstreams.acquire(host, port: state.port, nil, by: route)
    let place = state.upstream
    let candidate = Candidate(
      address: SocketAddress(place.address, port: place.port), path: worker.network.path(to: place.address))
    let line = Line(slot: worker.occupy(.free), candidate, upstream, interest: .read)
    let upstream = worker.upstreams.adopt(line, destination, by: route, on: worker)
    upstream.holdsPlace = holdsPlace
    return upstream
  }
}
