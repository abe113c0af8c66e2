// What many exchanges of the history have in common: who asked, for what, and what the decision was. They differ only
// in time, path, status and cost. So a kind is stored once in the file, and each exchange refers to its kind.
//
// A kind is its words, always in the same order. The loop writes them in that order, the table has a column for each,
// and the commands select and group by them. Tests: HistoryBatchTests.

import Bytes
import Policy
import Reachability

/// A fact as a word. The raw value is its name in the log, in the table and on the command line.
public enum HistoryWord: String, CaseIterable, Sendable {
  /// The client's address.
  case client
  /// The number and name of its user. `owners`: the users that own this subordinate user, separated by commas.
  case uid, user, owners
  /// How much could be learned about the client; absent if it is not a program of this machine.
  case known
  /// The path in the control group hierarchy, components separated by slashes, and the innermost unit in it.
  case cgroup, unit
  case program
  case proxyUser = "proxy_user"
  case method
  /// The destination of the request. `host` is canonical.
  case scheme, host, port
  /// The network link that was used.
  case link
  case `protocol`
  case rule, place, decision, reason, outcome, violation, report, route
  /// The address of the connection, or that of the parent.
  case upstream
  case assurance, cache

  /// The words that a loop writes. It writes scheme, host and port together in `host`: `https://a.example:8443`, or
  /// `a.example:443` for a CONNECT.
  static let written = allCases.filter { $0 != .scheme && $0 != .port }

  fileprivate var index: Int { Self.indices[self] ?? 0 }
  private static let indices = Dictionary(uniqueKeysWithValues: allCases.enumerated().map { ($1, $0) })
}

public struct HistoryKind: Hashable, Sendable {
  /// In the order of `HistoryWord`; empty: no such word.
  public private(set) var words: [String]

  public init() { words = Array(repeating: "", count: HistoryWord.allCases.count) }

  /// `words` in the order of `HistoryWord`.
  public init(words: [String]) {
    precondition(words.count == HistoryWord.allCases.count, "a kind has another number of words")
    self.words = words
  }

  public subscript(_ word: HistoryWord) -> String? {
    get {
      let text = words[word.index]
      return text.isEmpty ? nil : text
    }
    set { words[word.index] = newValue ?? "" }
  }

  public var isDenied: Bool { self[.decision] == Self.denied }
  /// Whether a policy was asked. It is not asked about an unreadable request.
  public var isDecided: Bool { isDenied || self[.decision] == Self.allowed }
  /// Whether an operator decided, or could have decided.
  public var wasAsked: Bool { self[.reason].map(Self.reasonsOfOperators.contains) ?? false }
  public var isTunnel: Bool { self[.method] == "CONNECT" }
  /// Whether the method is known whole: of a longer one, the daemon keeps so many bytes.
  var hasWholeMethod: Bool { (self[.method]?.utf8.count ?? 0) < Self.mostMethodBytes }
  public var port: UInt16? { self[.port].flatMap { UInt16($0) } }

  /// See ExchangeRecord.longestMethod of Session, which this module does not know.
  private static let mostMethodBytes = 32

  public static let allowed = "allow"
  public static let denied = "deny"
  private static let reasonsOfOperators: Set<String> = Set(
    [
      Decision.Reason.operatorAllows, .operatorDenies, .unanswered, .temporaryAllow, .temporaryDeny,
    ].map(\.rawValue))

  /// The host as rules match it; nil if the request has no valid host.
  public var canonicalHost: CanonicalHost? {
    guard let text = self[.host] else { return nil }
    if let address = IPAddress(text) { return CanonicalHost(canonical: Array(text.utf8), address: address) }
    var host = CanonicalHost()
    return host.set(Array(text.utf8).span) == nil ? host : nil
  }

  /// `https://a.example:8443`, with the port only if it is not the scheme's default; `a.example:443` for a CONNECT.
  public var origin: String {
    guard let host = self[.host] else { return "" }
    let name = host.contains(":") ? "[\(host)]" : host
    if isTunnel { return self[.port].map { "\(name):\($0)" } ?? name }
    let scheme = self[.scheme] ?? ""
    let isUsual = port == nil || port == Scheme(rawValue: scheme)?.defaultPort
    return (scheme.isEmpty ? "" : scheme + "://") + name + (isUsual ? "" : ":\(self[.port] ?? "")")
  }
}

// MARK: Who asked

extension HistoryKind {
  /// The client as the rules saw it; nil if it was not a program of this machine, or no rule needed it.
  public var localClient: LocalClient? {
    guard let known = self[.known] else { return nil }
    let isUserKnown =
      known == LocalClient.Outcome.known.rawValue || known == LocalClient.Outcome.unitUnknown.rawValue
    let isUnitKnown =
      known == LocalClient.Outcome.known.rawValue || known == LocalClient.Outcome.userUnknown.rawValue
    return LocalClient(
      userID: self[.uid].flatMap { UInt32($0) } ?? LocalClient.noUser, user: self[.user],
      owners: (self[.owners] ?? "").split(separator: ",").compactMap { UInt32($0) },
      recordedUnits: isUnitKnown ? (self[.cgroup] ?? "").split(separator: "/").map(String.init) : nil,
      isUserInDoubt: !isUserKnown)
  }

  public var reachability: ReachabilityStatus { self[.link].flatMap { ReachabilityStatus(rawValue: $0) } ?? .unknown }
}
