// `throttle` of a request table. Towards the destination: either a packet and a delay, AFNetworking's
// throttleBandwidthWithPacketSize:delay:, or a rate, which is converted into the two here. Towards the client:
// `download`. Tests: SerializerReadingTests.

import Reachability

extension Throttle.Upload {
  /// Twenty packets a second: smooth, at a negligible cost of timers.
  private static let stepMilliseconds: Int64 = 50
  /// Smallest packet for a rate, in bytes: below it, packet headers and system calls outweigh the content.
  private static let smallestPacket: Int64 = 1 << 10

  /// A pace in bytes a second, at least 1: a packet every 50 ms, or at a slow pace a packet of 1 KiB less often.
  init(bytesPerSecond: Int64) {
    let packet = bytesPerSecond / (1000 / Self.stepMilliseconds)
    if packet >= Self.smallestPacket {
      self.init(packetBytes: Int(packet), delayMilliseconds: Self.stepMilliseconds, keepsRate: true)
    } else {
      let delay = (Self.smallestPacket * 1000 + bytesPerSecond - 1) / bytesPerSecond
      self.init(packetBytes: Int(Self.smallestPacket), delayMilliseconds: delay, keepsRate: true)
    }
  }
}

extension Throttle {
  /// In bytes.
  static let packetBounds: ClosedRange<Int64> = 1 << 10...64 << 20
  /// In milliseconds. Largest: as long as origins commonly wait for the next byte of a body.
  static let delayBounds: ClosedRange<Int64> = 1...60_000
  /// In bytes a second.
  static let rateBounds: ClosedRange<Int64> = 1 << 10...1 << 30

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> Throttle? {
    guard let table = reading.table(setting) else { return nil }
    let errorsBefore = reading.errorCount
    var values: [String: Int64] = [:]
    var keys: [String: Setting] = [:]
    var links: [ReachabilityStatus] = []
    for entry in table.settings {
      keys[entry.key] = entry
      switch entry.key {
      case "packet": values["packet"] = reading.quantity(entry, .size, in: Throttle.packetBounds)
      case "delay": values["delay"] = reading.quantity(entry, .duration, in: Throttle.delayBounds)
      case "rate": values["rate"] = reading.quantity(entry, .size, in: Throttle.rateBounds)
      case "download": values["download"] = reading.quantity(entry, .size, in: Throttle.rateBounds)
      case "when": links = LinkCondition.links(entry, by: reading)
      default: reading.unread(entry, of: .throttle)
      }
    }
    guard reading.errorCount == errorsBefore else { return nil }
    if values.isEmpty {
      reading.error(setting, "expected 'packet' and 'delay', 'rate', or 'download'")
      return nil
    }
    let upload = upload(setting, keys, values: values, by: reading)
    guard reading.errorCount == errorsBefore else { return nil }
    return Throttle(upload: upload, downloadBytesPerSecond: values["download"], links: links)
  }

  /// nil: there are no settings for uploads, or they have an error.
  private static func upload(
    _ setting: Setting, _ keys: [String: Setting], values: [String: Int64], by reading: ConfigurationReading
  ) -> Throttle.Upload? {
    switch (values["packet"], values["delay"], values["rate"]) {
    case (nil, nil, let rate?): return Throttle.Upload(bytesPerSecond: rate)
    case (let packet?, let delay?, nil):
      return Throttle.Upload(packetBytes: Int(packet), delayMilliseconds: delay)
    case (nil, nil, nil): break
    case (_?, nil, nil): reading.error(setting, "'delay' must be there, as 'packet' is")
    case (nil, _?, nil): reading.error(setting, "'packet' must be there, as 'delay' is")
    case (_, _, _?):
      keys["rate"].map { reading.error($0, "it stands in place of 'packet' and 'delay', not beside them") }
    }
    return nil
  }
}
