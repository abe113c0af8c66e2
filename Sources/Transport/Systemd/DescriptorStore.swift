// Descriptors that outlive the process: systemd keeps them for a service and passes them at its next start
// (sd_pid_notify_with_fds(3), FileDescriptorStoreMax= in systemd.service(5)).
//
// A notification gets no answer, so the process has to find out whether a descriptor was kept. It therefore stores a
// parcel: one end of a socket pair, with a message in its queue that contains the actual descriptors. The other end,
// the receipt, hangs up if systemd closes the parcel instead of keeping it. A parcel takes one place in the store
// whatever it contains, and is kept or refused as a whole. Opening one leaves it unchanged, so a program that then
// fails to start has taken nothing away from the next. Tests: DescriptorStoreTests,
// Tests/EndToEndTests/test_tunnels_over_restarts.py.

import Bytes
import CLinux
import CSystemd
import Glibc

extension Systemd {
  /// Places in the store; nil if systemd does not say: before version 254, or if it did not start the program.
  public static var storePlaces: Int? { Files.environment("FDSTORE").flatMap { Int($0) } }

  /// Asks systemd to keep a descriptor; the caller still has to close it. Whether it is kept shows later; false:
  /// systemd could not be asked.
  ///
  /// FDPOLL=0: a connection that is reset while it is kept is not dropped. The next process finds out and logs it; and
  /// a connection with both ends of stream announced may still contain bytes.
  public static func store(_ descriptor: Descriptor, as name: StaticString) -> Bool {
    var number = descriptor.number
    return sd_pid_notify_with_fds(0, 0, "FDSTORE=1\nFDPOLL=0\nFDNAME=\(name)", &number, 1) > 0
  }

  /// Closes everything that is kept under the name.
  public static func forget(_ name: StaticString) { notify("FDSTOREREMOVE=1\nFDNAME=\(name)") }

  /// Waits until systemd has processed all earlier notifications (sd_notify_barrier(3)); false: not in time.
  public static func waitUntilHeard(milliseconds: Int64) -> Bool {
    sd_notify_barrier(0, UInt64(milliseconds) * 1000) > 0
  }
}

/// Descriptors packed into one.
public struct DescriptorParcel {
  /// The descriptor to store. After that it may be closed here.
  public let parcel: Descriptor
  /// Hangs up as soon as no process has the parcel any more.
  public let receipt: Descriptor

  /// `contents`: 1 to 7 descriptors, which stay open here too. An empty parcel only shows whether it is kept.
  public static func pack(_ contents: [Descriptor]) -> Result<DescriptorParcel, SystemError> {
    var ends: [Int32] = [-1, -1]
    let made = cl_parcel_create(&ends)
    guard made >= 0 else { return .failure(SystemError(-made)) }
    let packed = DescriptorParcel(parcel: Descriptor(number: ends[0]), receipt: Descriptor(number: ends[1]))
    if contents.isEmpty { return .success(packed) }
    let sent = cl_parcel_send(ends[1], contents.map(\.number), contents.count)
    if sent < 0 {
      packed.parcel.close()
      packed.receipt.close()
      return .failure(SystemError(-sent))
    }
    return .success(packed)
  }

  /// Whether the parcel is still there, after `waitUntilHeard`.
  public var isKept: Bool { receipt.isSilent }

  /// Copies of a parcel's contents, which must be `count` descriptors.
  public static func open(_ parcel: Descriptor, count: Int) -> Result<[Descriptor], SystemError> {
    var numbers = [Int32](repeating: -1, count: count)
    let found = cl_parcel_peek(parcel.number, &numbers, count)
    return found < 0 ? .failure(SystemError(-found)) : .success(numbers.map { Descriptor(number: $0) })
  }
}

/// Bytes in memory with a descriptor.
public enum MemoryFile {
  /// `name` is for a person who looks at a process's descriptors.
  public static func create(named name: StaticString, _ bytes: borrowing ByteBuffer) -> Result<Descriptor, SystemError>
  {
    let number = cl_memory_file(name.description)
    guard number >= 0 else { return .failure(SystemError(-number)) }
    let file = Descriptor(number: number)
    var written = 0
    while written < bytes.count {
      let readable = unsafe bytes.unsafeReadable
      let result = unsafe cl_write(number, readable.baseAddress.map { $0 + written }, readable.count - written)
      guard result > 0 else {
        file.close()
        return .failure(result < 0 ? SystemError(Int32(truncatingIfNeeded: -result)) : .noMemory)
      }
      written += result
    }
    return .success(file)
  }

  /// All bytes of a regular file; nil if it is not one, has more than `limit`, or cannot be read.
  public static func read(_ file: Descriptor, limit: Int) -> ByteBuffer? {
    let size = cl_regular_file_size(file.number)
    guard (0...limit).contains(size) else { return nil }
    var bytes = ByteBuffer()
    bytes.reserve(max(1, size))
    while bytes.count < size {
      let place = bytes.count
      var result = 0
      _ = unsafe bytes.fillTail { tail in
        result = unsafe cl_read_at(file.number, tail.baseAddress, min(tail.count, size - place), place)
        return max(0, result)
      }
      // Another process cut it short.
      guard result > 0 else { return nil }
    }
    return bytes
  }
}

extension Descriptor {
  /// Whether it is a TCP connection, or was one.
  public var isInternetStream: Bool {
    sd_is_socket(number, AF_INET, CL_SOCK_STREAM, 0) > 0 || sd_is_socket(number, AF_INET6, CL_SOCK_STREAM, 0) > 0
  }
}
