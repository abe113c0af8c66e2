// Tunnels packed for systemd, and what is refused of what comes back.

import Bytes
import Testing
import Transport

@testable import Server
@testable import Session

@Suite struct StoredTunnelTests {
  private static let loopback = SocketAddress(high: 0, low: 0x7f00_0001, port: 0, isIPv4: true)

  /// Two connections: the ends to be stored, and the ends on which is seen what becomes of them.
  private struct Ends {
    let stored: [Descriptor]
    let others: [Descriptor]

    init() throws {
      let listener = try Listener.open(StoredTunnelTests.loopback, probes: false).get()
      var stored: [Descriptor] = []
      var others: [Descriptor] = []
      while stored.count < 2 {
        stored.append(try Outgoing.open(listener.address).get().descriptor)
        while others.count < stored.count {
          if case .accepted(let connection) = listener.accept() { others.append(connection.descriptor) }
        }
      }
      listener.descriptor.close()
      (self.stored, self.others) = (stored, others)
    }

    /// Whether nobody has the stored ends any more.
    var areClosed: Bool { others.allSatisfy { !$0.isSilent } }
  }

  private static func state() -> TunnelState {
    var state = TunnelState(
      client: TunnelState.Place(IPAddress(ipv4: 0x7f00_0001), port: 40_000),
      upstream: TunnelState.Place(IPAddress(ipv4: 0x7f00_0001), port: 443), host: Array("a.example".utf8), port: 443)
    state.status = 200
    state.method = Array("CONNECT".utf8)
    state.target = Array("a.example:443".utf8)
    state.toClient = Array(repeating: 7, count: 100_000)
    return state
  }

  @Test func whatIsPackedIsUnpacked() throws {
    let ends = try Ends()
    let tunnel = StoredTunnel(state: Self.state(), client: ends.stored[0], upstream: ends.stored[1])
    let packed = try #require(tunnel.pack())
    packed.receipt.close()
    ends.stored.forEach { $0.close() }
    let areHeld = ends.others.allSatisfy { $0.isSilent }
    #expect(areHeld, "by the parcel")
    let found = try StoredTunnel.unpack(packed.parcel)
    packed.parcel.close()
    #expect(found.state == Self.state())
    var word = ByteBuffer()
    word.append("x")
    let written = found.client.write(word)
    #expect(written == .moved(1))
    var heard = ByteBuffer()
    heard.reserve(10)
    while ends.others[0].isSilent {}
    let read = ends.others[0].read(into: &heard)
    #expect(read == .moved(1))
    #expect(ends.others[1].isSilent)
    found.client.close()
    found.upstream.close()
    #expect(ends.areClosed)
    ends.others.forEach { $0.close() }
  }

  @Test func aTunnelWithAFalseRecordIsRefusedAndClosed() throws {
    for record: StaticString in ["", "junk", "sallyport tunnel"] {
      let ends = try Ends()
      var bytes = ByteBuffer()
      bytes.append(record)
      let file = try MemoryFile.create(named: "test", bytes).get()
      let packed = try DescriptorParcel.pack([file] + ends.stored).get()
      ([file, packed.receipt] + ends.stored).forEach { $0.close() }
      #expect(throws: StoredTunnel.Fault.self) { try StoredTunnel.unpack(packed.parcel) }
      packed.parcel.close()
      #expect(ends.areClosed)
      ends.others.forEach { $0.close() }
    }
  }

  @Test func aTunnelWithoutConnectionsIsRefusedAndClosed() throws {
    var record = ByteBuffer()
    Self.state().write(to: &record)
    for wrong in 1...2 {
      let ends = try Ends()
      let file = try MemoryFile.create(named: "test", record).get()
      var contents = [file] + ends.stored
      contents[wrong] = file
      let packed = try DescriptorParcel.pack(contents).get()
      ([file, packed.receipt] + ends.stored).forEach { $0.close() }
      #expect(throws: StoredTunnel.Fault.self) { try StoredTunnel.unpack(packed.parcel) }
      packed.parcel.close()
      #expect(ends.areClosed)
      ends.others.forEach { $0.close() }
    }
  }

  @Test func whatIsNoParcelIsRefused() throws {
    let ends = try Ends()
    #expect(throws: StoredTunnel.Fault.self) { try StoredTunnel.unpack(ends.stored[0]) }
    (ends.stored + ends.others).forEach { $0.close() }
  }
}
