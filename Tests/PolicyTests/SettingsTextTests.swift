// The table of settings against what the readers take: words of a key are the cases of its type, and nothing else.

import Reachability
import Security
import Serialization
import Testing

@testable import Policy

@Suite struct SettingsTextTests {
  private static func words(_ table: TableSchema, _ name: String) -> [String] {
    func words(_ kind: SettingKind) -> [String] {
      switch kind {
      case .word(let words): words
      case .list(let element), .map(let element): words(element)
      case .oneOf(let kinds): words(kinds[0])
      default: []
      }
    }
    return table.settings.first { $0.name == name }.map { words($0.kind) } ?? []
  }

  private static func cases<Word: CaseIterable & RawRepresentable>(_ type: Word.Type) -> Set<String>
  where Word.RawValue == String {
    Set(type.allCases.map(\.rawValue))
  }

  @Test func wordsAreTheCasesOfTheirType() {
    let rows: [(TableSchema, String, Set<String>)] = [
      (.rule, "action", Self.cases(RuleAction.self)), (.rule, "connect", Self.cases(ConnectTreatment.self)),
      (.rule, "tunnel_sni", Self.cases(TunnelSNI.self)), (.rule, "redirects", Self.cases(Redirects.self)),
      (.rule, "schemes", Self.cases(Scheme.self)), (.rule, "when", Self.cases(ReachabilityStatus.self)),
      (.route, "when", Self.cases(ReachabilityStatus.self)), (.expect, "link", Self.cases(ReachabilityStatus.self)),
      (.throttle, "when", Self.cases(ReachabilityStatus.self)),
      (.expect, "verdict", Self.cases(RuleAction.self)), (.expect, "connect", Self.cases(ConnectTreatment.self)),
      (.request, "service_type", Self.cases(ServiceType.self)),
      (.request, "cache_policy", Self.cases(CachePolicy.self)),
      (.answer, "when", Self.cases(SubstituteAnswer.Occasion.self)),
      (.routeCredentials, "scheme", Self.cases(AuthorizationScheme.self)),
      (.ruleCache, "share", Self.cases(CacheRule.Share.self)),
      (.ruleCache, "collapse", Self.cases(CacheRule.Collapse.self)),
    ]
    for (table, name, expected) in rows {
      #expect(Set(Self.words(table, name)) == expected, "\(name) of \(table.title)")
    }
  }

  @Test func everyTableIsThereOnce() {
    #expect(Set(TableSchema.all.map(\.title)).count == TableSchema.all.count)
    for table in TableSchema.all { #expect(Set(table.names).count == table.names.count, "\(table.title)") }
  }

  /// What an editor says of a table reaches every table that a key leads to.
  @Test func everyTableThatAKeyLeadsToIsListed() {
    let known = Set(TableSchema.all.map(\.title))
    func lead(_ kind: SettingKind) -> [TableSchema] {
      switch kind {
      case .table(let table), .tables(let table), .named(let table): [table]
      case .list(let element), .map(let element): lead(element)
      case .oneOf(let kinds): kinds.flatMap(lead)
      default: []
      }
    }
    for table in TableSchema.all {
      for setting in table.settings {
        for led in lead(setting.kind) { #expect(known.contains(led.title), "\(setting.name) of \(table.title)") }
      }
    }
  }

  @Test(
    arguments: [
      "min_tls", "[rule.security]", "rule.security.min_tls", "rule.security", "defaults.security.min_tls",
      "[defaults.security]",
    ])
  func aKeyIsFoundHoweverItIsNamed(topic: String) {
    #expect(Settings.help(topic)?.contains("min_tls = \"1.0\", \"1.1\", \"1.2\" or \"1.3\"") == true)
  }

  /// Of the tables that rules inherit, every key says where from; of others none does.
  @Test func whereAKeyIsInheritedFromIsTold() {
    for table in TableSchema.all where table.title.hasPrefix("[rule") {
      let topic = table.title.filter { $0 != "[" && $0 != "]" }
      let from = topic.split(separator: ".").dropFirst().first.map(String.init)
      let isInherited = from.map(["security", "request", "response"].contains) ?? false
      #expect((table.inherited != nil) == isInherited, "\(table.title)")
      for name in table.names {
        let text = Settings.help("\(topic).\(name)") ?? ""
        let isTold = text.contains("comes from [defaults.") || text.contains("has that of [defaults.")
        #expect(isTold == isInherited, "\(name) of \(table.title): \(text)")
        guard let inherited = table.inherited else { continue }
        #expect(Settings.help(inherited.filter { $0 != "[" && $0 != "]" } + ".\(name)") == text)
      }
    }
    #expect(Settings.help("defaults")?.hasPrefix("[defaults]\n\n  security = the table [rule.security]") == true)
    #expect(Settings.help("defaults.security")?.hasPrefix("[rule.security]; ") == true)
    #expect(Settings.help("defaults.nothing") == nil)
  }

  @Test(arguments: ["routes.wait", "routes.NAME.wait", "routes.office.wait", "[routes.office].wait"])
  func aKeyOfANamedTableIsFoundWithAnyNameOrNone(topic: String) {
    let text = Settings.help(topic)
    #expect(text?.hasPrefix("[routes.NAME]\n\n  wait = ") == true && text?.contains("credentials") == false)
    #expect(Settings.help("routes.office.credentials")?.hasPrefix("[routes.NAME.credentials]") == true)
    #expect(Settings.help("routes.office") == Settings.help("routes.NAME"))
    #expect(Settings.help("routes.office.nonsense") == nil && Settings.help("office.via") == nil)
    #expect(Settings.help("proxy.office.listen") == nil)
  }

  @Test func whatIsNoKeyHasNoHelp() {
    #expect(Settings.help("") == nil)
    #expect(Settings.help("min tls") == nil)
  }
}
