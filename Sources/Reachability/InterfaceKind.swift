// The kind of an interface: from the operator's setting, then the driver, then the hardware, then the name.

import Bytes

public enum InterfaceKind {
  /// `hardwareType` is ARPHRD_…, `deviceType` the DEVTYPE of its uevent in sysfs, `isWireless` whether sysfs has a
  /// `wireless` or `phy80211` directory for it; `named` is [reachability.interfaces].
  public static func of(
    name: String, hardwareType: UInt16, deviceType: String?, isWireless: Bool, named: [String: ReachabilityStatus]
  ) -> ReachabilityStatus {
    if let kind = named[name] { return kind }
    // Only this mark distinguishes a modem that speaks Ethernet over USB from a cable. The same applies to wifi.
    if deviceType == "wwan" { return .wwan }
    if deviceType == "wlan" || isWireless { return .wifi }
    return ofHardware(hardwareType) ?? ofName(name)
  }

  /// nil for tunnels and for other interfaces without a mark of their medium.
  private static func ofHardware(_ type: UInt16) -> ReachabilityStatus? {
    switch type {
    case ethernet, loopback: .wired
    case wireless, wirelessPrism, wirelessRadiotap: .wifi
    case pointToPoint, rawIP: .wwan
    default: nil
    }
  }

  /// The first letters of systemd's names (systemd.net-naming-scheme(7)), and the kernel's own `eth`.
  private static func ofName(_ name: String) -> ReachabilityStatus {
    if name.hasPrefix("ww") { return .wwan }
    if name.hasPrefix("wl") { return .wifi }
    if name.hasPrefix("en") || name.hasPrefix("eth") { return .wired }
    return .unknown
  }

  /// The value of the line `DEVTYPE=` in a uevent file (/sys/class/net/NAME/uevent).
  public static func deviceType(inUevent text: Span<UInt8>) -> String? {
    var begin = 0
    while begin < text.count {
      let end = text.firstIndex(of: 0x0a, from: begin) ?? text.count
      if end - begin > key.utf8CodeUnitCount, text.equals(begin..<begin + key.utf8CodeUnitCount, key) {
        return text.extracting(begin + key.utf8CodeUnitCount..<end).string
      }
      begin = end + 1
    }
    return nil
  }

  private static let key: StaticString = "DEVTYPE="

  // ARPHRD_… of linux/if_arp.h.
  private static let ethernet: UInt16 = 1
  private static let pointToPoint: UInt16 = 512
  private static let rawIP: UInt16 = 519
  private static let loopback: UInt16 = 772
  private static let wireless: UInt16 = 801
  private static let wirelessPrism: UInt16 = 802
  private static let wirelessRadiotap: UInt16 = 803
}
