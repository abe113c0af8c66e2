// Configuration files → a policy, or everything that is wrong with them.
//
// The main file is read first, then the files that it includes, in lexical order; rules keep the order in which they
// are read. One pass finds all faults: reading continues after every error, and only the end decides whether there is a
// policy. Tests: PolicyLoaderTests and the suites that the files of the readers name.

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
    return read(path, files, secrets: secrets).result
  }

  /// The effective values, key by key; nil if the files have errors. `directory`: the base of relative paths.
  public static func effective(
    path: String?, files: some PolicyFiles, directory: String
  ) -> (configuration: EffectiveConfiguration?, diagnostics: [Diagnostic]) {
    guard let path else {
      return (EffectiveConfiguration([], Configuration(), main: nil, directory: directory), [])
    }
    let (documents, result) = read(path, files, secrets: .inspected)
    let configuration = result.policy.map {
      EffectiveConfiguration(documents, $0.configuration, main: path, directory: directory)
    }
    return (configuration, result.diagnostics)
  }

  private static func read(
    _ path: String, _ files: some PolicyFiles, secrets: SecretUse
  ) -> (documents: [SourceDocument], result: LoadResult) {
    let reading = ConfigurationReading(files: files, secrets: secrets)
    var read = FilesRead(main: path, by: reading)
    read.draft.check(by: reading)
    let configuration = read.draft.configuration
    let result = LoadResult(
      policy: reading.errorCount == 0 ? read.draft.policy() : nil, diagnostics: reading.diagnostics,
      files: reading.files.pathsRead, configurationFiles: read.count, adminSocket: configuration.admin.socket,
      history: configuration.history)
    return (read.documents, result)
  }
}

/// The main file and those that it includes.
private struct FilesRead {
  var draft = PolicyDraft()
  /// Every file that could be parsed.
  private(set) var documents: [SourceDocument] = []
  /// How many there are, without those of secrets and certificates.
  private(set) var count = 0
  private let mainFile: String
  private var included: Set<String> = []
  private let reading: ConfigurationReading

  init(main path: String, by reading: ConfigurationReading) {
    mainFile = path
    self.reading = reading
    switch reading.files.read(path, limit: PolicyLoader.largestFileBytes) {
    case .failure(let fault): reading.error(file: path, "cannot read the file: \(fault)")
    case .success(let bytes):
      let settings = parse(path, bytes)?.settings ?? []
      for setting in settings where setting.key != "include" { draft.readMain(setting, by: reading) }
      for setting in settings where setting.key == "include" { include(setting) }
    }
  }

  private mutating func parse(_ path: String, _ bytes: [UInt8]) -> ConfigurationTable? {
    count += 1
    let source = SourceText(name: path, bytes: bytes)
    reading.announce(source)
    switch TOMLDocument.parse(bytes) {
    case .failure(let fault):
      source.conceal(Concealment.ranges(inBroken: source))
      reading.report(.error, source, position: fault.position, message: Self.syntaxMessage(fault, source))
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

  private mutating func include(_ setting: Setting) {
    for (text, element) in reading.strings(setting) ?? [] {
      if ConfigurationPath.isPattern(text) {
        includeMatches(text, element)
      } else if let path = reading.path(element, text).map(ConfigurationPath.plain) {
        if path == ConfigurationPath.plain(mainFile) {
          reading.error(element, "\(path.quoted) includes itself")
        } else if !included.insert(path).inserted {
          reading.warning(element, "\(path.quoted) is included already")
        } else {
          includeFile(path, element)
        }
      }
    }
  }

  private mutating func includeMatches(_ pattern: String, _ setting: Setting) {
    guard reading.path(setting, pattern) != nil else { return }
    switch reading.files.expand(pattern, in: ConfigurationPath.directory(of: setting.source.name)) {
    case .failure(let fault): reading.error(setting, "cannot list \(pattern.quoted): \(fault)")
    case .success(let paths):
      let plain = paths.map(ConfigurationPath.plain).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
      for path in plain where path != ConfigurationPath.plain(mainFile) {
        if included.insert(path).inserted { includeFile(path, setting) }
      }
    }
  }

  private mutating func includeFile(_ path: String, _ setting: Setting) {
    guard included.count <= PolicyLoader.mostFiles else {
      if included.count == PolicyLoader.mostFiles + 1 {
        reading.error(setting, "more than \(PolicyLoader.mostFiles) files are included")
      }
      return
    }
    switch reading.files.read(path, limit: PolicyLoader.largestFileBytes) {
    case .failure(let fault): reading.error(setting, "cannot read \(path.quoted): \(fault)")
    case .success(let bytes):
      for setting in parse(path, bytes)?.settings ?? [] { readIncluded(setting) }
    }
  }

  private mutating func readIncluded(_ setting: Setting) {
    let isMainOnly = TableSchema.root.names.contains(setting.key) && !PolicyDraft.namesInAnyFile.contains(setting.key)
    guard isMainOnly else { return draft.readShared(setting, by: reading) }
    let isKey = setting.key == "include"
    let title = isKey ? "'include'" : "[\(setting.key)]"
    reading.report(
      .error, setting.source, position: setting.keyBegin,
      message: "\(title) may stand only in the main file, \(mainFile); an included file holds [[rule]], [[expect]], "
        + "[pins.*], [routes.*], [defaults], [log] and [proxy]")
  }
}
