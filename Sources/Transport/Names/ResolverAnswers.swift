// Answers of the resolver: the remaining validity of a remembered one, and addresses from c-ares.

import Glibc

extension NameAnswer {
  /// A remembered answer with its remaining validity.
  func aged(by now: Int64, until: Int64) -> NameAnswer {
    if case .addresses(let list, _) = self { return .addresses(list, validMilliseconds: until - now) }
    return self
  }
}

extension SocketAddress {
  init?(_ pointer: UnsafeMutablePointer<sockaddr>?) {
    guard let pointer else { return nil }
    if Int32(pointer.pointee.sa_family) == AF_INET {
      let address = pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee.sin_addr.s_addr }
      self.init(high: 0, low: UInt64(UInt32(bigEndian: address)), port: 0, isIPv4: true)
    } else if Int32(pointer.pointee.sa_family) == AF_INET6 {
      let address = pointer.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_addr }
      let halves = withUnsafeBytes(of: address) {
        ($0.loadUnaligned(fromByteOffset: 0, as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
      }
      self.init(high: UInt64(bigEndian: halves.0), low: UInt64(bigEndian: halves.1), port: 0, isIPv4: false)
    } else {
      return nil
    }
  }
}
