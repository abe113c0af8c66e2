// What a buffer holds, as an array that can be kept and compared.

import Bytes

extension ByteBuffer {
  public var array: [UInt8] { bytes.array }
}
