// Coded bodies that other programs made: gzip 1.12, Python's zlib, brotli 1.0.9 and zstd 1.5.4.

/// The bytes that hexadecimal digits stand for; white space between them is passed over.
func hexadecimal(_ text: String) -> [UInt8] {
  let digits = text.compactMap(\.hexDigitValue)
  precondition(digits.count % 2 == 0, "half a byte")
  return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}

enum CodedSamples {
  /// What all of them hold, unless they say otherwise.
  static let text =
    #"{"port": 8080, "hosts": ["a.example", "b.example", "c.example"], "note": "ports of call, ports of call"}"# + "\n"
  static let plain = Array(text.utf8)
  static let plainFortyTimes = Array(String(repeating: text, count: 40).utf8)

  /// gzip -9, with the name and time of the file
  static let gzip = hexadecimal(
    """
    1f8b080800b955690203706f7274732e6a736f6e00ab562ac82f2a51b252b030b030d05150cac82f2e290672a39512f5522b12730b725295
    80c249c89c64382716c8cbcb2f49056a009b53ac909fa6909c9893a3a380c255aae50200e37b75b869000000
    """)

  /// gzip -n -1, from a pipe
  static let gzipFast = hexadecimal(
    """
    1f8b0800000000000403ab562ac82f2a51b252b030b030d05150cac82f2e290672a39512f5522b12730b72529580c249c89c643827162895
    975f920ad40036a758213f4d21393127474701642c9cab54cb0500e37b75b869000000
    """)

  /// Of zlib, behind a header with an extra field, a name, a comment and a checksum of its own.
  static let gzipFields = hexadecimal(
    """
    1f8b081e0000000000ff0400616200006e616d6500636f6d6d656e7400b541ab562ac82f2a51b252b030b030d05150cac82f2e290672a395
    12f5522b12730b72529580c249c89c64382716c8cbcb2f49056a009b53ac909fa6909c9893a3a380c255aae50200e37b75b869000000
    """)

  /// gzip -n of nothing
  static let gzipEmpty = hexadecimal("1f8b080000000000000303000000000000000000")

  /// zlib.compress, level 9
  static let zlib = hexadecimal(
    """
    78daab562ac82f2a51b252b030b030d05150cac82f2e290672a39512f5522b12730b72529580c249c89c64382716c8cbcb2f49056a009b53
    ac909fa6909c9893a3a380c255aae50200a21220e3
    """)

  /// zlib.compress, level 0
  static let zlibStored = hexadecimal(
    """
    780101690096ff7b22706f7274223a20383038302c2022686f737473223a205b22612e6578616d706c65222c2022622e6578616d706c6522
    2c2022632e6578616d706c65225d2c20226e6f7465223a2022706f727473206f662063616c6c2c20706f727473206f662063616c6c227d0a
    a21220e3
    """)

  /// zlib.compressobj with a window of 512 bytes
  static let zlibSmallWindow = hexadecimal(
    """
    18d3ab562ac82f2a51b252b030b030d05150cac82f2e290672a39512f5522b12730b72529580c249c89c64382716c8cbcb2f49056a009b53
    ac909fa6909c9893a3a380c255aae50200a21220e3
    """)

  /// zlib.compress of nothing
  static let zlibEmpty = hexadecimal("789c030000000001")

  /// zlib.compressobj with a preset dictionary
  static let zlibDictionary = hexadecimal(
    """
    78f9236a04eaab562a007295ac142c0c2c0c74149432f28b4b8a81dc68a544bdd48ac4dc829c5425a07012322719ce8905f2f2f24b52811a
    c0e6c08dd55140e12ad5720100a21220e3
    """)

  /// zlib.compressobj without a wrapper, fixed codes
  static let rawFixed = hexadecimal(
    """
    ab562ac82f2a51b252b030b030d05150cac82f2e290672a39512f5522b12730b72529580c249c89c64382716c8cbcb2f49056a009b53ac90
    9fa6909c9893a3a380c255aae50200
    """)

  /// zlib.compressobj without a wrapper, forty times the text, dynamic codes
  static let rawDynamic = hexadecimal(
    """
    edcd310a80300c85e1dd5384cc453a16af220eb5541caa29b68320dedde0207a0579e31fc8fb0eceb255eec859670df12ca516cd9e7d1b77
    bfe41459cfe33bc21383d62a35eac3bd5348260a3e25439fe4b33900010204081020408000010204081020407f872e
    """)

  /// zlib.compressobj without a wrapper, stored
  static let rawStored = hexadecimal(
    """
    01690096ff7b22706f7274223a20383038302c2022686f737473223a205b22612e6578616d706c65222c2022622e6578616d706c65222c20
    22632e6578616d706c65225d2c20226e6f7465223a2022706f727473206f662063616c6c2c20706f727473206f662063616c6c227d0a
    """)

  /// zlib.compressobj without a wrapper, flushed in the middle
  static let rawFlushed = hexadecimal(
    """
    aa562ac82f2a51b252b030b030d05150cac82f2e290672a39512f5522b12730b72529580c249080e000000ffff53504a86736281bcbcfc92
    54a006b039c50af9690ac98939393a0a285ca55a2e00
    """)

  /// zlib.compressobj without a wrapper, of nothing
  static let rawEmpty = hexadecimal("0300")

  /// brotli -q 11
  static let brotli = hexadecimal(
    """
    1f6800e02d0aece60ce73151a1903beb556b1a1cd268b6024cd89e16c1d99a9b2e6263cda2d3d527409c7280017a968669fb76d11bbe0506
    564d0d0a9952d9bcca651a50743329fc20b14a70691be19a788901
    """)

  /// brotli -q 1
  static let brotliFast = hexadecimal(
    """
    0f34000080aaaaaaeaff6e9713039f0514f4a8a0a7ab811dd41454c10e62260aaa7230000383891c7d07d630018c03e04ce83e0e9bce8c14
    5314f0b2e58b193b4b686fb987360a788638d5ca43c0c7bc3183c3a62f58472daa8261d317aca31655fedb
    """)

  /// brotli -q 5 -w 24
  static let brotliWideWindow = hexadecimal(
    """
    1f68000004fedb66b7a4cfcb8718c55465c1096341b8b1b38d39c6010eee8fb7c386230e0eb9ed70cb93b8ede3f177d3544b2d266e8f1da4
    33f2e08589534c1f262e0ea2a9eb0df9a539d63285fc09
    """)

  /// brotli of nothing
  static let brotliEmpty = hexadecimal("3f")

  /// brotli --large_window=28, which is no coding of HTTP
  static let brotliLarge = hexadecimal(
    """
    115ca00100106be76e99ae9b3f19655a6540c9a05ede266e708081421468710e198e3878c8b66f14a128b2dbe3d6739910430c024eb56b34
    b3fac1870236a3ab88178730a1eb6bd0815ed712c4fc0e
    """)

  /// zstd -19, from a pipe: with a checksum, without the size of the content
  static let zstd = hexadecimal(
    """
    28b52ffd046845020022440e1290cf01eb8e36dc27dbdccdef2333a9eeba94e09ebbb59378419e4cae287ce736099dfbaa4577aa0ae785c9
    279d909d5b0c31989c4a186f03040032e7177c1d140cc04d3ddeaa5660
    """)

  /// zstd -3 --no-check --stream-size=105: with the size of the content
  static let zstdSized = hexadecimal(
    """
    28b52ffd206955020022c40e1680c56dd9026dbadfad161b59922908b8bf6952d229c041e036554436d6caf75c9bdc46a0e2b6a726049714
    f083ef6aa93d6e33c71cdf97b2e980040032e7177c1d140cc04d3d
    """)

  /// zstd -3 --no-check, from a pipe
  static let zstdUnchecked = hexadecimal(
    """
    28b52ffd005855020022c40e1680c56dd9026dbadfad161b59922908b8bf6952d229c041e036554436d6caf75c9bdc46a0e2b6a726049714
    f083ef6aa93d6e33c71cdf97b2e980040032e7177c1d140cc04d3d
    """)

  /// zstd -3, forty times the text
  static let zstdRepeated = hexadecimal(
    """
    28b52ffd045875020022c40e1680c56dd9026dbadfad161b59922908b8bf6952d229c041e036554436d6caf75c9bdc46a0e2b6a726049714
    f083ef6aa93d6e33c71cdf97b2e9800500fc67833f64ce2ff83a2818809b7a1fd2bee2
    """)

  /// zstd of nothing
  static let zstdEmpty = hexadecimal("28b52ffd240001000099e9d851")

  /// zstd --long=24, from a pipe: a window of 16 MiB
  static let zstdLong = hexadecimal(
    """
    28b52ffd047055020022c40e1680c56dd9026dbadfad161b59922908b8bf6952d229c041e036554436d6caf75c9bdc46a0e2b6a726049714
    f083ef6aa93d6e33c71cdf97b2e980040032e7177c1d140cc04d3ddeaa5660
    """)

  /// 1 GiB of zeros: gzip -9, and that brotli -q 11
  static let bombGzipInBrotli = hexadecimal(
    """
    5f94e68fda488c63211f29663942a5c3431cf3dfbaa849a2b9b975c06b6a91f1fa7ca37194edbc827e2401ce961b9c465a4098d94434e198
    eb60e381d10001085affb71700cea61c00a1e83c17088072ef6f70952bd9857b01503ed6440200d7ff3e124d6156a71513b81700e59fb4d5
    9fa2863b3d837b01f02c15a5c8f23df908dc0b80e5ffcc904ce9c79e87c31f00fa702d17f4abffad5d0095a868b8286c1f
    """)

  /// 1 GiB of zeros: brotli -q 9 -w 24, and that zstd -19
  static let bombBrotliInZstd = hexadecimal(
    """
    28b52ffd642902a503009406cfffff7f002400e2b14072effff9ffff0f8004401c1680eefd3fffffff01900088c302d0bdffe7ffff3f0012
    00715800baf7fffcffff074002200e0b40f7fe9fffffff004800c46101e8defff3ffff1f000980382c00ddfb7ffeffff032001108705a07b
    ffb000743f0200b5a04e8912c10c89cd8d48
    """)

  /// 1 GiB of zeros: zstd -19, and that zstd -19
  static let bombZstdInZstd = hexadecimal(
    """
    28b52ffd64ee7fad0100840228b52ffd04684c000008000100fcff39100202001000440000000100fdffcc0b100100007f07ffb70200cbbc
    0279f7eaab6e13dba94333
    """)

}
