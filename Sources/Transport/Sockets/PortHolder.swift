// Who listens on a port of this machine, from /proc: for messages of commands and of a start that fails. Everyone may
// read which sockets exist and whose they are. Only its owner and root may see the process of a socket. Tests:
// test_commands.py.

import Glibc

/// A listening TCP socket, and the process that has it.
public struct PortHolder: Sendable {
  public let userID: UInt32
  /// nil if this user may not look.
  public let process: Int32?
  /// The name of that process, as ps(1) shows it.
  public let program: String?

  /// The largest table of sockets, or name of a process, in bytes: 100,000 sockets.
  private static let largestTableBytes = 16 << 20

  /// The socket that keeps the proxy from listening on `address`: on the same address, or on all addresses. nil: none,
  /// or it is in another network namespace.
  public static func listening(on address: SocketAddress) -> PortHolder? {
    let entries = table("/proc/net/tcp", isIPv4: true) + table("/proc/net/tcp6", isIPv4: false)
    let found = entries.first { entry in
      guard entry.address.port == address.port else { return false }
      if entry.address.isEveryAddress || address.isEveryAddress {
        return entry.address.isIPv4 == address.isIPv4 || entry.address.isEveryAddress
      }
      return entry.address == address
    }
    guard let found else { return nil }
    let process = holder(ofSocket: found.inode)
    return PortHolder(userID: found.userID, process: process, program: process.flatMap(name))
  }

  private struct Entry {
    let address: SocketAddress
    let userID: UInt32
    let inode: String
  }

  /// The listening sockets of /proc/net/tcp or tcp6 (proc(5)).
  private static func table(_ path: String, isIPv4: Bool) -> [Entry] {
    guard case .success(let bytes) = Files.read(path, limit: largestTableBytes) else { return [] }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").dropFirst().compactMap { line in
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      let listening = "0A"
      guard words.count > 9, words[3] == listening, let userID = UInt32(words[7]),
        let address = address(words[1], isIPv4: isIPv4)
      else { return nil }
      return Entry(address: address, userID: userID, inode: String(words[9]))
    }
  }

  /// `0100007F:0C38`: 32-bit words in the byte order of this machine, then the port.
  private static func address(_ text: Substring, isIPv4: Bool) -> SocketAddress? {
    let parts = text.split(separator: ":")
    guard parts.count == 2, let port = UInt16(parts[1], radix: 16) else { return nil }
    let digits = Array(parts[0])
    let words = stride(from: 0, to: digits.count, by: 8).compactMap { begin -> UInt32? in
      guard begin + 8 <= digits.count, let word = UInt32(String(digits[begin..<begin + 8]), radix: 16) else {
        return nil
      }
      return UInt32(bigEndian: word)
    }
    if isIPv4 {
      return words.count == 1 ? SocketAddress(high: 0, low: UInt64(words[0]), port: port, isIPv4: true) : nil
    }
    guard words.count == 4 else { return nil }
    let high = UInt64(words[0]) << 32 | UInt64(words[1])
    let low = UInt64(words[2]) << 32 | UInt64(words[3])
    return SocketAddress(high: high, low: low, port: port, isIPv4: false)
  }

  private static func holder(ofSocket inode: String) -> Int32? {
    let wanted = "socket:[\(inode)]"
    guard case .success(let processes) = Files.expand("/proc/[0-9]*") else { return nil }
    for process in processes {
      // For another user's process, nothing matches.
      guard case .success(let descriptors) = Files.expand(process + "/fd/*") else { continue }
      if descriptors.contains(where: { target($0) == wanted }) {
        return Int32(process.dropFirst("/proc/".count))
      }
    }
    return nil
  }

  private static func target(_ link: String) -> String? {
    var buffer = [CChar](repeating: 0, count: 64)
    let count = readlink(link, &buffer, buffer.count)
    return count > 0 ? String(decoding: buffer.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self) : nil
  }

  private static func name(_ process: Int32) -> String? {
    guard case .success(let bytes) = Files.read("/proc/\(process)/comm", limit: largestTableBytes) else { return nil }
    return String(decoding: bytes.prefix { $0 != 0x0a }, as: UTF8.self)
  }
}

extension PortHolder: CustomStringConvertible {
  /// `nginx (process 812, user 33)`
  public var description: String {
    let user = Users.name(of: userID) ?? "\(userID)"
    guard let process else { return "a process of user \(user)" }
    return "\(program ?? "a program") (process \(process), user \(user))"
  }
}
