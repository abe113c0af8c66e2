// Requests that the proxy answers itself: OPTIONS * and requests that may go no further (Max-Forwards).

import Bytes
import HTTP1

extension Exchange {
  /// RFC 9110, 7.6.2: TRACE and OPTIONS that may go no further are answered here.
  func isLastRecipient(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Bool {
    Self.maxForwards(bytes, workspace.request) == 0
  }

  /// The number in Max-Forwards, for methods that use it; nil if there is none, or a number larger than any sender
  /// needs.
  static func maxForwards(_ bytes: Span<UInt8>, _ head: borrowing RequestHead) -> UInt64? {
    guard head.knownMethod == .trace || head.knownMethod == .options, let value = head.fields.first(.maxForwards),
      !value.isEmpty, value.count <= 9
    else { return nil }
    var number: UInt64 = 0
    for index in value {
      guard bytes[index].isASCIIDigit else { return nil }
      number = number * 10 + UInt64(bytes[index] & 0xf)
    }
    return number
  }

  mutating func answerForItself(
    _ bytes: Span<UInt8>, headBytes: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let persists =
      terms.contains(.persists) && !terms.contains(.isHTTP10) && request == .done
    record.status = 200
    phase = .exchanging
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    outputs.toClient.append("HTTP/1.1 200 OK\r\nDate: ")
    outputs.toClient.append(workspace.date.bytes)
    if workspace.request.knownMethod == .trace {
      var echo = ByteBuffer()
      Self.writeEcho(bytes, workspace.request, to: &echo)
      outputs.toClient.append("\r\nContent-Type: message/http\r\nContent-Length: ")
      outputs.toClient.append(decimal: UInt64(echo.count))
      outputs.toClient.append(persists ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n")
      outputs.toClient.append(echo.bytes)
    } else {
      outputs.toClient.append(
        "\r\nAllow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE\r\nContent-Length: 0")
      outputs.toClient.append(persists ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n")
    }
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
    return .end(Ending(client: persists ? .keep : .linger, keepsUpstream: false))
  }

  /// RFC 9110, 9.3.8: the request as received, without the fields that carry credentials.
  private static func writeEcho(_ bytes: Span<UInt8>, _ head: borrowing RequestHead, to out: inout ByteBuffer) {
    out.append(bytes.extracting(head.method))
    out.append(0x20)
    out.append(bytes.extracting(head.target))
    out.append(head.minorVersion == 1 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n")
    for index in head.fields.lines.indices {
      switch head.fields.lines[index].known {
      case .authorization, .proxyAuthorization, .cookie: continue
      default: out.append(bytes.extracting(head.fields.lines[index].line))
      }
    }
    out.append("\r\n")
  }
}
