// Who owns the client's end: answers of a real kernel, made worse by hand. Nobody may be taken for somebody.

import Bytes
import TestSupport
import Testing

@testable import Reachability

@Suite struct SocketDiagnosisTests {
  private let memory = GuardedMemory()

  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let socket: CapturedSocket
    let owner: SocketOwner

    init(_ name: String, _ socket: CapturedSocket, _ owner: SocketOwner) {
      self.name = name
      self.socket = socket
      self.owner = owner
    }

    var testDescription: String { name }
  }

  /// As the kernel said it: in the byte order of the machine, at the end of the header.
  private static func inode(_ socket: CapturedSocket) -> UInt32 {
    (0..<4).reduce(0) { $0 | UInt32(socket.bytes[inode + $1]) << UInt32(8 * $1) }
  }

  private static let established = inode(.established)

  static let captured = [
    Row("a client", .established, .owner(userID: 1234, cgroup: 1, inode: inode(.established))),
    Row(
      "a client over IPv6", .establishedOverIPv6, .owner(userID: 1234, cgroup: 1, inode: inode(.establishedOverIPv6))),
    Row(
      "an IPv6 socket connected to a mapped address", .dualStack, .owner(userID: 0, cgroup: 1, inode: inode(.dualStack))
    ),
    Row(
      "a socket bound to the loopback", .boundToLoopback, .owner(userID: 0, cgroup: 1, inode: inode(.boundToLoopback))),
    Row(
      "a client that has ended its writing", .endedWriting, .owner(userID: 1234, cgroup: 1, inode: inode(.endedWriting))
    ),
    Row(
      "and this is acknowledged", .endedWritingAcknowledged,
      .owner(userID: 1234, cgroup: 1, inode: inode(.endedWritingAcknowledged))),
    Row("a client that has closed", .closed, .unknown(.orphan)),
    Row("both have closed", .timeWait, .unknown(.orphan)),
    Row("the proxy has ended its writing", .closeWait, .unknown(.state(8))),
    Row("a client that waits for its answer", .connecting, .unknown(.state(2))),
    Row("a listener on the port", .listener, .unknown(.mismatch)),
    Row("nothing", .absent, .unknown(.error(2))),
  ]

  @Test(arguments: captured) func isRead(row: Row) {
    #expect(read(row.socket) == row.owner)
  }

  /// The name of a mapped address is not another address.
  @Test(arguments: captured) func isReadUnderMappedAddresses(row: Row) {
    let socket = row.socket
    #expect(
      SocketDiagnosis.read(
        socket.bytes.span, sequence: 9, local: mapped(socket.local), localPort: socket.localPort,
        remote: mapped(socket.remote), remotePort: socket.remotePort) == row.owner)
  }

  private func mapped(_ address: IPAddress) -> IPAddress {
    address.isIPv4 ? IPAddress(ipv6High: 0, low: 0xffff_0000_0000 | address.low) : address
  }

  private func read(_ socket: CapturedSocket, _ bytes: [UInt8]? = nil, sequence: UInt32 = 9) -> SocketOwner? {
    memory.lend(bytes ?? socket.bytes) {
      SocketDiagnosis.read(
        $0, sequence: sequence, local: socket.local, localPort: socket.localPort, remote: socket.remote,
        remotePort: socket.remotePort)
    }
  }

  @Test(arguments: captured) func isNoAnswerToAnotherQuestion(row: Row) {
    #expect(read(row.socket, sequence: 10) == nil)
  }

  @Test(arguments: captured) func isNoAnswerUnlessWhole(row: Row) {
    for count in 0..<row.socket.bytes.count {
      #expect(read(row.socket, Array(row.socket.bytes.prefix(count))) == nil, "\(count) bytes")
    }
  }

  @Test func onlyTheSocketThatWasAskedForCounts() {
    let socket = CapturedSocket.established
    func asked(_ local: IPAddress, _ localPort: UInt16, _ remote: IPAddress, _ remotePort: UInt16) -> SocketOwner? {
      SocketDiagnosis.read(
        socket.bytes.span, sequence: 9, local: local, localPort: localPort, remote: remote, remotePort: remotePort)
    }
    let (port, proxy) = (socket.localPort, socket.remotePort)
    #expect(asked("127.0.0.1", port, "127.0.0.1", proxy) == .owner(userID: 1234, cgroup: 1, inode: Self.established))
    #expect(asked("127.0.0.2", port, "127.0.0.1", proxy) == .unknown(.mismatch))
    #expect(asked("127.0.0.1", port ^ 1, "127.0.0.1", proxy) == .unknown(.mismatch))
    #expect(asked("127.0.0.1", port, "127.0.0.2", proxy) == .unknown(.mismatch))
    #expect(asked("127.0.0.1", port, "127.0.0.1", proxy ^ 1) == .unknown(.mismatch))
    #expect(asked("127.0.0.1", proxy, "127.0.0.1", port) == .unknown(.mismatch))
    #expect(asked("::1", port, "::1", proxy) == .unknown(.mismatch))
  }

  /// What says that a client is gone, where its address is this machine's.
  @Test func onlyAKernelThatHasLookedSaysThatThereIsNone() {
    let absent: [SocketOwner.Doubt] = [.error(2), .state(2), .state(8), .mismatch]
    for doubt in absent { #expect(doubt.isAbsence) }
    let unclear: [SocketOwner.Doubt] = [.error(1), .error(24), .error(95), .malformed, .unanswered, .orphan]
    for doubt in unclear { #expect(!doubt.isAbsence) }
  }

  // MARK: Changed by hand

  /// Where things are in the answer: the header of netlink has 16 bytes.
  private static let state = 16 + 1
  private static let inode = 16 + 68

  static let states: [(UInt8, Bool)] = (0...255).map { ($0, [1, 4, 5].contains($0)) }

  @Test(arguments: states) func onlyAnOpenEndHasAnOwner(state: UInt8, isServed: Bool) {
    var bytes = CapturedSocket.established.bytes
    bytes[Self.state] = state
    let owner = read(.established, bytes)
    let nobody = SocketOwner.unknown(state == 6 ? .orphan : .state(state))
    #expect(owner == (isServed ? .owner(userID: 1234, cgroup: 1, inode: Self.established) : nobody))
    bytes.replaceSubrange(Self.inode..<Self.inode + 4, with: [0, 0, 0, 0])
    #expect(read(.established, bytes) == (isServed ? .unknown(.orphan) : nobody))
  }

  private static func answer(_ payload: [UInt8]) -> [UInt8] { message(20, flags: 0, sequence: 9, payload) }
  private static let header = Array(CapturedSocket.established.bytes[16..<16 + 72])

  static let byHand: [(String, [UInt8], SocketOwner?)] = [
    ("without attributes", answer(header), .owner(userID: 1234, cgroup: nil, inode: established)),
    (
      "a cgroup of eight bytes", answer(header + attribute(21, [1, 2, 3, 4, 5, 6, 7, 8])),
      .owner(userID: 1234, cgroup: UInt64(littleEndian: 0x0807_0605_0403_0201), inode: established)
    ),
    (
      "a cgroup of seven bytes", answer(header + attribute(21, [1, 2, 3, 4, 5, 6, 7])),
      .owner(userID: 1234, cgroup: nil, inode: established)
    ),
    ("an attribute of length 0", answer(header + [0, 0, 21, 0]), .unknown(.malformed)),
    ("an attribute of length 3", answer(header + [3, 0, 21, 0]), .unknown(.malformed)),
    ("an attribute of length 65535", answer(header + [255, 255, 21, 0]), .unknown(.malformed)),
    ("half an attribute", answer(header + [12, 0]), .unknown(.malformed)),
    ("a header that is short of a byte", answer(Array(header.dropLast())), .unknown(.malformed)),
    ("no header", answer([]), .unknown(.malformed)),
    ("another family", answer([1] + header.dropFirst()), .unknown(.malformed)),
    ("an IPv4 answer that says IPv6", answer([10] + header.dropFirst()), .unknown(.mismatch)),
    ("an acknowledgement", message(2, sequence: 9, host(Int32(0))), nil),
    ("an error", message(2, sequence: 9, host(Int32(-111))), .unknown(.error(111))),
    ("half an error", message(2, sequence: 9, [1]), .unknown(.malformed)),
    ("an error that is none", message(2, sequence: 9, host(Int32(5))), .unknown(.malformed)),
    ("the end of a list", message(3, sequence: 9, host(Int32(0))), nil),
    ("nothing", [], nil),
    (
      "an answer to another before it", message(20, sequence: 8, header) + answer(header),
      .owner(userID: 1234, cgroup: nil, inode: established)
    ),
  ]

  @Test(arguments: byHand.indices) func isReadByHand(index: Int) {
    let (name, bytes, owner) = Self.byHand[index]
    #expect(read(.established, bytes) == owner, "\(name)")
  }

  /// Whichever byte of the addresses and ports is changed, it is another socket.
  @Test func anyOtherByteOfTheNumbersIsAnotherSocket() {
    for socket in [CapturedSocket.established, .establishedOverIPv6, .dualStack] {
      let width = socket.bytes[16] == 2 ? 4 : 16
      for position in Array(20..<24) + Array(24..<24 + width) + Array(40..<40 + width) {
        for bit in 0..<8 {
          var bytes = socket.bytes
          bytes[position] ^= 1 << bit
          #expect(read(socket, bytes) == .unknown(.mismatch), "byte \(position), bit \(bit)")
        }
      }
    }
  }

  // MARK: Questions

  private func request(_ local: IPAddress, _ remote: IPAddress, interface: Int32? = nil) -> [UInt8] {
    var buffer = ByteBuffer()
    if let interface {
      SocketDiagnosis.write(
        local: local, localPort: 0x0102, remote: remote, remotePort: 0x0304, interface: interface,
        sequence: 0x0506_0708, to: &buffer)
    } else {
      SocketDiagnosis.write(
        local: local, localPort: 0x0102, remote: remote, remotePort: 0x0304, sequence: 0x0506_0708, to: &buffer)
    }
    return buffer.array
  }

  private func expected(_ family: UInt8, _ local: [UInt8], _ remote: [UInt8], interface: Int32 = 1) -> [UInt8] {
    message(
      20, flags: 1, sequence: 0x0506_0708,
      [family, 6, 0, 0] + host(UInt32.max) + [1, 2, 3, 4] + local + remote + host(interface) + host(UInt32.max)
        + host(UInt32.max))
  }

  private let none12 = [UInt8](repeating: 0, count: 12)

  @Test func aQuestionIsWritten() {
    let ipv4 = expected(2, [10, 1, 2, 3] + none12, [127, 0, 0, 1] + none12)
    #expect(ipv4.count == SocketDiagnosis.requestBytes)
    #expect(request("10.1.2.3", "127.0.0.1") == ipv4)
    #expect(request("::ffff:10.1.2.3", "127.0.0.1") == ipv4)
    #expect(request("::ffff:10.1.2.3", "::ffff:127.0.0.1") == ipv4)
    let one = [UInt8](repeating: 0, count: 15) + [1]
    let other: [UInt8] = [0x20, 1, 0xd, 0xb8] + none12
    #expect(request("2001:db8::", "::1", interface: 4) == expected(10, other, one, interface: 4))
    let half = [UInt8](repeating: 0, count: 10) + [255, 255, 10, 1, 2, 3]
    #expect(request("10.1.2.3", "::1") == expected(10, half, one))
  }

  @Test func aQuestionIsAppendedWithoutAllocation() {
    var buffer = ByteBuffer()
    buffer.reserve(6 + SocketDiagnosis.requestBytes)
    buffer.append("before")
    let capacity = buffer.capacity
    SocketDiagnosis.write(
      local: "127.0.0.1", localPort: 1, remote: "127.0.0.1", remotePort: 2, sequence: 3, to: &buffer)
    #expect(buffer.capacity == capacity)
    #expect(buffer.array.starts(with: Array("before".utf8)))
    #expect(buffer.count == 6 + SocketDiagnosis.requestBytes)
  }
}
