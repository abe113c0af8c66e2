// Makes rules from what happened: a policy with `default = "deny"` that allows what was allowed, and nothing that was
// denied.
//
// Requests are grouped by who asked, where to and how. Rules are written for each group, and hosts with the same rules
// share one. Then the engine itself decides every request of the period by these rules. If a rule allows what was
// denied, it is too wide and is written again with less generalization: first without host patterns, then without
// folded paths, then without shapes. Finally a rule that denies is put before it. If no rule allows what was allowed,
// because servers read its path in several ways, the path is left out of the rule. Tests: HistoryLearningTests.

import Bytes
import Policy

public struct HistoryLearning {
  /// This many hosts of one name that differ in a number are generalized to any such host.
  public static let foldedHosts = 5
  /// The most rounds of writing and deciding. Each round narrows at least one rule, and a rule has five steps.
  private static let mostRounds = 32

  /// Reads the rules; nil: they are not valid.
  private let load: (String) -> Policy?
  private let nameOf: (String, String?) -> String

  /// The result.
  public struct Outcome {
    /// The text of the rules. The rules for what was denied are comments.
    public let text: String
    public let rules: Int
    /// How many exchanges it was learned from.
    public let learned: Int
    /// Exchanges of clients that could not be looked up in time, and those that no rule can match.
    public let leftOut: Int
  }

  public enum Fault: Error, CustomStringConvertible {
    case nothing
    case invalid
    case inseparable(String)
    /// The first request that no rule denies yet.
    case tooManyDenials(String)

    public var description: String {
      switch self {
      case .nothing: "nothing was allowed in this time, so there is nothing to learn"
      case .invalid: "what was learned is no valid configuration; this is a mistake in sallyport"
      case .inseparable(let request):
        "no rules tell apart what was allowed and what was denied; the first that they cannot tell apart is \(request)"
      case .tooManyDenials(let request):
        "more than \(HistoryLearning.mostDenials) rules that deny would be needed to tell apart what was allowed and what was denied; the first that has none is \(request); learn from less at a time, such as from one host or one user"
      }
    }
  }

  public init(load: @escaping (String) -> Policy?, nameOf: @escaping (String, String?) -> String) {
    self.load = load
    self.nameOf = nameOf
  }

  // MARK: What happened

  /// A destination as one asker used it.
  fileprivate struct Place: Hashable {
    let asker: LearnedAsker
    let form: LearnedForm
    let host: String
    let port: UInt16
  }

  private struct Use {
    /// By method. A tunnel has one entry, without paths.
    var asked: [String: Asked] = [:]

    struct Asked {
      var paths: Set<LearnedPath> = []
      var count = 0
      var last: Int64 = 0
    }
  }

  /// How widely the rules of a place are written.
  private struct Width: Hashable {
    var foldsHosts = true
    var detail = LearnedPaths.Detail.folded
    /// No pattern allows all that was allowed.
    var isAnyPath = false

    /// Removes one generalization; false: none is left.
    mutating func narrow() -> Bool {
      if foldsHosts {
        foldsHosts = false
      } else if isAnyPath {
        return false
      } else if detail < .literal {
        detail = detail == .folded ? .shapes : .literal
      } else {
        return false
      }
      return true
    }
  }

  /// Learns from requests of any time and any client.
  public func learn(from requests: [HistoryRequest]) throws(Fault) -> Outcome {
    let (settled, leftOut) = Self.settle(requests)
    var allowed = settled.filter { !$0.kind.isDenied }
    let denied = settled.filter { $0.kind.isDenied }
    if allowed.isEmpty { throw .nothing }
    var unlearned: [HistoryRequest] = []
    for _ in 0..<Self.mostAttempts {
      switch try attempt(allowed, denied) {
      case .rules(let rules):
        return outcome(rules, allowed: allowed, denied: denied, leftOut: leftOut, unlearned: unlearned)
      case .inseparable(let culprits, let example):
        unlearned += culprits.sorted().map { allowed[$0] }
        allowed = allowed.indices.filter { !culprits.contains($0) }.map { allowed[$0] }
        if allowed.isEmpty || culprits.isEmpty { throw .inseparable(Self.text(example)) }
      }
    }
    throw .inseparable("not found in \(Self.mostAttempts) attempts")
  }

  /// How often it begins again without what no rule can allow by itself. Each time costs as much as learning.
  private static let mostAttempts = 8

  private enum Attempt {
    case rules([LearnedRule])
    /// What was allowed at these indices opens what was denied, whatever the rules. `example`: a request that shows it.
    case inseparable(Set<Int>, example: HistoryRequest)
  }

  private func attempt(_ allowed: [HistoryRequest], _ denied: [HistoryRequest]) throws(Fault) -> Attempt {
    let uses = Self.uses(allowed)
    var widths: [Place: Width] = [:]
    var denials: [LearnedRule] = []
    // For which requests a rule has given up naming paths.
    var causes: [Place: Set<Int>] = [:]
    for _ in 0..<Self.mostRounds {
      let rules = named(denials + Self.rules(uses, widths))
      guard let policy = load(text(rules)) else { throw .invalid }
      var judge = HistoryJudge(policy) { _ in false }
      var isRight = true
      var narrowed: Set<Place> = []
      for request in denied where judge.judge(request)?.reason == .rule {
        isRight = false
        if Self.narrow(&widths, &narrowed, uses: uses, rules: rules, judge: &judge, request: request) { continue }
        guard let denial = Self.denial(request) else {
          let place = Self.place(request, uses)
          let users = Set(allowed.indices.filter { place != nil && Self.place(allowed[$0], uses) == place })
          return .inseparable(place.flatMap { causes[$0] } ?? users, example: request)
        }
        guard Self.add(denial, to: &denials) else { throw .tooManyDenials(Self.text(request)) }
      }
      var opened: Set<Place> = []
      for (index, request) in allowed.enumerated() where judge.judge(request).map({ $0.reason == .rule }) != true {
        isRight = false
        guard let place = Self.place(request, uses) else { return .inseparable([index], example: request) }
        if widths[place]?.isAnyPath ?? false, !opened.contains(place) {
          return .inseparable(causes[place] ?? [index], example: request)
        }
        widths[place, default: Width()].isAnyPath = true
        causes[place, default: []].insert(index)
        opened.insert(place)
      }
      if isRight { return .rules(rules) }
    }
    throw .inseparable("not found in \(Self.mostRounds) rounds")
  }

  /// The most rules that deny. If more are needed, what was denied then is a policy of its own.
  private static let mostDenials = 200
  /// The most paths that one of them lists, for the same reason.
  private static let mostDeniedPaths = 1000

  /// Requests that rules can match, each either allowed or denied. The latest decision counts.
  private static func settle(_ requests: [HistoryRequest]) -> (requests: [HistoryRequest], leftOut: Int) {
    struct Question: Hashable {
      let asker: LearnedAsker
      let method: String?
      let origin: String
      let path: String
    }
    var leftOut = 0
    var latest: [Question: Int64] = [:]
    var verdicts: [Question: Bool] = [:]
    var meant: [(Question, HistoryRequest)] = []
    for request in requests {
      let kind = request.kind
      guard let asker = LearnedAsker(kind), kind.canonicalHost != nil, kind.port != nil, kind[.scheme] != nil,
        kind.hasWholeMethod
      else {
        leftOut += request.count
        continue
      }
      // A denied address is denied regardless of the rules.
      if kind[.reason] == Decision.Reason.addressDenied.rawValue { continue }
      let question = Question(asker: asker, method: kind[.method], origin: kind.origin, path: request.path)
      if latest[question] ?? -1 <= request.last {
        latest[question] = request.last
        verdicts[question] = kind.isDenied
      }
      meant.append((question, request))
    }
    return (meant.filter { verdicts[$0.0] == $0.1.kind.isDenied }.map(\.1), leftOut)
  }

  /// Used as the method of a tunnel. Rules name no method for one.
  private static let tunnel = ""

  private static func uses(_ allowed: [HistoryRequest]) -> [Place: Use] {
    // The tunnel distinguishes requests inside it from requests that were sent without one.
    var tunnels: Set<Place> = []
    var opened: Set<Place> = []
    for request in allowed {
      guard let place = rawPlace(request) else { continue }
      if case .tunnel = place.form {
        // Only of an intercepted tunnel is nothing said about the certificate in it. In a plain one, requests of that
        // host were sent without a tunnel.
        if request.kind[.assurance] == nil { tunnels.insert(place.with(.https)) }
      } else {
        opened.insert(place)
      }
    }
    let intercepted = tunnels.intersection(opened)
    var uses: [Place: Use] = [:]
    for request in allowed {
      guard var place = rawPlace(request) else { continue }
      if intercepted.contains(place.with(.https)), place.form != .http { place = place.with(.intercepted) }
      let method = request.kind.isTunnel ? tunnel : request.kind[.method] ?? ""
      var asked = uses[place]?.asked[method] ?? Use.Asked()
      asked.count += request.count
      asked.last = max(asked.last, request.last)
      if !request.kind.isTunnel { asked.paths.formUnion(LearnedPath.all(of: request.path)) }
      uses[place, default: Use()].asked[method] = asked
    }
    return uses
  }

  private static func rawPlace(_ request: HistoryRequest) -> Place? {
    let kind = request.kind
    guard let asker = LearnedAsker(kind), let host = kind[.host], let port = kind.port else { return nil }
    let form: LearnedForm =
      kind.isTunnel
      ? .tunnel(isVerified: kind[.assurance] == "probe") : kind[.scheme] == Scheme.http.rawValue ? .http : .https
    return Place(asker: asker, form: form, host: host, port: port)
  }

  private static func place(_ request: HistoryRequest, _ uses: [Place: Use]) -> Place? {
    guard let place = rawPlace(request), !request.kind.isTunnel else { return nil }
    return [place, place.with(.intercepted)].first { uses[$0] != nil }
  }

  // MARK: Rules

  /// What the rules of several hosts have in common.
  private struct Terms: Hashable {
    let asker: LearnedAsker
    let form: LearnedForm
    let port: UInt16
    let methods: [String]
    let paths: [String]
    /// If hosts are folded: the parts of the name around their number.
    let fold: String?
  }

  private static func rules(_ uses: [Place: Use], _ widths: [Place: Width]) -> [LearnedRule] {
    let folds = folds(uses, widths)
    // Hosts of one pattern share one list of paths.
    var together: [Place: (uses: [Use], hosts: Set<String>, width: Width)] = [:]
    for (place, use) in uses {
      let width = widths[place] ?? Width()
      let folded = folds[place]
      let target = folded.map { place.with(host: $0) } ?? place
      var entry = together[target] ?? ([], [], width)
      entry.uses.append(use)
      entry.hosts.insert(folded ?? place.host)
      entry.width.detail = max(entry.width.detail, width.detail)
      entry.width.isAnyPath = entry.width.isAnyPath || width.isAnyPath
      together[target] = entry
    }
    var rules: [Terms: LearnedRule] = [:]
    for (place, entry) in together {
      for (methods, paths, count, last) in requests(entry.uses, entry.width) {
        let terms = Terms(
          asker: place.asker, form: place.form, port: place.port, methods: methods, paths: paths,
          fold: folds.isEmpty ? nil : place.host.hasPrefix("*") ? place.host : nil)
        var rule =
          rules[terms]
          ?? LearnedRule(
            asker: place.asker, form: place.form, hosts: [], port: place.port, methods: methods, paths: paths)
        rule.hosts = Set(rule.hosts).union(entry.hosts).sorted()
        rule.count += count
        rule.last = max(rule.last, last)
        rules[terms] = rule
      }
    }
    return rules.values.sorted {
      ($0.asker, $0.form, $0.hosts.first ?? "", $0.port, $0.methods.joined(separator: " "))
        < ($1.asker, $1.form, $1.hosts.first ?? "", $1.port, $1.methods.joined(separator: " "))
    }
  }

  /// Methods with the same paths, those paths, how often they were used, and when last. A tunnel has one entry without
  /// methods.
  private static func requests(
    _ uses: [Use], _ width: Width
  ) -> [(methods: [String], paths: [String], count: Int, last: Int64)] {
    var byMethod: [String: Use.Asked] = [:]
    for use in uses {
      for (method, asked) in use.asked {
        var all = byMethod[method] ?? Use.Asked()
        all.paths.formUnion(asked.paths)
        all.count += asked.count
        all.last = max(all.last, asked.last)
        byMethod[method] = all
      }
    }
    let isIntercepted = byMethod.count > 1
    let opened = byMethod[tunnel]
    if let opened, !isIntercepted { return [([], [], opened.count, opened.last)] }
    byMethod[tunnel] = nil
    var byPaths: [[String]: (methods: [String], paths: [String], count: Int, last: Int64)] = [:]
    for (method, asked) in byMethod {
      let patterns = width.isAnyPath ? [] : LearnedPaths.patterns(asked.paths, width.detail) ?? []
      var entry = byPaths[patterns] ?? ([], patterns, 0, 0)
      entry.methods = (entry.methods + [method]).sorted()
      entry.count += asked.count
      entry.last = max(entry.last, asked.last)
      byPaths[patterns] = entry
    }
    return Array(byPaths.values)
  }

  /// `mirror1.example.org`, `mirror2.example.org`, … become `*.example.org` if there are enough of them.
  private static func folds(_ uses: [Place: Use], _ widths: [Place: Width]) -> [Place: String] {
    struct Series: Hashable {
      let asker: LearnedAsker
      let form: LearnedForm
      let port: UInt16
      let stem: String
      let parent: String
    }
    var series: [Series: [Place]] = [:]
    for place in uses.keys where widths[place]?.foldsHosts ?? true {
      guard IPAddress(place.host) == nil, let dot = place.host.firstIndex(of: ".") else { continue }
      let label = place.host[..<dot]
      let parent = String(place.host[dot...].dropFirst())
      // Names below a single label may belong to anyone.
      guard parent.contains("."), label.contains(where: \.isNumber) else { continue }
      let stem = String(
        label.map { $0.isNumber ? "#" : $0 }.reduce(into: "") { if !($1 == "#" && $0.hasSuffix("#")) { $0.append($1) } }
      )
      series[Series(asker: place.asker, form: place.form, port: place.port, stem: stem, parent: parent), default: []]
        .append(place)
    }
    var folds: [Place: String] = [:]
    for (series, places) in series where places.count >= foldedHosts {
      for place in places { folds[place] = "*.\(series.parent)" }
    }
    return folds
  }

  /// Narrows the rule that allowed a denied request; false: it cannot be narrowed further.
  private static func narrow(
    _ widths: inout [Place: Width], _ narrowed: inout Set<Place>, uses: [Place: Use], rules: [LearnedRule],
    judge: inout HistoryJudge, request: HistoryRequest
  ) -> Bool {
    guard let number = judge.judge(request)?.rule, rules.indices.contains(number) else { return false }
    let rule = rules[number]
    var hasNarrowed = false
    for place in uses.keys
    where place.asker == rule.asker && place.form == rule.form && place.port == rule.port
      && rule.hosts.contains(where: { $0 == place.host || $0.hasPrefix("*") && place.host.hasSuffix($0.dropFirst()) })
    {
      // One step per round, however many requests show that the rule is too wide.
      if narrowed.contains(place) {
        hasNarrowed = true
        continue
      }
      var width = widths[place] ?? Width()
      // All hosts of a pattern give it up together, and only if there is one.
      if !rule.hosts.contains(where: { $0.hasPrefix("*") }) { width.foldsHosts = false }
      if request.kind.isTunnel, !width.foldsHosts { continue }
      if width.narrow() {
        widths[place] = width
        narrowed.insert(place)
        hasNarrowed = true
      }
    }
    return hasNarrowed
  }

  /// A rule that denies exactly this request.
  private static func denial(_ request: HistoryRequest) -> LearnedRule? {
    guard let place = rawPlace(request) else { return nil }
    var rule = LearnedRule(asker: place.asker, form: place.form, hosts: [place.host], port: place.port)
    rule.denies = true
    rule.count = request.count
    rule.last = request.last
    if !request.kind.isTunnel {
      guard let paths = LearnedPaths.patterns(Set(LearnedPath.all(of: request.path)), .literal) else { return nil }
      rule.methods = [request.kind[.method] ?? ""]
      rule.paths = paths
    }
    return rule
  }

  /// Denials that differ in their paths alone are one rule. false: there are as many as may be.
  private static func add(_ denial: LearnedRule, to denials: inout [LearnedRule]) -> Bool {
    let index = denials.firstIndex {
      $0.asker == denial.asker && $0.form == denial.form && $0.hosts == denial.hosts && $0.port == denial.port
        && $0.methods == denial.methods
    }
    guard let index else {
      if denials.count >= mostDenials { return false }
      denials.append(denial)
      return true
    }
    if denials[index].paths.count >= mostDeniedPaths { return false }
    denials[index].paths = Set(denials[index].paths).union(denial.paths).sorted()
    denials[index].count += denial.count
    denials[index].last = max(denials[index].last, denial.last)
    return true
  }

  // MARK: Text

  private func named(_ rules: [LearnedRule]) -> [LearnedRule] {
    var taken: Set<String> = []
    return rules.map { rule in
      var rule = rule
      rule.name = rule.plainName
      var number = 2
      while !taken.insert(rule.name).inserted {
        rule.name = "\(rule.plainName)-\(number)"
        number += 1
      }
      return rule
    }
  }

  private func text(_ rules: [LearnedRule]) -> String {
    var text = ""
    var asker: LearnedAsker? = nil
    for rule in rules {
      if rule.asker != asker {
        asker = rule.asker
        text += "\n# ---- \(rule.asker.text)\n"
      }
      text += "\n" + rule.text(nameOf)
    }
    return text
  }

  private func outcome(
    _ rules: [LearnedRule], allowed: [HistoryRequest], denied: [HistoryRequest], leftOut: Int,
    unlearned: [HistoryRequest]
  ) -> Outcome {
    var text = text(rules)
    if !denied.isEmpty {
      let refused = named(Self.rules(Self.uses(denied), [:]))
      text +=
        "\n# ---- What was denied in this time. To allow something of it, review the rule and take its '# ' away.\n"
      for rule in refused {
        var rule = rule
        rule.name = "denied." + rule.name.split(separator: ".", maxSplits: 1).dropFirst().joined()
        let lines = rule.text(nameOf).split(separator: "\n")
        text += "\n# \(rule.asker.text)\n" + lines.map { $0.hasPrefix("#") ? "\($0)\n" : "# \($0)\n" }.joined()
      }
    }
    if leftOut > 0 {
      text +=
        "\n# Left out: \(String.counted(leftOut, "exchange")) whose client, method or destination is not known.\n"
    }
    if let first = unlearned.first {
      let count = unlearned.reduce(0) { $0 + $1.count }
      text +=
        "\n# Left out: \(String.counted(count, "exchange")) that were allowed, because no rule tells them from what was "
        + "denied; the first is\n# \(Self.text(first))\n"
    }
    let learned = allowed.reduce(0) { $0 + $1.count }
    return Outcome(text: text, rules: rules.count, learned: learned, leftOut: leftOut)
  }

  private static func text(_ request: HistoryRequest) -> String {
    let asker = LearnedAsker(request.kind)?.text ?? "an unknown client"
    return "\(request.kind[.method] ?? "") \(request.kind.origin)\(request.path) of \(asker)".printable
  }
}

extension HistoryLearning.Place {
  fileprivate func with(_ form: LearnedForm) -> HistoryLearning.Place {
    HistoryLearning.Place(asker: asker, form: form, host: host, port: port)
  }

  fileprivate func with(host: String) -> HistoryLearning.Place {
    HistoryLearning.Place(asker: asker, form: form, host: host, port: port)
  }
}
