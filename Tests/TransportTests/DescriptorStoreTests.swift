// Parcels of descriptors, and what shows that one has been closed. That systemd keeps them, and a daemon finds them again, is
// shown by Tests/EndToEndTests/test_tunnels_over_restarts.py and Tests/SystemTests/test_booted_tunnels.py.

import Bytes
import Glibc
import Testing

@testable import Transport

@Suite struct DescriptorStoreTests {
  private func file(_ text: StaticString) throws -> Descriptor {
    var bytes = ByteBuffer()
    bytes.append(text)
    return try MemoryFile.create(named: "test", bytes).get()
  }

  private func text(_ file: Descriptor, limit: Int = 100) -> String? {
    guard let bytes = MemoryFile.read(file, limit: limit) else { return nil }
    return bytes.bytes.string
  }

  @Test func whatIsPackedIsFoundInItsOrder() throws {
    let files = [try file("one"), try file("two"), try file("three")]
    let packed = try DescriptorParcel.pack(files).get()
    packed.receipt.close()
    files.forEach { $0.close() }
    let found = try DescriptorParcel.open(packed.parcel, count: 3).get()
    #expect(found.map { text($0) } == ["one", "two", "three"])
    (found + [packed.parcel]).forEach { $0.close() }
  }

  /// A program that fails to start has opened it for nothing.
  @Test func aParcelIsNotEmptiedByOpeningIt() throws {
    let content = try file("here")
    let packed = try DescriptorParcel.pack([content]).get()
    for _ in 0..<3 {
      let found = try DescriptorParcel.open(packed.parcel, count: 1).get()
      #expect(text(found[0]) == "here")
      found[0].close()
    }
    [content, packed.parcel, packed.receipt].forEach { $0.close() }
  }

  @Test func aParcelWithAnotherNumberOfThingsIsRefusedAndNothingIsLeftOpen() throws {
    let ends = try #require(Pipe.open())
    for count in [1, 2, 4, 7] {
      let packed = try DescriptorParcel.pack(Array(repeating: ends.writeEnd, count: count)).get()
      if case .success = DescriptorParcel.open(packed.parcel, count: 3) { Issue.record("\(count) were taken for 3") }
      packed.parcel.close()
      packed.receipt.close()
    }
    ends.writeEnd.close()
    // The pipe is at its end once nobody can write to it.
    var buffer = ByteBuffer()
    buffer.reserve(10)
    let read = ends.readEnd.read(into: &buffer)
    #expect(read == .ended)
    ends.readEnd.close()
  }

  @Test func whatIsNoParcelIsRefused() throws {
    let other = try file("no socket")
    let empty = try DescriptorParcel.pack([]).get()
    for descriptor in [other, empty.parcel] {
      if case .success = DescriptorParcel.open(descriptor, count: 3) { Issue.record("it was opened") }
    }
    [other, empty.parcel, empty.receipt].forEach { $0.close() }
  }

  @Test func theReceiptTellsThatTheParcelIsGone() throws {
    let content = try file("x")
    for contents in [[], [content]] {
      let packed = try DescriptorParcel.pack(contents).get()
      // As systemd has it: a copy of its own.
      let copy = Descriptor(number: dup(packed.parcel.number))
      packed.parcel.close()
      #expect(packed.isKept)
      copy.close()
      #expect(!packed.isKept)
      packed.receipt.close()
    }
    content.close()
  }

  @Test func filesAreReadWhole() throws {
    let file = try file("content")
    #expect(text(file) == "content")
    // Where somebody has read before does not matter, and nobody moves it.
    var buffer = ByteBuffer()
    buffer.reserve(10)
    _ = lseek(file.number, 3, SEEK_SET)
    #expect(text(file) == "content")
    let read = file.read(into: &buffer)
    #expect(read == .moved(4))
    file.close()
    let empty = try self.file("")
    #expect(text(empty) == "")
    empty.close()
  }

  @Test func whatIsTooLongOrNoFileIsNotRead() throws {
    let file = try file("content")
    #expect(text(file, limit: 7) == "content")
    #expect(text(file, limit: 6) == nil)
    file.close()
    let ends = try #require(Pipe.open())
    #expect(text(ends.readEnd) == nil)
    ends.close()
  }

  @Test func onlyConnectionsOfTheInternetAreConnections() throws {
    let loopback = SocketAddress(high: 0, low: 0x7f00_0001, port: 0, isIPv4: true)
    let listener = try Listener.open(loopback, probes: false).get()
    let outgoing = try Outgoing.open(listener.address).get()
    let local = try DescriptorParcel.pack([]).get()
    #expect(outgoing.descriptor.isInternetStream)
    #expect(!listener.descriptor.isInternetStream)
    #expect(!local.parcel.isInternetStream)
    [listener.descriptor, outgoing.descriptor, local.parcel, local.receipt].forEach { $0.close() }
  }

  /// Without a service manager nothing is stored, and nobody is waited for.
  @Test func nobodyKeepsAnythingWithoutAServiceManager() throws {
    let packed = try DescriptorParcel.pack([]).get()
    #expect(!Systemd.store(packed.parcel, as: "tunnel"))
    packed.parcel.close()
    packed.receipt.close()
  }
}
