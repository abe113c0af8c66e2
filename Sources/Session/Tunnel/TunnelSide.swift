// The tunnel that an exchange is, or that it is inside of.

import TLSWire

public struct TunnelSide {
  /// The intercepted tunnel that the request is inside of, or is about to open.
  public internal(set) var interior: Interior? = nil
  /// Which directions have ended.
  var ends = TunnelEnds()
  /// The policy has changed since it was opened.
  var isUnchecked = false
  /// The inspection of a verified tunnel, for as long as it is needed.
  var inspected: InspectedTunnel? = nil
  /// The rule that allowed it in an earlier process, if the policy in force has no rule of that name.
  var formerRule: String? = nil

  /// An enforced rule: the tunnel ends.
  mutating func refuse(_ fault: TunnelFault, _ record: inout ExchangeRecord) {
    inspected = nil
    record.outcome = .tunnelFault(fault)
    record.found.finding = Finding(fault)
  }

  /// An unenforced rule: bytes pass from here on, and the refusal that would have happened is logged.
  mutating func report(_ fault: TunnelFault, _ record: inout ExchangeRecord) {
    inspected = nil
    record.outcome = .tunnelFaultReported(fault)
    record.found.finding = Finding(fault)
  }

  /// The certificates have been checked against the policy; `refusal` nil: they satisfy it. Returns whether the tunnel
  /// goes on.
  mutating func judged(_ refusal: Problem?, enforces: Bool, _ record: inout ExchangeRecord) -> Bool {
    guard let inspected else { preconditionFailure("a verdict that nobody asked for") }
    self.inspected = nil
    if let refusal, enforces {
      record.outcome = .tunnelRefused(refusal.kind)
      record.found.finding = Finding(refusal)
      return false
    }
    // A policy that checks no certificate has seen only the name.
    let sawAll = inspected.accept()
    if refusal == nil, record.way.assurance != .sni, sawAll { record.way.assurance = .exact }
    return true
  }
}

/// Which directions of a tunnel have ended.
struct TunnelEnds: OptionSet {
  let rawValue: UInt8

  static let client = TunnelEnds(rawValue: 1 << 0)
  static let upstream = TunnelEnds(rawValue: 1 << 1)
}
