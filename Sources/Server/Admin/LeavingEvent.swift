// An event as it leaves: a server-sent event with its members as JSON, or a line for people (EventText).
// Tests: EventTextTests, test_admin_events.py.

import Bytes
import Policy

/// An event for all who watch. Each of its forms is written once, when the first of them takes it.
final class LeavingEvent {
  let event: ProxyEvent
  private(set) lazy var line = Self.line(event.kind.rawValue, event.members)
  private(set) lazy var message = Self.message(event.kind.rawValue) { event.write(to: &$0) }

  init(_ event: ProxyEvent) { self.event = event }

  static func line(_ kind: String, _ members: [(String, JSONText)]) -> String {
    EventText.line(kind, members) + "\n"
  }

  /// A server-sent event.
  static func message(_ kind: String, _ write: (inout ByteBuffer) -> Void) -> String {
    var out = ByteBuffer()
    out.append("event: \(kind)\ndata: ")
    write(&out)
    out.append("\n\n")
    return out.bytes.string
  }
}
