// What a conversation tells of itself: its line in the log, its counters, and events for whoever watches.

import Bytes
import Policy
import Session
import Transport

extension Conversation {
  /// Tells what a rule or a pin set that only reports would have refused.
  func report(_ kind: Problem.Kind, _ detail: String, isForgiven: Bool, _ worker: Worker) {
    session.noteReport(kind, isForgiven: isForgiven)
    if kind == .pinMismatch { tellOfPins(detail, worker) }
    worker.shared.log.event(.warning, "\(tag) would be refused: \(detail)")
  }

  /// `ref=7F3K2A rule=payments`: by which lines of one exchange are found.
  var tag: String {
    var text = ByteBuffer()
    session.record.reference.write(to: &text)
    return "ref=\(text.bytes.string) rule=\(session.rule?.name ?? "-")"
  }

  func tellOfPins(_ detail: String, _ worker: Worker) {
    guard worker.shared.events.isWatched else { return }
    var json = ByteBuffer()
    json.append("{\"ref\":\"")
    session.record.reference.write(to: &json)
    json.append("\",\"rule\":")
    json.append(json: session.rule?.name ?? "")
    json.append(",\"detail\":")
    json.append(json: detail)
    json.append("}")
    worker.shared.events.post(.pinMismatch, json: json.bytes.string)
  }

  func log(_ worker: Worker) {
    switch session.record.outcome {
    case .tunnelFault(let fault): worker.shared.log.event(.warning, "\(tag) tunnel refused: \(fault.sentence)")
    case .tunnelFaultReported(let fault):
      worker.shared.log.event(.warning, "\(tag) would be refused: \(fault.sentence)")
    default: break
    }
    let rule = session.rule?.name
    let milliseconds = worker.now - session.record.begun
    worker.statistics.note(session.record, rule: rule, isTunnel: session.isTunnel, milliseconds: milliseconds)
    worker.recent.note(
      session.record, rule: rule, client: peer, totalMilliseconds: milliseconds, text: outputs.text.bytes)
    tell(milliseconds, worker)
    guard session.policy.configuration.log.access else { return }
    AccessLine(record: session.record, rule: rule, client: peer, totalMilliseconds: milliseconds).write(
      worker.shared.log.format, text: outputs.text, to: &worker.logLines)
  }

  /// Tells those who watch that the exchange is over.
  private func tell(_ milliseconds: Int64, _ worker: Worker) {
    let events = worker.shared.events
    guard events.isWatched else { return }
    var line = ByteBuffer()
    AccessLine(record: session.record, rule: session.rule?.name, client: peer, totalMilliseconds: milliseconds).write(
      .json, text: outputs.text, to: &line)
    events.post(.finished, json: line.bytes.string)
    if session.record.violation != nil { events.post(.violation, json: line.bytes.string) }
  }
}
