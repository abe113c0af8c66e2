// sallyport env: the variables that direct programs to the proxy, and to the local authority's certificates if there is
// an authority.
//
// A program without a proxy setting connects directly. So variables are printed whatever goes wrong: if the address of
// the proxy is unknown, they contain an address that refuses every connection. No secret is read. Tests: test_env.py,
// test_ca.py.

import Bytes
import Policy
import Transport

nonisolated func environmentCommand(_ options: Arguments) throws -> Int32 {
  try options.refuseOperands()
  let shell = options.values["shell"].flatMap(Shell.init) ?? .sh
  let place = try ProxyPlace.find(options)
  var text = EnvironmentText()
  ProxyVariables(host: place.address.address.description, authority: "\(place.address)", port: place.address.port)
    .write(to: &text)
  if let directory = place.authority, directory.hasAuthority {
    try AuthorityVariables(directory, place).write(to: &text)
  } else {
    text.set(JavaOptions.variable, JavaOptions(place.address.address.description, place.address.port).text)
  }
  for remark in place.remarks { text.remark(remark) }
  for remark in ProgramRemarks.all("\(place.address)") { text.remark(remark) }
  Output.answer(text.text(shell))
  return 0
}

/// Runs `env`. If it fails, its output still keeps programs from bypassing the proxy.
nonisolated func failingClosed(_ arguments: [String], _ command: Command) throws -> Int32 {
  do {
    return try execute(command, arguments)
  } catch {
    Output.answer(ProxyVariables.refusing.text(shell(in: arguments)))
    throw error
  }
}

/// The requested language, as far as a faulty command line shows it.
private nonisolated func shell(in arguments: [String]) -> Shell {
  for (index, argument) in arguments.enumerated() {
    if argument.hasPrefix("--shell=") { return Shell(rawValue: String(argument.dropFirst("--shell=".count))) ?? .sh }
    if argument == "--shell", index + 1 < arguments.count { return Shell(rawValue: arguments[index + 1]) ?? .sh }
  }
  return .sh
}

/// Why the address of the proxy cannot be determined.
struct EnvironmentFailure: Error, CustomStringConvertible {
  let description: String
}

// MARK: Where the proxy is

/// Where programs find the proxy, and the source of that information.
struct ProxyPlace {
  let address: ListenAddress
  /// nil if its place is unknown.
  var authority: AuthorityDirectory? = nil
  /// From [trust], in PEM; nil if the configuration cannot be read here, so the daemon's own files are used.
  var anchors: [UInt8]? = nil
  var remarks: [String] = []

  /// The daemon reports where it listens. Without a daemon, the configuration is used.
  static func find(_ options: Arguments) throws -> ProxyPlace {
    let result = ConfigurationFile.load(options.values["config"], secrets: .unneeded)
    let socket = options.values["socket"] ?? result.adminSocket
    let answer = DaemonAnswer.ask(socket)
    if case .told(let daemon) = answer {
      guard let address = reachable(daemon.listen) else {
        throw EnvironmentFailure(description: "the daemon at \(socket) listens nowhere")
      }
      // A daemon that is named need not be the one of this configuration.
      let isNamed = options.values["socket"] != nil
      return place(
        address, hasCredentials: daemon.hasCredentials, isNamed ? nil : result.policy, authority: daemon.authority)
    }
    if options.values["socket"] != nil {
      throw EnvironmentFailure(description: "cannot ask the daemon at \(socket): \(answer.fault)")
    }
    guard let policy = result.policy else {
      for diagnostic in result.diagnostics where diagnostic.severity == .error { Output.complain("\(diagnostic)\n") }
      throw EnvironmentFailure(
        description: "the configuration cannot be taken, and no daemon answers at \(socket): \(answer.fault)")
    }
    return try configured(policy, socket, answer: answer)
  }

  /// From the configuration alone.
  private static func configured(_ policy: Policy, _ socket: String, answer: DaemonAnswer) throws -> ProxyPlace {
    let proxy = policy.configuration.proxy
    guard let address = reachable(proxy.listen) else {
      throw EnvironmentFailure(
        description: "the port is chosen when the daemon starts ('listen' has port 0), and no daemon answers at "
          + "\(socket): \(answer.fault)")
    }
    let isHeld = PortHolder.listening(on: SocketAddress(address)) != nil
    if !isHeld, case .denied = answer {
      throw EnvironmentFailure(
        description: "nothing listens on \(address), where the configuration has the proxy, and you may not ask the "
          + "daemon at \(socket); run this as root or a member of the socket's group (sallyport)")
    }
    var place = place(address, hasCredentials: !proxy.credentials.isEmpty, policy, authority: nil)
    place.remarks.append("No daemon answers at \(socket) (\(answer.fault)): the address is that of the configuration.")
    if !isHeld {
      Output.complain("sallyport: nothing listens on \(address) yet; until the proxy runs, connections are refused\n")
    }
    return place
  }

  private static func place(
    _ address: ListenAddress, hasCredentials: Bool, _ policy: Policy?, authority: String?
  ) -> ProxyPlace {
    var place = ProxyPlace(address: address)
    // Programs run in other directories than this command.
    place.authority = (authority ?? policy?.configuration.authority.directory).map {
      AuthorityDirectory(path: Files.absolute($0))
    }
    place.anchors = policy?.configuration.trust.pem
    if hasCredentials {
      place.remarks.append(
        "The proxy asks for credentials: write http://USER:PASSWORD@\(address) for http://\(address).")
    }
    return place
  }

  /// The first address with a fixed port. An address that means all addresses is reached over loopback.
  private static func reachable(_ listen: [ListenAddress]) -> ListenAddress? {
    guard let first = listen.first(where: { $0.port != 0 }) else { return nil }
    guard first.address.isUnspecified else { return first }
    let loopback = first.address.isIPv4 ? IPAddress(ipv4: 0x7f00_0001) : IPAddress(ipv6High: 0, low: 1)
    return ListenAddress(address: loopback, port: first.port)
  }
}

extension SocketAddress {
  fileprivate init(_ listen: ListenAddress) {
    let address = listen.address
    self.init(
      high: address.isIPv4 ? 0 : address.high, low: address.isIPv4 ? address.low & 0xffff_ffff : address.low,
      port: listen.port, isIPv4: address.isIPv4)
  }
}

/// What the daemon reports.
enum DaemonAnswer {
  struct Facts {
    let listen: [ListenAddress]
    let hasCredentials: Bool
    let authority: String?
  }

  case told(Facts)
  /// This user may not ask.
  case denied(SystemError)
  case none(String)

  /// How long a daemon that must be started first may take.
  private static let patienceMilliseconds: Int32 = 5_000

  var fault: String {
    switch self {
    case .told: "it answers"
    case .denied(let error): "\(error)"
    case .none(let fault): fault
    }
  }

  static func ask(_ socket: String) -> DaemonAnswer {
    switch LocalConnection.open(socket) {
    case .failure(let error): return error.isDenial ? .denied(error) : .none("\(error)")
    case .success(let connection):
      defer { connection.close() }
      let request =
        "GET /v1/status HTTP/1.1\r\nHost: sallyport\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
      guard connection.send(request) else { return .none("it closed the connection") }
      var answer = ByteBuffer()
      while connection.waits(milliseconds: patienceMilliseconds) {
        guard connection.receive(into: &answer) else { return read(answer.bytes.string) }
      }
      return .none("it did not answer within \(patienceMilliseconds / 1_000) s")
    }
  }

  private static func read(_ text: String) -> DaemonAnswer {
    guard text.hasPrefix("HTTP/1.1 200 ") else { return .none("it answered '\(text.prefix { $0 != "\r" })'") }
    let listen = strings("listen", in: text).compactMap(ListenAddress.init(told:))
    let yes = "\"proxy_credentials\": true"
    return .told(
      Facts(
        listen: listen, hasCredentials: text.contains(yes), authority: strings("authority", in: text).first))
  }

  /// The strings of a member that is a string or an array of strings. In the daemon's output only a path can have
  /// escapes, and then it is left out.
  private static func strings(_ name: String, in text: String) -> [String] {
    guard let begin = text.firstRange(of: "\"\(name)\": ")?.upperBound else { return [] }
    let rest = text[begin...]
    if rest.hasPrefix("[") {
      let parts = rest.split(separator: "\"", omittingEmptySubsequences: false)
      var found: [String] = []
      // Between the quotation marks, strings and separators alternate.
      for index in stride(from: 1, to: parts.count, by: 2) {
        found.append(String(parts[index]))
        if index + 1 < parts.count, parts[index + 1].hasPrefix("]") { break }
      }
      return found
    }
    guard rest.hasPrefix("\"") else { return [] }
    let value = String(rest.dropFirst().prefix { $0 != "\"" })
    return value.contains("\\") ? [] : [value]
  }
}

extension ListenAddress {
  /// `127.0.0.1:3128`, `[::1]:3128`
  fileprivate init?(told text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    let host = text[..<colon].drop { $0 == "[" }.prefix { $0 != "]" }
    guard let address = IPAddress(String(host)) else { return nil }
    self.init(address: address, port: port)
  }
}
