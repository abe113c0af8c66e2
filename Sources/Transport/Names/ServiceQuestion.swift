// Asks systemd about the service of this process, over D-Bus (org.freedesktop.systemd1(5)). A service learns of its end
// only by a signal, and before version 254 nothing else gives the size of its descriptor store.
//
// A machine may have no bus, and the answer may not come in time: the caller then does without. Blocks, for as long as
// the caller allows.
// Tests: Tests/EndToEndTests/test_tunnels_over_restarts.py, which plays the bus.

import CSystemd
import Glibc

/// systemd's answer.
public struct ServiceAnswer: Equatable, Sendable {
  /// Whether the service is stopped to be started again at once; false if it is to stay stopped, or systemd was not
  /// asked to stop it.
  public let isRestarted: Bool
  /// Places in the descriptor store.
  public let storePlaces: Int
}

extension Systemd {
  /// nil if systemd could not be asked, or did not answer in time.
  public static func askOfService(milliseconds: Int64) -> ServiceAnswer? {
    guard let question = ServiceQuestion(deadline: Clock.monotonic + milliseconds) else { return nil }
    defer { question.close() }
    return question.answer()
  }
}

/// One connection to the bus, for as long as it takes.
private struct ServiceQuestion {
  private let bus: OpaquePointer
  private let deadline: Int64

  private static let manager = "org.freedesktop.systemd1"
  /// The unit of the asking process.
  private static let unit = "/org/freedesktop/systemd1/unit/self"

  init?(deadline: Int64) {
    var opened: OpaquePointer? = nil
    // The machine's systemd does not know a service of a user's own systemd.
    let result = sd_pid_get_user_unit(0, nil) >= 0 ? sd_bus_open_user(&opened) : sd_bus_open_system(&opened)
    guard result >= 0, let opened else { return nil }
    bus = opened
    self.deadline = deadline
  }

  func close() { sd_bus_close_unref(bus) }

  func answer() -> ServiceAnswer? {
    guard isReady() else { return nil }
    var places: UInt32 = 0
    let service = "org.freedesktop.systemd1.Service"
    let hasPlaces = property("FileDescriptorStoreMax", of: Self.unit, interface: service, type: "u") { value in
      Self.read(value, "u", into: &places)
    }
    guard hasPlaces else { return nil }
    var job: String? = nil
    let hasJob = property("Job", of: Self.unit, interface: "org.freedesktop.systemd1.Unit", type: "(uo)") { value in
      var number: UInt32 = 0
      var path: UnsafePointer<CChar>? = nil
      guard sd_bus_message_enter_container(value, Self.code("r"), "uo") > 0, Self.read(value, "u", into: &number),
        Self.read(value, "o", into: &path)
      else { return false }
      // Number 0 and the path "/" mean none.
      if number != 0 { job = path.map { String(cString: $0) } }
      return true
    }
    guard hasJob else { return nil }
    guard let job else { return ServiceAnswer(isRestarted: false, storePlaces: Int(places)) }
    var isRestarted = false
    let hasType = property("JobType", of: job, interface: "org.freedesktop.systemd1.Job", type: "s") { value in
      var type: UnsafePointer<CChar>? = nil
      guard Self.read(value, "s", into: &type), let type else { return false }
      isRestarted = ["restart", "try-restart"].contains(String(cString: type))
      return true
    }
    return hasType ? ServiceAnswer(isRestarted: isRestarted, storePlaces: Int(places)) : nil
  }

  private var microsecondsLeft: UInt64 { UInt64(max(0, deadline - Clock.monotonic)) * 1000 }

  /// Waits until the bus has admitted us; a call would wait for that without our deadline.
  private func isReady() -> Bool {
    while true {
      let state = sd_bus_is_ready(bus)
      if state != 0 { return state > 0 }
      let processed = sd_bus_process(bus, nil)
      if processed < 0 || microsecondsLeft == 0 { return false }
      if processed == 0, sd_bus_wait(bus, microsecondsLeft) < 0 { return false }
    }
  }

  /// Asks for a property of the type `contents`, and passes it to `take`; false if it does not exist.
  private func property(
    _ name: String, of object: String, interface: String, type contents: String, take: (OpaquePointer) -> Bool
  ) -> Bool {
    var made: OpaquePointer? = nil
    guard
      sd_bus_message_new_method_call(bus, &made, Self.manager, object, "org.freedesktop.DBus.Properties", "Get") >= 0,
      let call = made
    else { return false }
    defer { sd_bus_message_unref(call) }
    for word in [interface, name] where sd_bus_message_append_basic(call, Self.code("s"), word) < 0 { return false }
    var answered: OpaquePointer? = nil
    let left = microsecondsLeft
    guard left > 0, sd_bus_call(bus, call, left, nil, &answered) >= 0, let reply = answered else { return false }
    defer { sd_bus_message_unref(reply) }
    return sd_bus_message_enter_container(reply, Self.code("v"), contents) > 0 && take(reply)
  }

  private static func read<Value>(_ message: OpaquePointer, _ type: Unicode.Scalar, into value: inout Value) -> Bool {
    withUnsafeMutablePointer(to: &value) { sd_bus_message_read_basic(message, code(type), $0) > 0 }
  }

  /// A D-Bus type is one ASCII character.
  private static func code(_ type: Unicode.Scalar) -> CChar { CChar(truncatingIfNeeded: type.value) }
}
