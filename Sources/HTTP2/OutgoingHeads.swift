// Heads and trailers on their way to the library: what the proxy wrote as HTTP/1.1 text is read once more, and its
// lines are given as fields. Tests: HTTP2Tests.

import Bytes
import CNGHTTP2
import HTTP1

extension HTTP2Connection {
  /// Limits that the proxy's own text cannot exceed.
  func ownLimits(_ text: Span<UInt8>) -> HeadLimits { HeadLimits(bytes: text.count + 1, fields: .max) }

  func readTrailers(_ text: Span<UInt8>, from: Int) -> HeadProgress {
    TrailerReader.read(text, from: from, limits: ownLimits(text), into: &scratch.trailers)
  }

  /// `tunnel`: the protocol of a CONNECT that replaces GET and Upgrade; nil: an ordinary request.
  func sendRequest(
    _ text: Span<UInt8>, _ stream: HTTP2Stream, tunnel: StaticString? = nil, hasContent: Bool
  ) -> Bool {
    guard let session = unsafe session else { return false }
    let acceptsTrailers = scratch.request.options.te
    let number = unsafe text.withUnsafeBufferPointer { bytes -> Int32 in
      guard let base = bytes.baseAddress else { return -1 }
      scratch.fields.begin(neverIndexed: stream.unindexed)
      if let tunnel {
        scratch.fields.add(":method", "CONNECT")
        scratch.fields.add(":protocol", tunnel)
      } else {
        unsafe scratch.fields.add(":method", scratch.request.method, base: base)
      }
      // CONNECT has neither scheme nor path (RFC 9113, 8.5).
      let hasPath = scratch.request.form != .authority
      if hasPath {
        let isClear = scratch.request.form == .absolute && !scratch.request.isHTTPS
        scratch.fields.add(":scheme", isClear ? "http" : "https")
      }
      // `*` names no server (RFC 9112, 3.2.4).
      let authority = scratch.request.authority
      let named = authority.isEmpty ? scratch.request.fields.first(.host) ?? authority : authority
      unsafe scratch.fields.add(":authority", named, base: base)
      if hasPath, scratch.request.pathAndQuery.isEmpty {
        scratch.fields.add(":path", scratch.request.knownMethod == .options ? "*" : "/")
      } else if hasPath {
        unsafe scratch.fields.add(":path", scratch.request.pathAndQuery, base: base)
      }
      for index in scratch.request.fields.lines.indices {
        let line = scratch.request.fields.lines[index]
        // Credentials for a parent are its own: those of clients end in the proxy.
        if line.isDropped && line.known != .proxyAuthorization || line.known == .host { continue }
        if tunnel != nil, text.equals(line.name, ignoringCase: WebSocketKey.field) { continue }
        unsafe scratch.fields.add(line, base)
      }
      if acceptsTrailers { scratch.fields.add("te", "trailers") }
      return unsafe scratch.fields.give { unsafe cng_request(session, $0, $1, hasContent) }
    }
    if number < 0 { return false }
    opened(stream, as: number)
    return true
  }

  func sendInformational(_ text: Span<UInt8>, _ stream: HTTP2Stream) -> Bool {
    guard let session = unsafe session, scratch.response.status != 101 else { return false }
    return unsafe withResponseFields(text, stream) { unsafe cng_informational(session, stream.number, $0, $1) } == 0
  }

  /// `status` replaces that of the text.
  func sendResponse(
    _ text: Span<UInt8>, _ stream: HTTP2Stream, status: StaticString? = nil, hasContent: Bool
  ) -> Bool {
    guard let session = unsafe session else { return false }
    return unsafe withResponseFields(text, stream, status: status) {
      unsafe cng_response(session, stream.number, $0, $1, hasContent)
    } == 0
  }

  @unsafe
  private func withResponseFields(
    _ text: Span<UInt8>, _ stream: HTTP2Stream, status: StaticString? = nil,
    body: (UnsafePointer<cng_field>?, Int) -> Int32
  ) -> Int32 {
    unsafe text.withUnsafeBufferPointer { bytes -> Int32 in
      guard let base = bytes.baseAddress else { return -1 }
      scratch.fields.begin(neverIndexed: stream.unindexed)
      // The three digits of the status line.
      if let status {
        scratch.fields.add(":status", status)
      } else {
        unsafe scratch.fields.add(":status", 9..<12, base: base)
      }
      // A gRPC answer that is only a head has no length.
      let isBare =
        scratch.response.framing == .length(0)
        && scratch.response.fields.only(.contentType).map { GRPC.isType(text.extracting($0)) } ?? false
      for index in scratch.response.fields.lines.indices where !scratch.response.fields.lines[index].isDropped {
        if isBare, scratch.response.fields.lines[index].known == .contentLength { continue }
        if status != nil, text.equals(scratch.response.fields.lines[index].name, ignoringCase: WebSocketKey.proofField)
        {
          continue
        }
        unsafe scratch.fields.add(scratch.response.fields.lines[index], base)
      }
      return unsafe scratch.fields.give(body)
    }
  }

  /// `text` is a complete trailer section. false: it cannot be sent, and the stream has no end.
  func sendTrailers(_ text: Span<UInt8>, _ stream: HTTP2Stream) -> Bool {
    guard let session = unsafe session, case .complete = readTrailers(text, from: 0) else { return false }
    return unsafe text.withUnsafeBufferPointer { bytes in
      guard let base = bytes.baseAddress else { return false }
      scratch.fields.begin(neverIndexed: stream.unindexed)
      for index in scratch.trailers.lines.indices where !scratch.trailers.lines[index].isDropped {
        unsafe scratch.fields.add(scratch.trailers.lines[index], base)
      }
      return unsafe scratch.fields.give { unsafe cng_trailers(session, stream.number, $0, $1) } == 0
    }
  }
}
