// sallyport env: the variables that point programs at the proxy, and at the local authority's certificates where there
// is one. Every line is valid input for the shell that was named; hints are comments. Tests: test_commands.py,
// test_ca.py.

import Bytes
import Policy
import Transport

nonisolated func environmentCommand(_ arguments: [String]) throws -> Int32 {
  let options = try Arguments(arguments, valued: ["config", "shell"])
  try options.refuseOperands()
  let name = options.values["shell"] ?? "sh"
  guard let shell = Shell(rawValue: name) else {
    throw UsageError(message: "'--shell' takes sh, fish or systemd, not '\(name)'")
  }
  guard let policy = ConfigurationFile.loadOrComplain(options.values["config"]) else { return 1 }
  guard let address = reachableAddress(policy.configuration.proxy.listen) else {
    Output.complain("sallyport: the port is chosen when the daemon starts (listen has port 0)\n")
    return 1
  }
  if !policy.configuration.proxy.credentials.isEmpty {
    Output.answer(
      shell.comment("The proxy asks for credentials: write http://USER:PASSWORD@\(address) for http://\(address)."))
  }
  for (name, value) in proxyVariables(address) { Output.answer(shell.line(name, value)) }
  let directory = AuthorityDirectory(path: policy.configuration.authority.directory)
  if directory.hasAuthority { try Output.answer(AuthorityVariables(directory, proxy: address).text(shell)) }
  return 0
}

/// The first address with a port of its own; one that stands for all addresses is reached over loopback.
private func reachableAddress(_ listen: [ListenAddress]) -> ListenAddress? {
  guard let first = listen.first(where: { $0.port != 0 }) else { return nil }
  guard first.address.isUnspecified else { return first }
  let loopback = first.address.isIPv4 ? IPAddress(ipv4: 0x7f00_0001) : IPAddress(ipv6High: 0, low: 1)
  return ListenAddress(address: loopback, port: first.port)
}

/// Both spellings: curl heeds only the lower case of http_proxy, others only the upper case.
private func proxyVariables(_ address: ListenAddress) -> [(String, String)] {
  let proxy = "http://\(address)"
  let direct = "localhost,127.0.0.1,::1"
  return [
    ("http_proxy", proxy), ("https_proxy", proxy), ("HTTP_PROXY", proxy), ("HTTPS_PROXY", proxy),
    ("no_proxy", direct), ("NO_PROXY", direct),
  ]
}

/// The language of the lines.
enum Shell: String {
  case sh, fish
  /// Lines of a unit.
  case systemd

  func line(_ name: String, _ value: String) -> String {
    switch self {
    case .sh: "export \(name)=\(quoted(value))\n"
    case .fish: "set -gx \(name) \(quoted(value))\n"
    case .systemd: "Environment=\(quoted("\(name)=\(value)"))\n"
    }
  }

  /// One line, whatever a path in it holds.
  func comment(_ text: String) -> String { "# \(String(text.map { $0.isNewline ? " " : $0 }))\n" }

  /// As one word that means just these characters.
  func quoted(_ value: String) -> String {
    switch self {
    case .sh: "'" + Self.escaping(value, ["'": #"'\''"#]) + "'"
    case .fish: "'" + Self.escaping(value, ["'": #"\'"#, #"\"#: #"\\"#]) + "'"
    case .systemd: "\"" + Self.escaping(value, ["\"": #"\""#, #"\"#: #"\\"#, "%": "%%", "\n": #"\n"#]) + "\""
    }
  }

  private static func escaping(_ text: String, _ escapes: [Character: String]) -> String {
    text.map { escapes[$0] ?? String($0) }.joined()
  }
}

/// The variables by which programs are told whom to trust.
struct AuthorityVariables {
  /// Their file is added to what the program trusts.
  static let additive = [
    "NODE_EXTRA_CA_CERTS",  // Node.js
    "DENO_CERT",  // Deno
  ]

  /// Their file takes the place of what the program trusts.
  static let replacing = [
    "SSL_CERT_FILE",  // OpenSSL, and so Python, Ruby, PHP; also Go, curl, Rust's native certificates, uv
    "CURL_CA_BUNDLE",  // curl; requests
    "REQUESTS_CA_BUNDLE",  // Python's requests, and what is built on it
    "PIP_CERT",  // pip
    "GIT_SSL_CAINFO",  // git
    "AWS_CA_BUNDLE",  // the AWS command line, boto3
    "CARGO_HTTP_CAINFO",  // Cargo
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",  // gcloud
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",  // gRPC
    "HTTPLIB2_CA_CERTS",  // Python's httplib2
    "NIX_SSL_CERT_FILE",  // Nix
  ]

  private let directory: AuthorityDirectory
  private let proxy: ListenAddress
  private let states: (authorities: TrustFiles.State, bundle: TrustFiles.State)
  private let hasSystemBundle: Bool

  /// Brings the files up to date first, where this user may.
  init(_ directory: AuthorityDirectory, proxy: ListenAddress) throws {
    let files = try TrustFiles(directory, at: Clock.wall / 1_000)
    self.directory = directory
    self.proxy = proxy
    states = files.refresh()
    hasSystemBundle = files.bundle != nil
  }

  func text(_ shell: Shell) -> String {
    lines(shell, Self.additive, directory.authoritiesPath, states.authorities)
      + lines(shell, Self.replacing, directory.bundlePath, states.bundle)
      + java(shell)
  }

  private func lines(_ shell: Shell, _ names: [String], _ path: String, _ state: TrustFiles.State) -> String {
    let variables = names.map { shell.line($0, path) }.joined()
    switch state {
    case .current: return variables
    case .stale:
      Output.complain("sallyport: \(path) is out of date: \(advice(path))\n")
      return shell.comment("\(path) is out of date: \(advice(path))") + variables
    case .absent:
      return shell.comment(
        "\(path) does not exist, without which \(names.joined(separator: ", ")) are not set: \(advice(path))")
    }
  }

  private func advice(_ path: String) -> String {
    if path == directory.bundlePath && !hasSystemBundle {
      return "the system has no bundle of anchors to merge with; Debian's is in the package ca-certificates"
    }
    return "run 'sallyport env' once as a user who may write there"
  }

  /// Java reads no variable for this, but properties, and a trust store of a form of its own.
  private func java(_ shell: Shell) -> String {
    let store = "\(directory.path)/truststore.p12"
    let storeWord = Shell.sh.quoted(store)
    let (host, port) = (proxy.address.description, proxy.port)
    let properties = [
      "javax.net.ssl.trustStore=\(store)", "javax.net.ssl.trustStorePassword=changeit", "http.proxyHost=\(host)",
      "http.proxyPort=\(port)", "https.proxyHost=\(host)", "https.proxyPort=\(port)",
    ]
    let hints = [
      "Java reads a trust store of its own; make one of what it trusts and the local authority, once:",
      "  keytool -importkeystore -noprompt -srckeystore \"$JAVA_HOME/lib/security/cacerts\" -srcstorepass changeit"
        + " -destkeystore \(storeWord) -deststoretype PKCS12 -deststorepass changeit",
      "  keytool -importcert -noprompt -alias sallyport -file \(Shell.sh.quoted(directory.certificatePath(.active)))"
        + " -keystore \(storeWord) -storepass changeit",
      "and then set JAVA_TOOL_OPTIONS to: " + properties.map { "-D\($0)" }.joined(separator: " "),
    ]
    return hints.map(shell.comment).joined()
  }
}
