// A request known only by its method and target, as `explain` gets it and the log shows it. The request parser reads
// it, so it has the same meaning as on the wire.

import Bytes
import HTTP1

/// The facts of a request that a policy can be asked about.
public struct NamedRequest: Sendable {
  public struct Fault: Error, Sendable {
    public let sentence: String
  }

  public let method: String
  public let isHTTPS: Bool
  public let host: CanonicalHost
  public let port: UInt16
  public let path: String
  /// With its question mark; empty if there is none.
  public let query: String
  public let isTunnel: Bool
  /// The path was written with bytes above 0x7F; `path` has them percent-encoded.
  public let isRawPath: Bool

  /// The CONNECT through which the request reaches an https origin.
  public var tunnel: NamedRequest {
    NamedRequest(
      method: "CONNECT", isHTTPS: true, host: host, port: port, path: "", query: "", isTunnel: true, isRawPath: false)
  }

  /// `url`: an absolute URL, or host and port of a CONNECT. A Unicode host is converted to A-labels, as programs send
  /// it.
  public static func read(method: String, url: String) -> Result<NamedRequest, Fault> {
    switch asciiURL(url) {
    case .success(let ascii): readASCII(method: method, url: ascii)
    case .failure(let fault): .failure(fault)
    }
  }

  private static func asciiURL(_ url: String) -> Result<String, Fault> {
    var rest = url[...]
    if let scheme = url.firstRange(of: "://") { rest = url[scheme.upperBound...] }
    let host = rest.prefix { !"/?#:".contains($0) }
    switch InternationalName.asciiForm(of: String(host)) {
    case .success(let ascii): return .success(url[..<host.startIndex] + ascii + url[host.endIndex...])
    case .failure(let fault):
      return .failure(Fault(sentence: "the host of '\(url)' is no host name: \(fault)"))
    }
  }

  private static func readASCII(method: String, url: String) -> Result<NamedRequest, Fault> {
    var text = Array("\(method) \(url) HTTP/1.1\r\nHost: explain\r\n\r\n".utf8)
    var head = RequestHead()
    let limits = HeadLimits(bytes: .max, fields: 1)
    var progress = head.read(text.span, limits: limits, takesRawPath: true)
    let isRawPath = head.holdsRawPath
    if case .complete = progress, isRawPath {
      var encoded = ByteBuffer()
      RawPath.encode(text.span, path: head.path, to: &encoded)
      text = encoded.bytes.array
      progress = head.read(text.span, limits: limits)
    }
    switch progress {
    case .complete: break
    case .incomplete: return .failure(Fault(sentence: "'\(method) \(url)' is no request"))
    case .invalid(let fault):
      return .failure(Fault(sentence: "the request '\(method) \(url)' \(fault.sentence)"))
    }
    var host = CanonicalHost()
    if let fault = host.set(text.span.extracting(head.host)) {
      return .failure(Fault(sentence: "the host of '\(url)' is malformed; expected \(fault.expectation)"))
    }
    let end = max(head.path.upperBound, head.pathAndQuery.upperBound)
    return .success(
      NamedRequest(
        method: method, isHTTPS: head.isHTTPS, host: host, port: head.port ?? (head.isHTTPS ? 443 : 80),
        path: text.span.extracting(head.path).string,
        query: text.span.extracting(head.path.upperBound..<end).string, isTunnel: head.form == .authority,
        isRawPath: isRawPath))
  }
}
