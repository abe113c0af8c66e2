// The TLS of an intercepted client, as its conversation goes on with it.
import Bytes
import Policy
import Session
import Transport

extension Conversation {
  // MARK: TLS of an intercepted client

  /// It speaks TLS, and its requests come later.
  var isInHandshake: Bool { handshake?.isUnderWay ?? false }

  /// CONNECT to a host that is intercepted: grants it if there is a leaf for the host.
  func intercept(_ worker: Worker) {
    let action: Action
    do throws(UpstreamFailure) {
      handshake = try ClientHandshake(live, peer: peer, worker)
      action = session.exchange.interiorOpened(&worker.workspace, &outputs)
    } catch {
      action = session.exchange.upstreamFailed(error, &worker.workspace, &outputs)
    }
    perform(action, worker)
  }

  func beginClientHandshake(_ worker: Worker) {
    flags.remove(.startsClientHandshake)
    guard let handshake, let interior = session.interior,
      let tls = handshake.begin(for: interior.host, on: descriptor, prefix: clientInput.bytes, now: worker.now)
    else { return close(worker) }
    worker.workspace.pool.reclaim(&clientInput)
    stream.tls = tls
    continueClientHandshake(worker)
  }

  func continueClientHandshake(_ worker: Worker) {
    guard let tls = stream.tls, let handshake else { return }
    switch handshake.goOn(tls, worker.shared.log) {
    case .goesOn: break
    case .failed: close(worker)
    case .done(let isHTTP2):
      self.handshake = nil
      if isHTTP2 { return continueAsHTTP2(worker) }
      session.handshakeDone(now: worker.now)
      // The first request often comes with the end of the handshake.
      readClient(worker)
      guard worker.isDraining, !flags.contains(.closed) else { return }
      // A request that has arrived, and waits for its turn or for the names of its client, is answered.
      if !flags.contains(.rests), !client.isAwaited {
        perform(session.drain(), worker)
      } else {
        session.expectLastExchange()
      }
    }
  }

  func giveUpClientHandshake(_ worker: Worker) {
    handshake?.giveUp(worker.shared.log)
    close(worker)
  }
}
