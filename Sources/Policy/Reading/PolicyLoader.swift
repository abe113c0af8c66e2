// Configuration files → a policy, or everything that is wrong with them.
//
// The main file is read first, then the files that it includes, in lexical order; rules keep the order in which they
// are read. One pass finds all faults: reading continues after every error, and only the end decides whether there is a
// policy. Tests: PolicyLoaderTests and the suites that the files of the readers name.

import Security

/// The result of loading.
public struct LoadResult: Sendable {
  /// nil if a diagnostic is an error.
  public let policy: Policy?
  /// In the order of the files, their lines and columns.
  public let diagnostics: [Diagnostic]
  /// Every file that was read: configuration and secrets, in the order of reading.
  public let files: [String]
  /// How many of the files contain configuration, not a secret or a certificate.
  public let configurationFiles: Int
  /// The daemon's socket, as far as it could be read: an error elsewhere does not hide it.
  public let adminSocket: String
  /// [history], likewise.
  public let history: HistorySettings?
}

public enum PolicyLoader {
  /// Largest configuration file in bytes: a hundred thousand rules.
  public static let largestFileBytes = 16 << 20
  /// Most files that `include` may match.
  public static let mostFiles = 4096

  /// Loads the file at `path` and all that it includes; nil: the built-in defaults, without any file.
  public static func load(path: String?, files: some PolicyFiles, secrets: SecretUse = .required) -> LoadResult {
    guard let path else {
      return LoadResult(
        policy: Policy(), diagnostics: [], files: [], configurationFiles: 0, adminSocket: AdminSettings.standardSocket,
        history: nil)
    }
    return read(path, files, secrets).result
  }

  /// The effective values, key by key; nil if the files have errors. `directory`: the base of relative paths.
  public static func effective(
    path: String?, files: some PolicyFiles, directory: String
  ) -> (configuration: EffectiveConfiguration?, diagnostics: [Diagnostic]) {
    guard let path else {
      return (EffectiveConfiguration([], Configuration(), main: nil, directory: directory), [])
    }
    let (reading, result) = read(path, files, .inspected)
    let configuration = result.policy.map {
      EffectiveConfiguration(reading.documents, $0.configuration, main: path, directory: directory)
    }
    return (configuration, result.diagnostics)
  }

  private static func read(
    _ path: String, _ files: some PolicyFiles, _ secrets: SecretUse
  ) -> (reading: ConfigurationReading, result: LoadResult) {
    let reading = ConfigurationReading(files: files, secrets: secrets)
    reading.readMainFile(path)
    reading.checkRules()
    reading.checkExpectationNames()
    let result = LoadResult(
      policy: reading.errorCount == 0 ? reading.policy() : nil, diagnostics: reading.diagnostics,
      files: reading.filesRead, configurationFiles: reading.configurationFiles,
      adminSocket: reading.configuration.admin.socket, history: reading.configuration.history)
    return (reading, result)
  }
}

extension ConfigurationReading {
  fileprivate func policy() -> Policy {
    let standard = SecurityPolicy(defaultSecurity.policySettings)
    var interned = [standard.digest: standard]
    let routes = routes.mapValues { draft in
      let own = draft.security.map { SecurityPolicy($0.policySettings) } ?? .standard
      let security = interned[own.digest, default: own]
      interned[own.digest] = security
      return draft.route(security: security)
    }
    let rules = rules.map { draft in
      let own = draft.effectiveSecurity.map { SecurityPolicy($0.policySettings) }
      let security = own.map { interned[$0.digest, default: $0] } ?? standard
      interned[security.digest] = security
      let response = ResponseDraft.merged(draft.response, inheriting: defaultResponse)
      return draft.rule(
        inheriting: defaultRequest, timeouts: configuration.timeouts,
        routes: draft.routes.map { route($0.value, among: routes) }, security: security,
        response: response?.serialization, answer: response?.answer)
    }
    return Policy(
      configuration: configuration, rules: rules, defaultRequest: defaultRequest.policy(), defaultSecurity: standard,
      defaultResponse: defaultResponse?.serialization, defaultAnswer: defaultResponse?.answer,
      expectations: expectations)
  }

  /// A name that refers to nothing has already been an error: a direct connection instead would bypass the parents.
  private func route(_ name: String, among routes: [String: Route]) -> Route {
    if let route = routes[name] { return route }
    precondition(name == Route.direct.name, "a rule lists a route that is not there")
    return .direct
  }

  // MARK: The main file

  fileprivate func readMainFile(_ path: String) {
    mainFile = path
    switch files.read(path, limit: PolicyLoader.largestFileBytes) {
    case .failure(let fault): error(file: path, "cannot read the file: \(fault)")
    case .success(let bytes):
      guard let root = parse(path, bytes) else { return }
      var includes: [Setting] = []
      for setting in root.settings { readMain(setting, &includes) }
      for setting in includes { include(setting) }
      checkRemoteListening()
      checkListenAddresses()
    }
  }

  private func readMain(_ setting: Setting, _ includes: inout [Setting]) {
    switch setting.key {
    case "include": includes.append(setting)
    case "dns": table(setting).map(readNameServices)
    case "trust": table(setting).map(readTrust)
    case "authority": table(setting).map(readAuthority)
    case "admin": table(setting).map(readAdmin)
    case "reachability": table(setting).map(readReachability)
    case "cache": table(setting).map(readCache)
    case "history": table(setting).map(readHistory)
    default: readShared(setting)
    }
  }

  private func readDefaults(_ table: ConfigurationTable) {
    for setting in once(table).settings {
      switch setting.key {
      case "request": defaultRequest = self.table(setting).map(requestDraft) ?? RequestDraft()
      case "security": defaultSecurity = self.table(setting).map(securityDraft) ?? SecurityDraft()
      case "response": defaultResponse = self.table(setting).map(responseDraft)
      default: unread(setting, of: .defaults)
      }
    }
  }

  // MARK: Any file

  /// Reads the tables that are allowed in any of the files.
  private func readShared(_ setting: Setting) {
    switch setting.key {
    case "proxy": table(setting).map(readProxy)
    case "log": table(setting).map(readLog)
    case "defaults": table(setting).map(readDefaults)
    case "rule": readRules(setting)
    case "expect": readExpectations(setting)
    case "pins": readPins(setting)
    case "routes": readRoutes(setting)
    default: unread(setting, of: .root)
    }
  }

  private func parse(_ path: String, _ bytes: [UInt8]) -> ConfigurationTable? {
    noteConfiguration(path)
    let source = SourceText(name: path, bytes: bytes)
    announce(source)
    switch TOMLDocument.parse(bytes) {
    case .failure(let fault):
      source.conceal(Concealment.ranges(inBroken: source))
      report(.error, source, fault.position, Self.syntaxMessage(fault, source))
      return nil
    case .success(let root):
      source.conceal(Concealment.ranges(in: root))
      documents.append(SourceDocument(source: source, root: root))
      guard case .table(let entries) = root.content else { return nil }
      return ConfigurationTable(source: source, path: "", begin: root.begin, entries: entries)
    }
  }

  /// toml++ quotes the text at the fault. If the line may contain a secret, the quotation is removed.
  private static func syntaxMessage(_ fault: TOMLFault, _ source: SourceText) -> String {
    var text = fault.description[...]
    if let quotation = text.firstIndex(of: "'"), let end = text.lastIndex(of: "'"), quotation < end,
      !Concealment.isHarmless(text[quotation..<end].dropFirst()), source.conceals(line: fault.position.line)
    {
      text = text[..<quotation] + "'…'"
    }
    // toml++ says what it could not do. The value stays hidden, because it may be a secret.
    if text.hasSuffix("could not determine value type") {
      return "invalid TOML: expected a value: a string in quotes, a number, true, false, a date, [an array] or "
        + "{a table}"
    }
    for opening in ["Error while parsing ", "Encountered "] where text.hasPrefix(opening) {
      text = text.dropFirst(opening.count)
    }
    return "invalid TOML: \(text)"
  }

  // MARK: Included files

  private func include(_ setting: Setting) {
    for (text, element) in strings(setting) ?? [] {
      if ConfigurationPath.isPattern(text) {
        includeMatches(text, element)
      } else if let path = path(element, text).map(ConfigurationPath.plain) {
        if path == ConfigurationPath.plain(mainFile) {
          error(element, "\(path.quoted) includes itself")
        } else if !included.insert(path).inserted {
          warning(element, "\(path.quoted) is included already")
        } else {
          includeFile(path, element)
        }
      }
    }
  }

  private func includeMatches(_ pattern: String, _ setting: Setting) {
    guard path(setting, pattern) != nil else { return }
    switch files.expand(pattern, in: ConfigurationPath.directory(of: setting.source.name)) {
    case .failure(let fault): error(setting, "cannot list \(pattern.quoted): \(fault)")
    case .success(let paths):
      let plain = paths.map(ConfigurationPath.plain).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
      for path in plain where path != ConfigurationPath.plain(mainFile) {
        if included.insert(path).inserted { includeFile(path, setting) }
      }
    }
  }

  private func includeFile(_ path: String, _ setting: Setting) {
    guard included.count <= PolicyLoader.mostFiles else {
      if included.count == PolicyLoader.mostFiles + 1 {
        error(setting, "more than \(PolicyLoader.mostFiles) files are included")
      }
      return
    }
    switch files.read(path, limit: PolicyLoader.largestFileBytes) {
    case .failure(let fault): error(setting, "cannot read \(path.quoted): \(fault)")
    case .success(let bytes):
      for setting in parse(path, bytes)?.settings ?? [] { readIncluded(setting) }
    }
  }

  private func readIncluded(_ setting: Setting) {
    let isMainOnly = TableSchema.root.names.contains(setting.key) && !Self.namesInAnyFile.contains(setting.key)
    guard isMainOnly else { return readShared(setting) }
    let isKey = setting.key == "include"
    let title = isKey ? "'include'" : "[\(setting.key)]"
    report(
      .error, setting.source, setting.keyBegin,
      "\(title) may stand only in the main file, \(mainFile); an included file holds [[rule]], [[expect]], "
        + "[pins.*], [routes.*], [defaults], [log] and [proxy]")
  }

  /// The tables allowed in an included file.
  private static let namesInAnyFile: Set<String> = ["rule", "expect", "pins", "routes", "defaults", "log", "proxy"]
}
