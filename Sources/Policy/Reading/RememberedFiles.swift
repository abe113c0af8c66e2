// What a load asks of the outside, each thing once: many rules name the same file or user, and all of them must get the
// same answer.

final class RememberedFiles: PolicyFiles {
  private struct Question: Hashable {
    let path: String
    let limit: Int
  }

  private let files: any PolicyFiles
  private var contents: [Question: Result<[UInt8], FileFault>] = [:]
  private var exposure: [String: Bool] = [:]
  private var userIDs: [String: Result<UInt32?, FileFault>] = [:]
  private var known: Set<String> = []
  /// Every file that was read, in the order of reading.
  private(set) var pathsRead: [String] = []
  /// The same for the whole load.
  let now: Int64

  init(_ files: any PolicyFiles) {
    self.files = files
    now = files.now
  }

  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
    let question = Question(path: path, limit: limit)
    if let known = contents[question] { return known }
    let content = files.read(path, limit: limit)
    contents[question] = content
    if case .success = content, known.insert(path).inserted { pathsRead.append(path) }
    return content
  }

  func isReadableByOthers(_ path: String) -> Bool {
    if let known = exposure[path] { return known }
    let isReadable = files.isReadableByOthers(path)
    exposure[path] = isReadable
    return isReadable
  }

  func userID(named name: String) -> Result<UInt32?, FileFault> {
    if let known = userIDs[name] { return known }
    let number = files.userID(named: name)
    userIDs[name] = number
    return number
  }

  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> {
    files.expand(pattern, in: directory)
  }

  func isDirectory(_ path: String) -> Bool { files.isDirectory(path) }
  func environment(_ name: String) -> [UInt8]? { files.environment(name) }
  var credentialsDirectory: String? { files.credentialsDirectory }
  func subordinateOwners(of user: UInt32) -> [UInt32]? { files.subordinateOwners(of: user) }
}
