// Writes dates in the format of HTTP (RFC 9110, 5.6.7).

import Bytes

extension CalendarTime {
  private static let weekdays: [StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months: [StaticString] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// `Sun, 06 Nov 1994 08:49:37 GMT`
  public func writeIMFFixdate(to buffer: inout ByteBuffer) {
    buffer.append(Self.weekdays[weekday])
    buffer.append(", ")
    buffer.append(decimal: UInt64(day), width: 2)
    buffer.append(0x20)
    buffer.append(Self.months[month - 1])
    buffer.append(0x20)
    buffer.append(decimal: UInt64(year), width: 4)
    buffer.append(0x20)
    writeClock(to: &buffer)
    buffer.append(" GMT")
  }
}
