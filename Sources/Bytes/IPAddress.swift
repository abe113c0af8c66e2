// Addresses, and blocks of them.

/// An IPv4 or IPv6 address as a value. An IPv4 address is in the low 32 bits of `low`.
public struct IPAddress: Hashable, Sendable {
  public let high: UInt64
  public let low: UInt64
  public let isIPv4: Bool

  public init(ipv4: UInt32) {
    high = 0
    low = UInt64(ipv4)
    isIPv4 = true
  }

  public init(ipv6High: UInt64, low: UInt64) {
    high = ipv6High
    self.low = low
    isIPv4 = false
  }

  /// The number of bits of an address of this family.
  public var width: Int { isIPv4 ? 32 : 128 }

  /// The IPv4 address inside an IPv4-mapped (RFC 4291), IPv4-compatible, NAT64 (RFC 6052) or 6to4 (RFC 3056) address.
  /// For an address in 64:ff9b:1::/48 (RFC 8215) it is the last 32 bits, one of several possible places.
  public var embeddedIPv4: IPAddress? {
    if isIPv4 { return nil }
    let lowest = UInt32(truncatingIfNeeded: low)
    if high == 0 && (low >> 32 == 0xffff || low >> 32 == 0) && low > 1 { return IPAddress(ipv4: lowest) }
    if high == 0x0064_ff9b_0000_0000 && low >> 32 == 0 { return IPAddress(ipv4: lowest) }
    if isOfLocalNAT64 { return IPAddress(ipv4: lowest) }
    if high >> 48 == 0x2002 { return IPAddress(ipv4: UInt32(truncatingIfNeeded: high >> 16)) }
    return nil
  }

  /// Whether the network's own translator may handle it (RFC 8215).
  private var isOfLocalNAT64: Bool { !isIPv4 && high >> 16 == 0x0064_ff9b_0001 }

  /// Whether `body` returns true for the address, or for an IPv4 address that it embeds.
  ///
  /// A network may divide 64:ff9b:1::/48 as it likes. An address there may embed another one at each place that
  /// RFC 6052, 2.2, defines for a prefix of 48, 56, 64 or 96 bits (those for 32 and 40 overlap the /48 itself). Only
  /// the translator knows which place is used, so all of them count. When one form is read at another form's place, the
  /// result may be in 0.0.0.0/8 or 224.0.0.0/4, which no TCP connection reaches. Such a result only counts if there
  /// is no other.
  public func anyReading(_ body: (IPAddress) -> Bool) -> Bool {
    if body(self) { return true }
    guard let embedded = embeddedIPv4 else { return false }
    if !isOfLocalNAT64 { return body(embedded) }
    // Bits 64 to 71 are never part of the address.
    let places: InlineArray<4, UInt64> = [
      high << 16 & 0xffff_0000 | low >> 40 & 0xffff, high << 24 & 0xff00_0000 | low >> 32 & 0x00ff_ffff,
      low >> 24 & 0xffff_ffff, embedded.low,
    ]
    var isReachable = false
    for index in places.indices {
      let reading = IPAddress(ipv4: UInt32(truncatingIfNeeded: places[index]))
      if reading.low >> 24 == 0 || reading.low >> 28 == 0xe { continue }
      isReachable = true
      if body(reading) { return true }
    }
    return !isReachable && body(embedded)
  }

  /// The IPv4 address of an IPv4-mapped one (::ffff:0:0/96). The kernel connects to that address.
  public var mappedIPv4: IPAddress? {
    guard !isIPv4, high == 0, low >> 32 == 0xffff else { return nil }
    return IPAddress(ipv4: UInt32(truncatingIfNeeded: low))
  }

  public var isLoopback: Bool {
    if isIPv4 { return low >> 24 == 127 }
    return (high == 0 && low == 1) || (embeddedIPv4?.isLoopback ?? false)
  }

  /// 0.0.0.0 or ::, the address of a listener on all addresses.
  public var isUnspecified: Bool { high == 0 && low == 0 }

  /// Reads a dotted quad of four decimal numbers without leading zeros (RFC 3986, 3.2.2, IPv4address).
  public static func parseIPv4(_ text: Span<UInt8>) -> IPAddress? {
    var value: UInt32 = 0
    var parts = 0
    var index = 0
    while parts < 4 {
      let begin = index
      var octet: UInt32 = 0
      while index < text.count, text[index].isASCIIDigit, index - begin < 3 {
        octet = octet * 10 + UInt32(text[index] &- 0x30)
        index += 1
      }
      if index == begin || octet > 255 || (index - begin > 1 && text[begin] == 0x30) { return nil }
      value = value << 8 | octet
      parts += 1
      if parts < 4 {
        guard index < text.count, text[index] == 0x2e else { return nil }
        index += 1
      }
    }
    return index == text.count ? IPAddress(ipv4: value) : nil
  }

  /// Reads an IPv6 address without brackets and without a zone (RFC 3986, 3.2.2, IPv6address).
  public static func parseIPv6(_ text: Span<UInt8>) -> IPAddress? {
    var high: UInt64 = 0
    var low: UInt64 = 0
    var groups = 0
    var gap: Int? = nil
    var index = 0
    func push(_ group: UInt64) {
      high = high << 16 | low >> 48
      low = low << 16 | group
      groups += 1
    }
    if text.count >= 2, text[0] == 0x3a, text[1] == 0x3a {
      gap = 0
      index = 2
    }
    while index < text.count {
      if groups == 8 { return nil }
      let begin = index
      var group: UInt64 = 0
      while index < text.count, index - begin < 4, let digit = text[index].hexadecimalValue {
        group = group << 4 | UInt64(digit)
        index += 1
      }
      if index == begin { return nil }
      if index < text.count, text[index] == 0x2e {
        guard groups <= 6, let tail = parseIPv4(text.extracting(begin..<text.count)) else { return nil }
        push(tail.low >> 16)
        push(tail.low & 0xffff)
        index = text.count
        break
      }
      push(group)
      if index == text.count { break }
      guard text[index] == 0x3a else { return nil }
      index += 1
      if index < text.count, text[index] == 0x3a {
        if gap != nil { return nil }
        gap = groups
        index += 1
      } else if index == text.count {
        return nil
      }
    }
    guard let gap else { return groups == 8 ? IPAddress(ipv6High: high, low: low) : nil }
    if groups > 7 { return nil }
    // Groups after the gap stay where they are; those before it move to the front.
    let behind = groups - gap
    var whole = (high: UInt64(0), low: UInt64(0))
    for position in 0..<8 {
      let source: Int? = position < gap ? position : (position >= 8 - behind ? position - (8 - groups) : nil)
      var group: UInt64 = 0
      if let source {
        let shift = (groups - 1 - source) * 16
        group = (shift >= 64 ? high >> UInt64(shift - 64) : low >> UInt64(shift)) & 0xffff
      }
      whole.high = whole.high << 16 | whole.low >> 48
      whole.low = whole.low << 16 | group
    }
    return IPAddress(ipv6High: whole.high, low: whole.low)
  }

  /// Reads either family; IPv6 with or without brackets.
  public init?(_ text: String) {
    let array = Array(text.utf8)
    let span = array.span
    if let address = Self.parseIPv4(span) {
      self = address
    } else if span.count > 2, span[0] == 0x5b, span[span.count - 1] == 0x5d,
      let address = Self.parseIPv6(span.extracting(1..<span.count - 1))
    {
      self = address
    } else if let address = Self.parseIPv6(span) {
      self = address
    } else {
      return nil
    }
  }

  /// Appends the canonical text (dotted quad, or RFC 5952).
  public func write(to buffer: inout ByteBuffer) { write { buffer.append($0) } }

  /// Emits the canonical text byte by byte, so the destination needs no extra memory.
  public func write(_ emit: (UInt8) -> Void) {
    if isIPv4 { return Self.writeQuad(low, emit) }
    if high == 0 && low >> 32 == 0xffff {
      let prefix: InlineArray<7, UInt8> = [0x3a, 0x3a, 0x66, 0x66, 0x66, 0x66, 0x3a]
      for index in prefix.indices { emit(prefix[index]) }
      return Self.writeQuad(low & 0xffff_ffff, emit)
    }
    // The longest run of two or more zero groups, or the first of several, becomes "::".
    var gap = (begin: 8, count: 1)
    var index = 0
    while index < 8 {
      var run = 0
      while index + run < 8, group(index + run) == 0 { run += 1 }
      if run > gap.count { gap = (index, run) }
      index += max(run, 1)
    }
    index = 0
    while index < 8 {
      if index == gap.begin {
        emit(0x3a)
        emit(0x3a)
        index += gap.count
        continue
      }
      if index != 0 && index != gap.begin + gap.count { emit(0x3a) }
      let value = group(index)
      var shift: UInt64 = value >= 0x1000 ? 12 : value >= 0x100 ? 8 : value >= 0x10 ? 4 : 0
      while true {
        let digit = UInt8(value >> shift & 0xf)
        emit(digit < 10 ? digit + 0x30 : digit + 0x57)
        if shift == 0 { break }
        shift -= 4
      }
      index += 1
    }
  }

  private func group(_ index: Int) -> UInt64 {
    (index < 4 ? high >> UInt64((3 - index) * 16) : low >> UInt64((7 - index) * 16)) & 0xffff
  }

  private static func writeQuad(_ value: UInt64, _ emit: (UInt8) -> Void) {
    var shift: UInt64 = 32
    while shift > 0 {
      shift -= 8
      if shift != 24 { emit(0x2e) }
      let octet = UInt8(value >> shift & 0xff)
      if octet >= 100 { emit(octet / 100 + 0x30) }
      if octet >= 10 { emit(octet / 10 % 10 + 0x30) }
      emit(octet % 10 + 0x30)
    }
  }
}

extension IPAddress: CustomStringConvertible {
  public var description: String {
    var buffer = ByteBuffer()
    write(to: &buffer)
    return buffer.bytes.string
  }
}

/// A CIDR block: all addresses of one family that share their first `length` bits with `address`.
public struct AddressBlock: Hashable, Sendable {
  public let address: IPAddress
  public let length: Int

  /// The bits after `length` must be zero: every block is canonical.
  public init?(address: IPAddress, length: Int) {
    guard length >= 0, length <= address.width, Self.masked(address, length) == address else { return nil }
    self.address = address
    self.length = length
  }

  /// Reads `10.0.0.0/8`, `fe80::/10`, or a single address.
  public init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let address = IPAddress(String(parts[0])) else { return nil }
    if parts.count == 1 {
      self.init(address: address, length: address.width)
    } else {
      guard let length = Int(parts[1]), String(length) == parts[1] else { return nil }
      self.init(address: address, length: length)
    }
  }

  /// `address` with every bit after the first `length` set to zero.
  public static func masked(_ address: IPAddress, _ length: Int) -> IPAddress {
    func mask(_ bits: Int) -> UInt64 { bits <= 0 ? 0 : bits >= 64 ? ~0 : ~(~0 >> UInt64(bits)) }
    if address.isIPv4 { return IPAddress(ipv4: UInt32(truncatingIfNeeded: address.low & mask(length + 32))) }
    return IPAddress(ipv6High: address.high & mask(length), low: address.low & mask(length - 64))
  }

  /// The same block as IPv4 addresses, if all of it is IPv4-mapped (RFC 4291, 2.5.5.2) and it is smaller than all of
  /// IPv4. The block ::ffff:0:0/96 itself means only the mapped form.
  public var unmapped: AddressBlock {
    guard length > 96, let mapped = address.mappedIPv4 else { return self }
    return AddressBlock(address: mapped, length: length - 96) ?? self
  }

  public func contains(_ other: IPAddress) -> Bool {
    other.isIPv4 == address.isIPv4 && Self.masked(other, length) == address
  }
}

extension AddressBlock: CustomStringConvertible {
  public var description: String { "\(address)/\(length)" }
}
