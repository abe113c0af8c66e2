// HTTP/1.1 messages by the letter of RFC 9112, written without looking at the parser: what is compared with the parser's
// verdicts, and what everything that leaves a session has to pass. Slow and plain on purpose.

/// One head, taken apart.
public struct StrictHead: Equatable, Sendable {
  public let startLine: [UInt8]
  public let fields: [(name: [UInt8], value: [UInt8])]

  public static func == (left: StrictHead, right: StrictHead) -> Bool {
    left.startLine == right.startLine && left.fields.elementsEqual(right.fields) { $0 == $1 }
  }

  /// The values of the fields of this name, given in lower case.
  public func values(_ name: String) -> [String] {
    fields.filter { StrictGrammar.lowercased($0.name) == Array(name.utf8) }.map {
      String(decoding: $0.value, as: UTF8.self)
    }
  }
}

public enum StrictGrammar {
  static let tokenBytes = Set(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
  /// RFC 3986's characters, and those that the URL standard leaves bare.
  static let targetBytes = Set(
    ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?[]@!$&'()*+,;=%" + "\\^`{|}").utf8)
  static let nameBytes = Set(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._".utf8)

  public static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
    !bytes.isEmpty && bytes.allSatisfy { tokenBytes.contains($0) }
  }

  static func lowercased(_ bytes: [UInt8]) -> [UInt8] { bytes.map { $0 >= 65 && $0 <= 90 ? $0 + 32 : $0 } }

  /// Where the first empty line ends; nil where there is none. `from` is the beginning of a line.
  public static func endOfHead(_ bytes: [UInt8], from: Int) -> Int? {
    if bytes.count >= from + 2, bytes[from] == 13, bytes[from + 1] == 10 { return from + 2 }
    var at = from
    while at + 4 <= bytes.count {
      if bytes[at] == 13, bytes[at + 1] == 10, bytes[at + 2] == 13, bytes[at + 3] == 10 { return at + 4 }
      at += 1
    }
    return nil
  }

  /// Takes apart a head that is whole, with its empty line. nil: it is malformed.
  public static func head(_ bytes: [UInt8]) -> StrictHead? {
    guard let lines = lines(bytes), let first = lines.first, !first.isEmpty else { return nil }
    guard let fields = fields(Array(lines.dropFirst())) else { return nil }
    return StrictHead(startLine: first, fields: fields)
  }

  /// Takes apart a trailer section that is whole, with its empty line.
  public static func trailers(_ bytes: [UInt8]) -> [(name: [UInt8], value: [UInt8])]? {
    if bytes == [13, 10] { return [] }
    return lines(bytes).flatMap { fields($0) }
  }

  /// The lines before the empty line that ends `bytes`; nil where a CR or LF stands alone, or a control character.
  private static func lines(_ bytes: [UInt8]) -> [[UInt8]]? {
    guard bytes.suffix(4) == [13, 10, 13, 10] else { return nil }
    var lines: [[UInt8]] = []
    var line: [UInt8] = []
    var at = 0
    while at < bytes.count - 2 {
      if bytes[at] == 13 {
        guard bytes[at + 1] == 10 else { return nil }
        lines.append(line)
        line = []
        at += 2
        continue
      }
      if bytes[at] == 127 || (bytes[at] < 32 && bytes[at] != 9) { return nil }
      line.append(bytes[at])
      at += 1
    }
    return lines
  }

  private static func fields(_ lines: [[UInt8]]) -> [(name: [UInt8], value: [UInt8])]? {
    var fields: [(name: [UInt8], value: [UInt8])] = []
    for line in lines {
      guard let colon = line.firstIndex(of: 58), isToken(line[..<colon]) else { return nil }
      var value = line[(colon + 1)...]
      while let byte = value.first, byte == 32 || byte == 9 { value.removeFirst() }
      while let byte = value.last, byte == 32 || byte == 9 { value.removeLast() }
      fields.append((Array(line[..<colon]), Array(value)))
    }
    return fields
  }

  // MARK: Requests as a forward proxy takes them

  /// Whether `bytes` are the whole head of a request that a forward proxy may take.
  public static func isProxyRequest(_ bytes: [UInt8]) -> Bool {
    var rest = bytes[...]
    for _ in 0..<4 where rest.starts(with: [13, 10]) { rest = rest.dropFirst(2) }
    let bytes = Array(rest)
    guard endOfHead(bytes, from: 0) == bytes.count, let head = head(bytes) else { return false }
    let parts = head.startLine.split(separator: 32, omittingEmptySubsequences: false).map { Array($0) }
    guard parts.count == 3, isToken(parts[0]), isMethodCased(parts[0]) else { return false }
    // RFC 9110, 2.5: any minor version of the one major version that is spoken.
    guard parts[2].count == 8, parts[2].starts(with: "HTTP/1.".utf8), (48...57).contains(parts[2].last ?? 0) else {
      return false
    }
    guard !parts[1].isEmpty, parts[1].allSatisfy({ targetBytes.contains($0) }) else { return false }
    let isCurrent = parts[2].last != 0x30
    guard isTarget(parts[1], method: parts[0]), isHostRight(head, parts[1], isCurrent: isCurrent) else {
      return false
    }
    guard let length = framing(head, isCurrent: isCurrent) else { return false }
    let method = String(decoding: parts[0], as: UTF8.self)
    return !["CONNECT", "TRACE"].contains(method) || length == "none" || length == "0"
  }

  /// Methods are case-sensitive; one that is known but for its case is none.
  private static func isMethodCased(_ method: [UInt8]) -> Bool {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "TRACK"]
    let text = String(decoding: method, as: UTF8.self)
    return known.contains(text) || !known.contains(text.uppercased())
  }

  private static func isTarget(_ target: [UInt8], method: [UInt8]) -> Bool {
    if method == Array("CONNECT".utf8) { return isAuthority(target, needsPort: true) }
    if target == [42] { return method == Array("OPTIONS".utf8) }
    let text = lowercased(target)
    for scheme in ["http://", "https://"] where text.starts(with: scheme.utf8) {
      let rest = target.dropFirst(scheme.utf8.count)
      // A backslash may stand in a query, not in a path.
      if rest.prefix(while: { $0 != 63 }).contains(0x5c) { return false }
      return isAuthority(Array(rest.prefix { $0 != 47 && $0 != 63 }), needsPort: false)
    }
    return false
  }

  static func isAuthority(_ authority: [UInt8], needsPort: Bool) -> Bool {
    var host = authority[...]
    var port: ArraySlice<UInt8>?
    let firstBehindHost = host.first == 91 ? host.firstIndex(of: 93) : host.startIndex
    guard let firstBehindHost else { return false }
    if let colon = host[firstBehindHost...].firstIndex(of: 58) {
      port = host[(colon + 1)...]
      host = host[..<colon]
    }
    if host.first == 91 {
      guard host.last == 93, host.count > 3 else { return false }
      let inside = host.dropFirst().dropLast()
      guard inside.allSatisfy({ "0123456789abcdefABCDEF:.".utf8.contains($0) }) else { return false }
    } else if host.isEmpty || !host.allSatisfy({ nameBytes.contains($0) }) {
      return false
    }
    guard let port else { return !needsPort }
    if port.isEmpty { return !needsPort }
    guard port.count <= 5, port.allSatisfy({ (48...57).contains($0) }),
      let number = Int(String(decoding: port, as: UTF8.self))
    else { return false }
    return number >= 1 && number <= 65535
  }

  private static func isHostRight(_ head: StrictHead, _ target: [UInt8], isCurrent: Bool) -> Bool {
    let hosts = head.fields.filter { lowercased($0.name) == Array("host".utf8) }
    guard let host = hosts.first else { return !isCurrent }
    guard hosts.count == 1 else { return false }
    return isAuthority(host.value, needsPort: false) || (host.value.isEmpty && target == [42])
  }

  /// "none", "chunked" or the digits of the length; nil where the fields contradict each other.
  public static func framing(_ head: StrictHead, isCurrent: Bool) -> String? {
    let codings = head.values("transfer-encoding")
    let lengths = head.values("content-length")
    guard
      lengths.allSatisfy({
        !$0.isEmpty && $0.utf8.count <= 19 && $0.utf8.allSatisfy { (48...57).contains($0) }
      })
    else { return nil }
    let numbers = lengths.map { UInt64($0) ?? .max }
    guard Set(numbers).count <= 1, numbers.allSatisfy({ $0 <= UInt64(Int64.max) }) else { return nil }
    if codings.isEmpty { return numbers.first.map(String.init) ?? "none" }
    guard codings.count == 1, codings[0].lowercased() == "chunked", numbers.isEmpty, isCurrent else {
      return nil
    }
    return "chunked"
  }
}
