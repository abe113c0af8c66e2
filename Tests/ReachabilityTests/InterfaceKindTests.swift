// Of what kind an interface is.

import Bytes
import TestSupport
import Testing

@testable import Reachability

@Suite struct InterfaceKindTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    var type: UInt16 = 65534
    var deviceType: String? = nil
    var isWireless = false
    var named: [String: ReachabilityStatus] = [:]
    let kind: ReachabilityStatus

    var testDescription: String { "\(name), \(type), \(deviceType ?? "-"), \(isWireless), \(named): \(kind)" }
  }

  static let rows = [
    // The operator's word.
    Row(name: "eth0", type: 1, named: ["eth0": .wwan], kind: .wwan),
    Row(name: "wlan0", type: 1, deviceType: "wlan", isWireless: true, named: ["wlan0": .wired], kind: .wired),
    Row(name: "tun0", named: ["tun0": .wifi], kind: .wifi),
    Row(name: "tun0", named: ["tun1": .wifi], kind: .unknown),
    Row(name: "eth0", type: 1, named: ["eth0": .unknown], kind: .unknown),
    Row(name: "lo", type: 772, named: ["lo": .notReachable], kind: .notReachable),
    // The driver's.
    Row(name: "usb0", type: 1, deviceType: "wwan", kind: .wwan),
    Row(name: "wwp0s20f0u6i12", type: 65534, deviceType: "wwan", kind: .wwan),
    Row(name: "wlp2s0", type: 1, deviceType: "wlan", kind: .wifi),
    Row(name: "eth0", type: 1, isWireless: true, kind: .wifi),
    Row(name: "usb0", type: 1, deviceType: "wwan", isWireless: true, kind: .wwan),
    Row(name: "eth0", type: 1, deviceType: "vlan", kind: .wired),
    Row(name: "wg0", deviceType: "wireguard", kind: .unknown),
    Row(name: "wg0", deviceType: "", kind: .unknown),
    // The hardware's.
    Row(name: "lo", type: 772, kind: .wired),
    Row(name: "enp3s0", type: 1, kind: .wired),
    Row(name: "wlan0", type: 1, kind: .wired),
    Row(name: "mon0", type: 801, kind: .wifi), Row(name: "mon0", type: 802, kind: .wifi),
    Row(name: "mon0", type: 803, kind: .wifi),
    Row(name: "mon0", type: 804, kind: .unknown), Row(name: "mon0", type: 800, kind: .unknown),
    Row(name: "ppp0", type: 512, deviceType: "ppp", kind: .wwan), Row(name: "rmnet0", type: 519, kind: .wwan),
    Row(name: "eth0", type: 512, kind: .wwan),
    // The name's.
    Row(name: "wwan0", kind: .wwan), Row(name: "wwp0s1", kind: .wwan), Row(name: "wlan0", kind: .wifi),
    Row(name: "wlx001122334455", kind: .wifi), Row(name: "eth7", kind: .wired), Row(name: "en0", kind: .wired),
    Row(name: "ethernet", kind: .wired), Row(name: "et0", kind: .unknown), Row(name: "w0", kind: .unknown),
    Row(name: "WLAN0", kind: .unknown), Row(name: "tun0", kind: .unknown), Row(name: "wg0", kind: .unknown),
    Row(name: "xwlan0", kind: .unknown), Row(name: "", kind: .unknown),
    Row(name: "sit0", type: 776, kind: .unknown), Row(name: "ib0", type: 32, kind: .unknown),
  ]

  @Test(arguments: rows) func isTold(row: Row) {
    #expect(
      InterfaceKind.of(
        name: row.name, hardwareType: row.type, deviceType: row.deviceType, isWireless: row.isWireless,
        named: row.named) == row.kind)
  }

  static let uevents: [(String, String?)] = [
    ("DEVTYPE=wlan\nINTERFACE=wlan0\nIFINDEX=3\n", "wlan"), ("INTERFACE=eth0\nIFINDEX=2\n", nil),
    ("INTERFACE=wwan0\nIFINDEX=4\nDEVTYPE=wwan", "wwan"), ("DEVTYPE=\n", nil), ("DEVTYPE=", nil), ("", nil),
    ("\n\nDEVTYPE=wlan\n", "wlan"), ("XDEVTYPE=wlan\n", nil), ("INTERFACE=DEVTYPE=wlan\n", nil), ("DEVTYPE", nil),
    ("devtype=wlan\n", nil), ("DEVTYPE=a\nDEVTYPE=b\n", "a"), ("DEVTYPE=\nDEVTYPE=b\n", "b"), ("DEVTYPE=w\0\n", "w\0"),
    ("\n", nil),
  ]

  @Test(arguments: uevents) func theDeviceTypeOfAUeventIsRead(text: String, type: String?) {
    let memory = GuardedMemory(capacity: 4096)
    #expect(memory.lend(Array(text.utf8)) { InterfaceKind.deviceType(inUevent: $0) } == type)
  }
}
