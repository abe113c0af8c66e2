// A tunnel that systemd keeps while no daemon runs: its record and its two sockets, in one parcel.
//
// A parcel may come from another version of the program. Anything that is not exactly as expected is closed, and the
// log says why. Tests: StoredTunnelTests, Tests/EndToEndTests/test_tunnels_over_restarts.py.

import Bytes
import Session
import Transport

struct StoredTunnel: Sendable {
  let state: TunnelState
  let client: Descriptor
  let upstream: Descriptor
  /// Whether it counts for `connections_per_host`.
  var holdsPlace = false

  /// The name that all of them are stored under. One is enough: a parcel is complete in itself, and all are forgotten
  /// together.
  static let name: StaticString = "tunnel"
  static let nameText = name.description

  /// Why a parcel cannot be used.
  enum Fault: Error, CustomStringConvertible {
    case unopened(SystemError)
    case unreadable
    case record(TunnelStateFault)
    case noConnection

    var description: String {
      switch self {
      case .unopened(let error): "expected a record and two sockets: \(error)"
      case .unreadable: "its record cannot be read"
      case .record(let fault): fault.description
      case .noConnection: "two TCP connections were expected"
      }
    }
  }

  /// The sockets stay open here, and belong to the caller.
  func pack() -> DescriptorParcel? {
    var record = ByteBuffer()
    state.write(to: &record)
    guard case .success(let file) = MemoryFile.create(named: "sallyport-tunnel", record) else { return nil }
    defer { file.close() }
    return try? DescriptorParcel.pack([file, client, upstream]).get()
  }

  /// The parcel is not changed.
  static func unpack(_ parcel: Descriptor) throws(Fault) -> StoredTunnel {
    let contents: [Descriptor]
    switch DescriptorParcel.open(parcel, count: 3) {
    case .success(let found): contents = found
    case .failure(let error): throw .unopened(error)
    }
    let file = contents[0]
    defer { file.close() }
    do throws(Fault) {
      return StoredTunnel(
        state: try read(file), client: try connection(contents[1]), upstream: try connection(contents[2]))
    } catch {
      contents[1].close()
      contents[2].close()
      throw error
    }
  }

  private static func read(_ file: Descriptor) throws(Fault) -> TunnelState {
    guard let bytes = MemoryFile.read(file, limit: TunnelState.longestRecord) else { throw .unreadable }
    do throws(TunnelStateFault) {
      return try TunnelState(reading: bytes.bytes)
    } catch {
      throw .record(error)
    }
  }

  private static func connection(_ descriptor: Descriptor) throws(Fault) -> Descriptor {
    guard descriptor.isInternetStream, descriptor.adopt() else { throw .noConnection }
    return descriptor
  }
}
