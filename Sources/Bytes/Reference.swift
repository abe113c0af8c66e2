// The short name of an exchange: in the reason phrase, in the log line, and as the operand of `sallyport explain`.

/// Six characters of Crockford's base 32, which has no letters that look like others.
public struct Reference: Equatable, Hashable, Sendable {
  public static let digits = 6
  public static let bits: UInt64 = 30

  public let value: UInt32

  public init(value: UInt32) { self.value = value }

  /// Six characters in the format of `write`, in any case; nil if the text is anything else.
  public init?(_ text: String) {
    guard text.utf8.count == Self.digits else { return nil }
    var value: UInt32 = 0
    for byte in text.uppercased().utf8 {
      guard let digit = Self.alphabet.utf8.firstIndex(of: byte) else { return nil }
      value = value << 5 | UInt32(Self.alphabet.utf8.distance(from: Self.alphabet.startIndex, to: digit))
    }
    self.value = value
  }

  public static let alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

  public func write(to buffer: inout ByteBuffer) {
    let alphabet: StaticString = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    var shift = Self.bits
    while shift > 0 {
      shift -= 5
      buffer.append(unsafe alphabet.utf8Start[Int(UInt64(value) >> shift & 31)])
    }
  }
}

extension Reference {
  public var text: String {
    var buffer = ByteBuffer()
    write(to: &buffer)
    return buffer.bytes.string
  }
}

/// Generates references. Neighbours differ in every digit, and none repeats within 2^30.
public struct ReferenceSource: Sendable {
  private var next: UInt64
  private let step: UInt64

  /// Each of `count` sources stays in its own residue class, so two loops never generate the same reference.
  public init(seed: UInt64, index: Int, of count: Int) {
    next = seed / UInt64(count) * UInt64(count) + UInt64(index)
    step = UInt64(count)
  }

  public mutating func take() -> Reference {
    next &+= step
    // Multiplication by an odd number permutes the residues of 2^30.
    return Reference(value: UInt32(truncatingIfNeeded: next &* 0x2545_F491 & (1 << Reference.bits - 1)))
  }
}
