// Policies as operators write them, read by the loader itself.

import Policy

/// No rule at all: the built-in defaults.
let plainPolicy = Policy()

private struct OneFile: PolicyFiles {
  let bytes: [UInt8]
  let credentialsDirectory: String? = nil

  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
    .success(path == "sallyport.toml" ? bytes : Array("<p>offline".utf8))
  }
  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> { .success([]) }
  func isReadableByOthers(_ path: String) -> Bool { false }
  func environment(_ name: String) -> [UInt8]? { nil }
}

/// The policy of one file with this text.
func policy(_ text: String) -> Policy {
  let result = PolicyLoader.load(path: "sallyport.toml", files: OneFile(bytes: Array(text.utf8)))
  guard let policy = result.policy else { fatalError("\(result.diagnostics)") }
  return policy
}
