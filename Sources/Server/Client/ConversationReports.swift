// What a conversation reports of its exchange, and what its connector has found out about that.

import Bytes
import Policy
import Session
import Transport

extension Conversation {
  func noteNameTime(_ microseconds: Int64) { session.exchange.noteNameTime(microseconds) }
  func noteConnectTime(_ microseconds: Int64) { session.exchange.noteConnectTime(microseconds) }
  func noteParent(_ address: SocketAddress, route: String) {
    session.exchange.noteParent(IPAddress(address), port: address.port, route: route)
  }
  func noteTLSTime(_ microseconds: Int64) { session.exchange.noteTLSTime(microseconds) }

  func report(_ kind: Problem.Kind, _ finding: Finding, isForgiven: Bool, _ worker: Worker) {
    session.exchange.report(kind, finding, isForgiven: isForgiven, worker)
  }

  func tellOfFallBack(_ route: String, _ failure: UpstreamFailure, _ worker: Worker) {
    session.exchange.tellOfFallBack(route, failure, worker)
  }

  func tellOfWait(_ state: WaitState, _ host: String, reason: String, milliseconds: Int64, _ worker: Worker) {
    session.exchange.tellOfWait(state, host, reason: reason, milliseconds: milliseconds, worker)
  }

  func log(_ worker: Worker) {
    session.exchange.log(text: outputs.text, client: peer, isForRest: isForRest, worker)
  }

  func tellBeginning(_ worker: Worker) {
    session.exchange.tellBeginning(text: outputs.text, client: peer, worker)
  }
}
