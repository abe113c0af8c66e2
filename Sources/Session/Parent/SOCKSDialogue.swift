// The client's part of SOCKS 5 (RFC 1928), with user name and password (RFC 1929). The server resolves names. Nothing
// is sent before the response that it depends on. Tests: SOCKSDialogueTests.

import Bytes
import Policy

/// One CONNECT over SOCKS 5.
struct SOCKSDialogue: Sendable {
  /// Longest user name, password or host name in bytes: their length is one byte (RFC 1928, 5; RFC 1929, 2).
  static let longestText = 255

  private static let version: UInt8 = 5
  private static let authenticationVersion: UInt8 = 1
  private static let withoutAuthentication: UInt8 = 0
  private static let usernameAndPassword: UInt8 = 2
  private static let noMethod: UInt8 = 0xff

  /// What is awaited.
  private enum Stage: Equatable {
    case beginning, method, authentication, reply
  }

  /// The result of reading a message of the server, as far as it has arrived.
  private enum Reading {
    case incomplete
    case complete(count: Int)
    case refused(ParentRefusal)
  }

  private let place: ParentPlace
  private let host: CanonicalHost
  private let port: UInt16
  private let credentials: RouteCredentials?
  private var stage = Stage.beginning

  init(_ parent: Route.Parent, host: CanonicalHost, port: UInt16) {
    place = ParentPlace(parent, host: host, port: port)
    self.host = host
    self.port = port
    credentials = parent.password
  }

  mutating func received(_ input: Span<UInt8>, _ output: inout ByteBuffer) -> ParentHandshake.Progress {
    if stage == .beginning {
      if let refusal = unsayable() { return .refused(refusal) }
      writeGreeting(to: &output)
      stage = .method
    }
    var consumed = 0
    while consumed < input.count {
      let answered = stage
      switch read(input.extracting(consumed..<input.count), &output) {
      case .incomplete: return .wants(consumed: consumed)
      case .refused(let refusal): return .refused(refusal)
      case .complete(let count):
        consumed += count
        if answered == .reply { return .open(consumed: consumed) }
      }
    }
    return .wants(consumed: consumed)
  }

  private mutating func read(_ bytes: Span<UInt8>, _ output: inout ByteBuffer) -> Reading {
    switch stage {
    case .beginning: .incomplete
    case .method: readMethod(bytes, &output)
    case .authentication: readAuthentication(bytes, &output)
    case .reply: readReply(bytes)
    }
  }

  // MARK: What is sent

  /// A value that this protocol cannot express.
  private func unsayable() -> ParentRefusal? {
    if let credentials {
      for text in [credentials.username, credentials.password] where !(1...Self.longestText).contains(text.count) {
        return ParentRefusal(
          .parentAuthentication,
          "A user name and a password of 1 to \(Self.longestText) bytes each are expected for \(place.parent) (RFC 1929)."
        )
      }
    }
    if host.address == nil, host.bytes.count > Self.longestText {
      return ParentRefusal(
        .parentFailed, "A name of at most \(Self.longestText) bytes is expected for \(place.parent) (RFC 1928).")
    }
    return nil
  }

  /// RFC 1928, 3. If the route has credentials, they are offered first, because an operator who configures them wants
  /// them used. A server may still accept the client without them.
  private func writeGreeting(to output: inout ByteBuffer) {
    output.append(Self.version)
    if credentials == nil {
      output.append([1, Self.withoutAuthentication])
    } else {
      output.append([2, Self.usernameAndPassword, Self.withoutAuthentication])
    }
  }

  /// RFC 1929, 2.
  private func writeCredentials(_ credentials: RouteCredentials, to output: inout ByteBuffer) {
    output.append(Self.authenticationVersion)
    for text in [credentials.username, credentials.password] {
      output.append(UInt8(truncatingIfNeeded: text.count))
      output.append(text)
    }
  }

  /// RFC 1928, 4: CONNECT to the destination, a name as a name.
  private func writeRequest(to output: inout ByteBuffer) {
    output.append([Self.version, 1, 0])
    if let address = host.address {
      output.append(address.isIPv4 ? 1 : 4)
      if !address.isIPv4 { output.append(bigEndian: address.high, bytes: 8) }
      output.append(bigEndian: address.low, bytes: address.isIPv4 ? 4 : 8)
    } else {
      output.append([3, UInt8(truncatingIfNeeded: host.bytes.count)])
      output.append(host.bytes)
    }
    output.append(bigEndian: UInt64(port), bytes: 2)
  }

  // MARK: What is read

  private mutating func readMethod(_ bytes: Span<UInt8>, _ output: inout ByteBuffer) -> Reading {
    if let refusal = versionFault(bytes[0]) { return .refused(refusal) }
    guard bytes.count >= 2 else { return .incomplete }
    switch (bytes[1], credentials) {
    case (Self.withoutAuthentication, _):
      writeRequest(to: &output)
      stage = .reply
      return .complete(count: 2)
    case (Self.usernameAndPassword, let credentials?):
      writeCredentials(credentials, to: &output)
      stage = .authentication
      return .complete(count: 2)
    case (Self.noMethod, nil):
      return .refused(
        ParentRefusal(
          .parentAuthentication, "Credentials, or more, are expected by \(place.parent), and its route has none."))
    case (Self.noMethod, _):
      return .refused(
        ParentRefusal(
          .parentAuthentication,
          "User name and password, or no authentication, were offered to \(place.parent), and it takes neither."))
    case (let method, _):
      return .refused(
        ParentRefusal(
          .parentFailed,
          "One of the authentication methods that were offered was expected of \(place.parent), and it chose \(method)."
        ))
    }
  }

  private mutating func readAuthentication(_ bytes: Span<UInt8>, _ output: inout ByteBuffer) -> Reading {
    guard bytes[0] == Self.authenticationVersion else {
      return .refused(
        ParentRefusal(
          .parentFailed,
          "Version 1 of the answer to user name and password (RFC 1929) was expected of \(place.parent), and it sent "
            + "\(bytes[0])."))
    }
    guard bytes.count >= 2 else { return .incomplete }
    guard bytes[1] == 0 else {
      return .refused(
        ParentRefusal(
          .parentAuthentication,
          "The user name and password of its route are not what \(place.parent) takes (status \(bytes[1]))."))
    }
    writeRequest(to: &output)
    stage = .reply
    return .complete(count: 2)
  }

  /// RFC 1928, 6. The code alone makes a refusal: servers close after it, and some omit the rest.
  private func readReply(_ bytes: Span<UInt8>) -> Reading {
    if let refusal = versionFault(bytes[0]) { return .refused(refusal) }
    guard bytes.count >= 2 else { return .incomplete }
    if bytes[1] != 0 { return .refused(refusal(bytes[1])) }
    guard bytes.count >= 3 else { return .incomplete }
    if bytes[2] != 0 { return .refused(malformedReply("zero in its reserved byte", bytes[2])) }
    guard bytes.count >= 4 else { return .incomplete }
    let count: Int
    switch bytes[3] {
    case 1: count = 4 + 4 + 2
    case 4: count = 4 + 16 + 2
    case 3:
      guard bytes.count >= 5 else { return .incomplete }
      count = 4 + 1 + Int(bytes[4]) + 2
    default: return .refused(malformedReply("the address type 1, 3 or 4", bytes[3]))
    }
    return bytes.count >= count ? .complete(count: count) : .incomplete
  }

  // MARK: What is wrong

  private func versionFault(_ byte: UInt8) -> ParentRefusal? {
    if byte == Self.version { return nil }
    return ParentRefusal(
      .parentFailed,
      "Version 5 of SOCKS was expected of \(place.parent), and it sent \(ParentPlace.speaker(of: byte)).")
  }

  private func malformedReply(_ expected: String, _ seen: UInt8) -> ParentRefusal {
    ParentRefusal(
      .parentFailed,
      "A SOCKS reply with \(expected) was expected of \(place.parent) for \(place.destination), and it sent \(seen).")
  }

  private func refusal(_ code: UInt8) -> ParentRefusal {
    let words: String
    switch code {
    case 1: words = "general failure"
    case 2: words = "not allowed by its rules"
    case 3: words = "network unreachable"
    case 4: words = "host unreachable"
    case 5: words = "connection refused"
    case 6: words = "time to live expired"
    case 7: words = "command not supported"
    case 8: words = "address type not supported"
    default: words = "a code that is not assigned"
    }
    return ParentRefusal(
      .parentRefused,
      "A connection to \(place.destination) was refused by \(place.parent): \(words) (SOCKS reply \(code)).",
      allowsNext: [1, 3, 4, 5, 6].contains(code))
  }

  /// The connection ended, before what is awaited or `within` it. In place of a response to the credentials this most
  /// likely means that they are refused (RFC 1929, 2), so no other route is tried.
  func ended(within isWithin: Bool) -> ParentRefusal {
    let awaited: String
    switch stage {
    case .beginning, .method: awaited = "its choice of an authentication method"
    case .authentication: awaited = "its answer to user name and password"
    case .reply: awaited = "its reply for \(place.destination)"
    }
    let when = isWithin ? "within" : "before"
    return ParentRefusal(
      .parentFailed, "The connection was closed by \(place.parent) \(when) \(awaited).",
      allowsNext: !isWithin && stage != .authentication)
  }
}

extension ByteBuffer {
  /// The lowest `bytes` bytes of a number, in network order.
  fileprivate mutating func append(bigEndian value: UInt64, bytes: Int) {
    for place in (0..<bytes).reversed() { append(UInt8(truncatingIfNeeded: value >> UInt64(8 * place))) }
  }
}
