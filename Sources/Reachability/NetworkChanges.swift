// Describes what has changed between two states, for the log and for events. Links come first, then the default routes,
// then kinds, then addresses: causes before effects. A text that is too long is cut at the end.

import Bytes

extension NetworkState {
  /// The longest text in bytes that `reasons` returns: a log line, and not a page if a machine with hundreds of
  /// addresses loses a link.
  public static let longestReasonsBytes = 300

  /// In words, "link eth0 down; default route of IPv4 by wlan0, was eth0; address 10.0.0.2 of eth0 gone"; empty if
  /// nothing has changed. ASCII except for the names of interfaces.
  public func reasons(since old: NetworkState) -> String {
    let all =
      changedLinks(since: old) + changedRoutes(since: old) + changedKinds(since: old) + changedAddresses(since: old)
    var text = ""
    for (position, reason) in all.enumerated() {
      let left = all.count - position - 1
      let next = (text.isEmpty ? "" : "; ") + reason
      let room = Self.longestReasonsBytes - (left == 0 ? 0 : Self.more(left).utf8.count)
      if text.utf8.count + next.utf8.count > room { return text + Self.more(left + 1) }
      text += next
    }
    return text
  }

  private static func more(_ count: Int) -> String { "; and \(count) more" }

  private func changedLinks(since old: NetworkState) -> [String] {
    Set(links.keys).union(old.links.keys).sorted().compactMap { index in
      switch (old.links[index], links[index]) {
      case (nil, let link?): "link \(Self.printable(link.name)) new, \(link.condition)"
      case (let link?, nil): "link \(Self.printable(link.name)) gone"
      case (let before?, let link?) where before != link: Self.change(from: before, to: link)
      default: nil
      }
    }
  }

  private static func change(from old: Link, to new: Link) -> String {
    let name = printable(new.name)
    let named = old.name == new.name ? "link \(name)" : "link \(name), was \(printable(old.name)),"
    if old.condition != new.condition { return "\(named) \(new.condition)" }
    return old.name == new.name ? "link \(name) changed" : "link \(name), was \(printable(old.name))"
  }

  private func changedRoutes(since old: NetworkState) -> [String] {
    [("IPv4", old.ipv4.answer, ipv4.answer), ("IPv6", old.ipv6.answer, ipv6.answer)].compactMap {
      family, before, after in
      guard before != after, let words = words(after, was: before, old) else { return nil }
      return "default route of \(family) \(words)"
    }
  }

  /// How a default route differs; nil if only the number of the error does.
  private func words(_ new: RouteAnswer, was before: RouteAnswer, _ old: NetworkState) -> String? {
    if case .by(let interface, let source, let gateway) = new,
      case .by(let oldInterface, let oldSource, let oldGateway) = before, interface == oldInterface
    {
      if gateway != oldGateway { return "by gateway \(Self.words(gateway)), was \(Self.words(oldGateway))" }
      return "from \(Self.words(source)), was \(Self.words(oldSource))"
    }
    let now = leaving(by: new)
    let then = old.leaving(by: before)
    if now == then { return nil }
    if case .by = new { return "by \(now), was \(then)" }
    return "\(now), was \(then)"
  }

  private func leaving(by answer: RouteAnswer) -> String {
    switch answer {
    case .by(let interface, source: _, gateway: _): Self.printable(name(of: interface))
    case .unreachable: "none"
    case .unknown: "unknown"
    }
  }

  private static func words(_ address: IPAddress?) -> String { address?.description ?? "none" }

  /// Only for links that existed before: the kind of a new one is not a change.
  private func changedKinds(since old: NetworkState) -> [String] {
    links.keys.filter { old.links[$0] != nil && kinds[$0] != old.kinds[$0] }.sorted().map { index in
      let before = old.kinds[index] ?? .unknown
      return "\(Self.printable(name(of: index))) is \((kinds[index] ?? .unknown).rawValue), was \(before.rawValue)"
    }
  }

  private func changedAddresses(since old: NetworkState) -> [String] {
    Set(addresses.keys).union(old.addresses.keys).sorted().flatMap { index in
      let now = addresses[index] ?? []
      let before = old.addresses[index] ?? []
      let name = Self.printable(links[index] == nil ? old.name(of: index) : name(of: index))
      return Self.sorted(before.subtracting(now)).map { "address \($0) of \(name) gone" }
        + Self.sorted(now.subtracting(before)).map { "address \($0) of \(name) new" }
    }
  }

  private static func sorted(_ addresses: Set<IPAddress>) -> [IPAddress] {
    addresses.sorted { ($0.isIPv4 ? 0 : 1, $0.high, $0.low) < ($1.isIPv4 ? 0 : 1, $1.high, $1.low) }
  }

  /// The name of an interface may have control characters, which must not get into a log.
  private static func printable(_ name: String) -> String {
    String(String.UnicodeScalarView(name.unicodeScalars.map { $0.properties.isPrintable ? $0 : "?" }))
  }
}

extension Link {
  /// In one word.
  fileprivate var condition: String { isUp ? (hasCarrier ? "up" : "without carrier") : "down" }
}

extension Unicode.Scalar.Properties {
  fileprivate var isPrintable: Bool {
    switch generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse: false
    default: true
    }
  }
}
