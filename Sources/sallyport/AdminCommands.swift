// sallyport status, reload, events, and explain REF: what the running daemon says of itself, over its admin socket. The
// daemon writes both the pages for people and the JSON, so that all that is done here is to ask and to pass on.

import Bytes
import Policy
import Transport

nonisolated func statusCommand(_ arguments: [String]) throws -> Int32 {
  let options = try AdminOptions(arguments)
  try options.arguments.refuseOperands()
  return try options.pass(on: "GET", "/v1/status")
}

nonisolated func reloadCommand(_ arguments: [String]) throws -> Int32 {
  let options = try AdminOptions(arguments)
  try options.arguments.refuseOperands()
  return try options.pass(on: "POST", "/v1/reload")
}

nonisolated func eventsCommand(_ arguments: [String]) throws -> Int32 {
  let options = try AdminOptions(arguments)
  try options.arguments.refuseOperands()
  return try options.pass(on: "GET", "/v1/events")
}

/// `explain REF`: the line of the log of a recent exchange.
nonisolated func explainReference(_ reference: String, _ arguments: Arguments) throws -> Int32 {
  try AdminOptions(arguments).pass(on: "GET", "/v1/decisions/\(reference)")
}

/// How the daemon is reached, and how it is to answer.
struct AdminOptions {
  static let valued: Set<String> = ["config", "socket"]

  let arguments: Arguments

  init(_ arguments: [String]) throws {
    self.init(try Arguments(arguments, valued: Self.valued, flags: ["json"]))
  }

  init(_ arguments: Arguments) { self.arguments = arguments }

  /// Refuses two ways to name the daemon.
  func checked() throws -> AdminOptions {
    if arguments.values["socket"] != nil, arguments.values["config"] != nil {
      throw UsageError(message: "'--config' and '--socket' both name the daemon; expected one of them")
    }
    return self
  }

  /// --socket, else what the configuration says.
  private func socketPath() -> String {
    if let path = arguments.values["socket"] { return path }
    // A configuration with a mistake elsewhere still says where the daemon listens; what is wrong the daemon tells.
    return ConfigurationFile.load(arguments.values["config"]).adminSocket
  }

  /// Sends one request and prints what comes back, as it comes. 0 where the daemon did what was asked.
  func pass(on method: String, _ path: String) throws -> Int32 {
    let socket = try checked().socketPath()
    let connection: LocalConnection
    switch LocalConnection.open(socket) {
    case .success(let opened): connection = opened
    case .failure(let error):
      Output.complain("sallyport: cannot reach the daemon at \(socket): \(error)\n")
      return 1
    }
    defer { connection.close() }
    let accepted = arguments.flags.contains("json") ? "application/json" : "text/plain"
    let request = "\(method) \(path) HTTP/1.1\r\nHost: sallyport\r\nAccept: \(accepted)\r\nConnection: close\r\n\r\n"
    guard connection.send(request) else {
      Output.complain("sallyport: the daemon closed the connection\n")
      return 1
    }
    return passOn(connection)
  }

  private func passOn(_ connection: LocalConnection) -> Int32 {
    var answer = ByteBuffer()
    var status: Int? = nil
    while connection.receive(into: &answer) {
      if status == nil {
        guard let end = Self.endOfHead(answer.bytes) else { continue }
        status = Self.status(answer.bytes)
        answer.consume(end)
      }
      // What goes wrong is not what was asked for, but to who asks for JSON.
      let isAnswer = status == 200 || arguments.flags.contains("json")
      Files.write(answer.bytes.string, to: isAnswer ? 1 : 2)
      answer.removeAll()
    }
    guard let status else {
      Output.complain("sallyport: the daemon closed the connection without an answer\n")
      return 1
    }
    return (200..<300).contains(status) ? 0 : 1
  }

  private static func endOfHead(_ bytes: Span<UInt8>) -> Int? {
    var at = 0
    while at + 3 < bytes.count {
      if bytes[at] == 0x0d, bytes[at + 1] == 0x0a, bytes[at + 2] == 0x0d, bytes[at + 3] == 0x0a { return at + 4 }
      at += 1
    }
    return nil
  }

  /// The three digits of `HTTP/1.1 200 OK`.
  private static func status(_ bytes: Span<UInt8>) -> Int {
    guard bytes.count > 12 else { return 0 }
    return (9..<12).reduce(0) { $0 * 10 + Int(bytes[$1] & 0xf) }
  }
}
