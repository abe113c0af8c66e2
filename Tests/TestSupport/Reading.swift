// What a buffer or a span holds, as an array that can be kept and compared.

import Bytes

extension ByteBuffer {
  public var array: [UInt8] { bytes.array }
}

extension Span where Element == UInt8 {
  public var array: [UInt8] {
    var array: [UInt8] = []
    array.reserveCapacity(count)
    for index in 0..<count { array.append(self[index]) }
    return array
  }
}
