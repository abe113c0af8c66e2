// Fuzzes the configuration: no file may crash the loader, and what loads can be asked.
//
// Run: make fuzz. Included files and secrets come from a small made-up world.

import Bytes
import Policy

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzConfiguration_main")
public func fuzzConfigurationMain(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzConfiguration)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzConfiguration(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data else { return 0 }
  let files = OneFile(bytes: Array(UnsafeBufferPointer(start: data, count: count)))
  let result = PolicyLoader.load(path: "/fuzz.toml", files: files)
  for diagnostic in result.diagnostics where diagnostic.description.isEmpty { fatalError("a diagnostic without words") }
  guard let policy = result.policy else {
    if !result.diagnostics.contains(where: { $0.severity == .error }) { fatalError("no policy, and no error") }
    return 0
  }
  var host = CanonicalHost()
  for name in ["a.example", "b.a.example", "127.0.0.1", "[::1]"] {
    let text = Array(name.utf8)
    _ = host.set(text.span)
    _ =
      Explanation(by: policy, method: "GET", scheme: .http, host: host, port: 80, path: "/x", isTunnel: false)
      .description
    _ = Explanation(by: policy, method: "CONNECT", scheme: .https, host: host, port: 443, path: "", isTunnel: true).json
    let client = LocalClient(userID: 1001, user: "kiosk", cgroup: ["kiosk.slice", "kiosk.service"])
    _ =
      Explanation(
        by: policy, method: "GET", scheme: .http, host: host, port: 80, path: "/x", isTunnel: false,
        Asker(Sender(client: client), link: .wifi)
      ).description
  }
  return 0
}

private struct OneFile: PolicyFiles {
  let bytes: [UInt8]

  func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
    switch path {
    case "/fuzz.toml": .success(bytes)
    case "/secret": .success(Array("user:secret\n".utf8))
    default: .failure(FileFault("No such file or directory"))
    }
  }

  func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> { .success([]) }
  func isReadableByOthers(_ path: String) -> Bool { path == "/secret" }
  func environment(_ name: String) -> [UInt8]? { name == "SECRET" ? Array("word".utf8) : nil }
  var credentialsDirectory: String? { nil }

  func userID(named name: String) -> Result<UInt32?, FileFault> {
    switch name {
    case "kiosk": .success(1001)
    case "lost": .failure(FileFault("Connection timed out"))
    default: .success(nil)
    }
  }
}
