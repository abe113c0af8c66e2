// sallyport explain: which rule decides a request, why the others do not, and what will be done.

import Bytes
import HTTP1
import Policy

nonisolated func explainCommand(_ arguments: [String]) throws -> Int32 {
  let options = try Arguments(arguments, valued: ["config", "user", "unit", "when"], flags: ["json"])
  for later in ["user", "unit", "when"] where options.values[later] != nil {
    throw UsageError(message: "'--\(later)' is not supported by this build")
  }
  if options.operands.count == 1 {
    throw UsageError(message: "'explain REF' is not supported by this build; expected METHOD and URL")
  }
  guard options.operands.count == 2 else { throw UsageError(message: "METHOD and URL were expected") }
  let request = try readRequest(method: options.operands[0], url: options.operands[1])
  guard let policy = ConfigurationFile.loadOrComplain(options.values["config"]) else { return 1 }
  let explanation = policy.explain(
    method: request.method, scheme: request.isHTTPS ? .https : .http, host: request.host, port: request.port,
    path: request.path, isTunnel: request.isTunnel)
  Output.answer(options.flags.contains("json") ? explanation.json : explanation.description)
  return explanation.decision.verdict == .deny || explanation.address?.block != nil ? 1 : 0
}

/// A request as the daemon would read it.
private struct NamedRequest {
  let method: String
  let isHTTPS: Bool
  let host: CanonicalHost
  let port: UInt16
  let path: String
  let isTunnel: Bool
}

/// Reads method and URL with the daemon's own parser, so that both see the same. An https URL is what a program asks a
/// proxy for with CONNECT.
private func readRequest(method: String, url: String) throws -> NamedRequest {
  var method = method
  var target = url
  if method != "CONNECT", let tunnel = tunnelTarget(of: url) {
    Output.complain("sallyport: programs reach https:// through CONNECT, which is what is explained\n")
    method = "CONNECT"
    target = tunnel
  }
  let text = Array("\(method) \(target) HTTP/1.1\r\nHost: explain\r\n\r\n".utf8)
  var head = RequestHead()
  let limits = HeadLimits(bytes: .max, fields: 1)
  switch head.read(text.span, limits: limits) {
  case .complete: break
  case .incomplete: throw UsageError(message: "'\(method) \(url)' is no request")
  case .invalid(let fault): throw UsageError(message: "the request '\(method) \(url)' \(fault.sentence)")
  }
  var host = CanonicalHost()
  if let fault = host.set(text.span.extracting(head.host)) {
    throw UsageError(message: "the host of '\(url)' is malformed; expected \(fault.expectation)")
  }
  return NamedRequest(
    method: method, isHTTPS: head.isHTTPS, host: host, port: head.port ?? (head.isHTTPS ? 443 : 80),
    path: text.span.extracting(head.path).string, isTunnel: head.form == .authority)
}

/// `host:port` of an https URL; nil for any other.
private func tunnelTarget(of url: String) -> String? {
  guard url.lowercased().hasPrefix("https://") else { return nil }
  let authority = url.dropFirst("https://".count).prefix { $0 != "/" && $0 != "?" }
  let hasPort =
    authority.last != "]" && authority.drop { $0 != "]" }.contains(":") || authority.filter { $0 == ":" }.count == 1
  return hasPort ? String(authority) : "\(authority):443"
}
