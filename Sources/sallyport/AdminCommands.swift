// sallyport status, reload, events, and explain REF: information from the running daemon, over its admin socket. The
// daemon writes both the pages for people and the JSON. These commands only send the request and pass the answer on.

import Bytes
import Console
import Policy
import Transport

nonisolated func statusCommand(_ arguments: Arguments) throws -> Int32 {
  let options = AdminOptions(arguments)
  try arguments.refuseOperands()
  return try options.pass(on: "GET", "/v1/status")
}

nonisolated func reloadCommand(_ arguments: Arguments) throws -> Int32 {
  let options = AdminOptions(arguments)
  try arguments.refuseOperands()
  let closes = arguments.flags.contains("close-denied")
  return try options.pass(on: "POST", closes ? "/v1/reload?close_denied=true" : "/v1/reload")
}

nonisolated func eventsCommand(_ arguments: Arguments) throws -> Int32 {
  let options = AdminOptions(arguments)
  try arguments.refuseOperands()
  if let user = arguments.values["user"] { _ = try userNumber(user) }
  let query = ["kind", "rule", "user", "ref"].compactMap { name in
    arguments.values[name].map { "\(name)=\(AdminOptions.encoded($0))" }
  }
  return try options.passEvents("/v1/events" + (query.isEmpty ? "" : "?\(query.joined(separator: "&"))"))
}

/// `explain REF`: the log line of a recent exchange. `denied`: the exit status if it was denied.
nonisolated func explainReference(_ reference: String, _ arguments: Arguments, denied: Int32) throws -> Int32 {
  let options = AdminOptions(arguments)
  let path = "/v1/decisions/\(reference)"
  let status = try options.pass(on: "GET", path)
  if status != 0 { return status }
  // The text for people does not say it in a form for programs.
  guard let text = options.quietText(of: path, at: options.socketPath, accepting: "application/json"),
    let line = JSONValue(Array(text.utf8))
  else { return 0 }
  switch line["decision"].text {
  case "deny": return denied
  // It was ended while it waited for an operator.
  case "ask": return line["outcome"].text == "cancelled" ? denied : 0
  default: return 0
  }
}

/// How to reach the daemon, and the form of its answer.
struct AdminOptions {
  let arguments: Arguments

  init(_ arguments: Arguments) { self.arguments = arguments }

  /// --socket, or else the path in the configuration.
  var socketPath: String {
    if let path = arguments.values["socket"] { return path }
    // A configuration with a mistake elsewhere still says where the daemon listens. The daemon reports what is wrong.
    return ConfigurationFile.load(arguments.values["config"], secrets: .unneeded).adminSocket
  }

  var wantsJSON: Bool { arguments.flags.contains("json") }

  /// Sends one request and prints the answer as it arrives. Returns 0 if the daemon did what was asked. `begin` runs
  /// once an answer has begun; another status than 0 ends it.
  func pass(on method: String, _ path: String, begin: () throws -> Int32 = { 0 }) throws -> Int32 {
    guard var exchange = try open(method, path) else { return 1 }
    defer { exchange.close() }
    guard let head = exchange.readHead() else {
      Output.complain(
        exchange.hasWaitedInVain
          ? "sallyport: the daemon took the request and did not answer within \(AdminExchange.answerMilliseconds / 1000) s; "
            + "see 'systemctl status sallyport' and its log\n"
          : "sallyport: the daemon closed the connection without an answer\n")
      return 1
    }
    if head.status == 200, case let status = try begin(), status != 0 { return status }
    repeat {
      // Errors go to standard error, unless the caller asked for JSON.
      let text = exchange.takeText()
      if head.status == 200 || wantsJSON { Output.answer(text) } else { Output.complain(text) }
    } while !Output.hasFailed && exchange.receive()
    return (200..<300).contains(head.status) && !head.saysNo ? 0 : 1
  }

  /// Prints events as they arrive. `begin` runs once no event can be missed any more; another status than 0 ends it.
  func passEvents(_ path: String, begin: () throws -> Int32 = { 0 }) throws -> Int32 {
    try wantsJSON ? passObjects(on: "GET", path, begin: begin) : pass(on: "GET", path, begin: begin)
  }

  /// The daemon's answer to a GET, as text for people; nil if it refuses, which has been reported.
  func text(of path: String) throws -> String? {
    guard var exchange = try open("GET", path, accepting: "text/plain") else { return nil }
    defer { exchange.close() }
    guard let head = exchange.readHead() else {
      Output.complain("sallyport: the daemon closed the connection without an answer\n")
      return nil
    }
    while exchange.receive() {}
    let text = exchange.takeText()
    if head.status == 200 { return text }
    Output.complain(text)
    return nil
  }

  /// The same, if a daemon may be missing or may not serve the caller; nil in these cases.
  func quietText(of path: String, at socket: String, accepting type: String = "text/plain") -> String? {
    guard case .success(let connection) = LocalConnection.open(socket) else { return nil }
    guard connection.send(Self.request("GET", path, accepting: type)) else {
      connection.close()
      return nil
    }
    var exchange = AdminExchange(connection)
    defer { exchange.close() }
    guard exchange.readHead()?.status == 200 else { return nil }
    while exchange.receive() {}
    return exchange.takeText()
  }

  private static func request(_ method: String, _ path: String, accepting type: String) -> String {
    "\(method) \(path) HTTP/1.1\r\nHost: sallyport\r\nAccept: \(type)\r\nConnection: close\r\n\r\n"
  }

  /// Sends a request; nil if that was not possible, which has been reported.
  func open(_ method: String, _ path: String, accepting type: String? = nil) throws -> AdminExchange? {
    let socket = socketPath
    switch LocalConnection.open(socket) {
    case .failure(let error):
      Output.complain("sallyport: \(absence(error, at: socket))\n")
      return nil
    case .success(let connection):
      let accepted = type ?? (wantsJSON ? "application/json" : "text/plain")
      if connection.send(Self.request(method, path, accepting: accepted)) { return AdminExchange(connection) }
      connection.close()
      Output.complain("sallyport: the daemon closed the connection\n")
      return nil
    }
  }

  /// Sends one request and prints each event of the answer as an object with its kind, one per line.
  fileprivate func passObjects(on method: String, _ path: String, begin: () throws -> Int32) throws -> Int32 {
    guard var exchange = try open(method, path) else { return 1 }
    defer { exchange.close() }
    guard let head = exchange.readHead(), head.status == 200 else {
      Output.complain("sallyport: the daemon does not report events: \(exchange.takeText())\n")
      return 1
    }
    if case let status = try begin(), status != 0 { return status }
    var kind = ""
    while !Output.hasFailed, let line = exchange.readLine() {
      if line.hasPrefix("event: ") { kind = String(line.dropFirst("event: ".count)) }
      guard line.hasPrefix("data: {") else { continue }
      let members = line.dropFirst("data: {".count)
      Output.answer("{\"kind\":\"\(kind)\"\(members.hasPrefix("}") ? "" : ",")\(members)\n")
    }
    return 0
  }

  /// Why the daemon cannot be reached, and what to do.
  func absence(_ error: SystemError, at socket: String) -> String {
    "cannot reach the daemon at \(socket): \(error)\(advice(error))"
  }

  /// What to do if the daemon cannot be reached.
  private func advice(_ error: SystemError) -> String {
    if error.isDenial { return "; root and the socket's group (sallyport) may use it" }
    if error.isAbsence, arguments.values["socket"] == nil {
      return "; is it running, with a 'socket' in [admin]? Name its configuration with -c FILE, or --socket PATH"
    }
    return "; is it running?"
  }

  /// Percent-encodes a text for a query (RFC 3986, 3.4), except for the comma between words.
  static func encoded(_ text: String) -> String {
    text.utf8.reduce(into: "") { output, byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: ","):
        output.unicodeScalars.append(Unicode.Scalar(byte))
      default: output += "%" + String(byte >> 4, radix: 16) + String(byte & 0xf, radix: 16)
      }
    }
  }
}

/// A request that was sent, and its answer as it arrives.
struct AdminExchange: ~Copyable {
  struct Head {
    let status: Int
    /// The question was whether a host can be reached, and the answer is no.
    let saysNo: Bool
  }

  /// How long the first byte of an answer may take, in milliseconds. A reload that reads thousands of files takes some
  /// seconds. A daemon that takes longer than this has hung.
  static let answerMilliseconds: Int32 = 15_000

  private let connection: LocalConnection
  private var answer = ByteBuffer()
  /// No answer came in time.
  private(set) var hasWaitedInVain = false

  init(_ connection: LocalConnection) { self.connection = connection }

  func close() { connection.close() }

  /// Waits for more; false at the end.
  mutating func receive() -> Bool { connection.receive(into: &answer) }

  /// Waits for the head of the answer; nil if none comes.
  mutating func readHead() -> Head? {
    guard connection.awaits(milliseconds: Self.answerMilliseconds) else {
      hasWaitedInVain = true
      return nil
    }
    while receive() {
      guard let end = Self.endOfHead(answer.bytes) else { continue }
      let text = answer.bytes.extracting(0..<end).string
      answer.consume(end)
      return Head(
        status: Int(text.dropFirst(9).prefix(3)) ?? 0, saysNo: text.contains("\r\nSallyport-Reachable: no\r\n"))
    }
    return nil
  }

  /// The content that has arrived.
  mutating func takeText() -> String {
    let text = answer.bytes.string
    answer.removeAll()
    return text
  }

  /// Waits for the next line of the content, and returns it without its end; nil at the end.
  mutating func readLine() -> String? {
    while true {
      if let end = answer.bytes.firstIndex(of: 0x0a) {
        let line = answer.bytes.extracting(0..<end).string
        answer.consume(end + 1)
        return line
      }
      guard receive() else { return nil }
    }
  }

  private static func endOfHead(_ bytes: Span<UInt8>) -> Int? {
    var at = 0
    while at + 3 < bytes.count {
      if bytes[at] == 0x0d, bytes[at + 1] == 0x0a, bytes[at + 2] == 0x0d, bytes[at + 3] == 0x0a { return at + 4 }
      at += 1
    }
    return nil
  }
}
