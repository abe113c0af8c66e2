// Finds where frames begin in what a peer sends (RFC 9113, 4.1). The library parses them. Before it does, they are
// counted here and checked against the states of streams, because the library ignores some faulty ones.

import Bytes

/// RFC 9113, 6.
enum FrameType: UInt8 { case data = 0, headers, priority, reset, settings, push, ping, goaway, window, continuation }

struct FrameHead {
  /// RFC 9113, 6.1 and 6.2.
  struct Flags: OptionSet {
    let rawValue: UInt8

    static let endStream = Flags(rawValue: 0x1)
    /// The frame completes its field section.
    static let endHeaders = Flags(rawValue: 0x4)
    static let padded = Flags(rawValue: 0x8)
  }

  let type: UInt8
  let flags: Flags
  let stream: Int32
  let length: Int
}

struct FrameScanner {
  static let headBytes = 9
  /// What a client sends before its first frame (RFC 9113, 3.4).
  static let prefaceBytes = 24

  /// Bytes missing from what has begun: the preface of a client, then the payload of a frame.
  private var rest: Int
  /// Bytes of an incomplete head.
  private var head: (count: Int, bits: (UInt64, UInt64)) = (0, (0, 0))

  /// `preface`: how many bytes come before the first frame.
  init(preface: Int) { rest = preface }

  /// Whether part of what has begun is missing.
  var isWithinFrame: Bool { rest > 0 }

  /// The next head that ends in `bytes` from `at` on, and where its payload begins. nil: there is none, and all bytes
  /// have been seen.
  mutating func next(_ bytes: Span<UInt8>, from at: Int) -> (head: FrameHead, end: Int)? {
    var at = at
    let skipped = min(rest, bytes.count - at)
    rest -= skipped
    at += skipped
    while at < bytes.count {
      // The length and the type are in the first half, the flags and the stream in the second.
      if head.count < 4 {
        head.bits.0 = head.bits.0 << 8 | UInt64(bytes[at])
      } else {
        head.bits.1 = head.bits.1 << 8 | UInt64(bytes[at])
      }
      head.count += 1
      at += 1
      if head.count < Self.headBytes { continue }
      let found = FrameHead(
        type: UInt8(head.bits.0 & 0xff), flags: FrameHead.Flags(rawValue: UInt8(truncatingIfNeeded: head.bits.1 >> 32)),
        stream: Int32(head.bits.1 & 0x7fff_ffff), length: Int(head.bits.0 >> 8))
      head = (0, (0, 0))
      rest = found.length
      return (found, at)
    }
    return nil
  }
}
