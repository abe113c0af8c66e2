// [history]: what stands for what is not said, and what is refused.

import Testing

@testable import Policy

@Suite struct HistoryReadingTests {
  private static func load(_ text: String) -> LoadResult {
    PolicyLoader.load(path: "/etc/s.toml", files: DictionaryFiles(["/etc/s.toml": text]))
  }

  @Test func withoutATableThereIsNone() { #expect(Self.load("").policy?.configuration.history == nil) }

  @Test func anEmptyTableHasItsDefaults() {
    let history = Self.load("[history]").policy?.configuration.history
    #expect(history == HistorySettings())
    #expect(history?.file == "/var/lib/sallyport/history.db")
    #expect(history?.keepMilliseconds == Int64(30 * 86_400_000))
    #expect(history?.sizeBytes == 512 << 20)
  }

  @Test func everyKeyIsRead() {
    let result = Self.load("[history]\nfile = \"h.db\"\nkeep = \"7d\"\nsize = \"1GiB\"\n")
    var expected = HistorySettings()
    expected.file = "/etc/h.db"
    expected.keepMilliseconds = 7 * 86_400_000
    expected.sizeBytes = 1 << 30
    #expect(result.policy?.configuration.history == expected)
    #expect(result.history == expected)
  }

  /// `sallyport log` finds the file of a configuration that cannot be taken.
  @Test func aMistakeElsewhereDoesNotHideTheFile() {
    let result = Self.load("[history]\nfile = \"/h.db\"\n[proxy]\nnam = 1\n")
    #expect(result.policy == nil)
    #expect(result.history?.file == "/h.db")
  }

  @Test(arguments: [
    ("keep = \"59m\"", "'keep' in [history]: expected a duration from 1h to 3650d, found '59m'"),
    ("size = \"1MiB\"", "'size' in [history]: expected a size from 16MiB to 1024GiB, found '1MiB'"),
    ("file = \"\"", "'file' in [history]: expected a path, found ''"),
    ("files = \"x\"", "unknown key 'files' in [history]; did you mean 'file'?"),
  ])
  func mistakesAreNamed(_ line: String, _ message: String) {
    let errors = Self.load("[history]\n\(line)\n").diagnostics.filter { $0.severity == .error }
    #expect(errors.map(\.message) == [message])
  }

  @Test func whoAsksIsKnownToTheHistory() {
    let policy = Self.load("[history]\n[log]\nwho = false\n").policy
    #expect(policy?.identity.namesClients == true)
    #expect(policy?.identity.asksForClient == false)
  }
}
