// The variables of `sallyport env`, grouped by the programs that read them, and remarks on programs that read none.
// Tests: test_env.py, test_ca.py.

import Security
import Transport

/// The variables for the proxy.
struct ProxyVariables {
  let host: String
  /// `127.0.0.1:3128`
  let authority: String
  let port: UInt16

  /// Loopback, and a port on which only root can listen. Port 0 would not work: some programs read it as the default.
  static let refusal = "127.0.0.1:1"

  /// In both spellings: for http_proxy, curl reads only lower case, and other programs only upper case. Protocols other
  /// than HTTP, such as ftp:// in curl and wget, also go to the proxy, which refuses them.
  private static let names = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy"]
  private static let direct = "localhost,127.0.0.1,::1"

  func write(to text: inout EnvironmentText) {
    for name in Self.names + Self.names.map({ $0.uppercased() }) { text.set(name, "http://\(authority)") }
    for name in ["no_proxy", "NO_PROXY"] { text.set(name, Self.direct) }
    text.set("NODE_USE_ENV_PROXY", "1")
  }

  /// What to print if nothing is known.
  static var refusing: EnvironmentText {
    var text = EnvironmentText()
    ProxyVariables(host: "127.0.0.1", authority: refusal, port: 1).write(to: &text)
    text.set(JavaOptions.variable, JavaOptions("127.0.0.1", 1).text)
    text.remark("The address of the proxy could not be found out: this one refuses every connection.")
    return text
  }
}

/// Java has properties, which this variable sets, and ignores the proxy variables.
struct JavaOptions {
  static let variable = "JAVA_TOOL_OPTIONS"

  private var properties: [(String, String)]

  init(_ host: String, _ port: UInt16) {
    properties = [
      ("http.proxyHost", host), ("http.proxyPort", "\(port)"), ("https.proxyHost", host),
      ("https.proxyPort", "\(port)"), ("http.nonProxyHosts", "localhost|127.*|[::1]"),
    ]
  }

  mutating func trust(_ store: String, password: String) {
    properties += [
      ("javax.net.ssl.trustStore", store), ("javax.net.ssl.trustStoreType", "jks"),
      ("javax.net.ssl.trustStorePassword", password),
    ]
  }

  /// Java splits at white space and removes both kinds of quotation marks; it has no escapes.
  var text: String {
    properties.map { name, value in
      let property = "-D\(name)=\(value)"
      guard property.contains(where: { $0.isWhitespace || $0 == "'" || $0 == "\"" }) else { return property }
      return property.split(separator: "\"", omittingEmptySubsequences: false).map { "\"\($0)\"" }
        .joined(separator: "'\"'")
    }.joined(separator: " ")
  }
}

/// What programs need that ignore the variables.
enum ProgramRemarks {
  static func all(_ proxy: String) -> [String] {
    [
      "Programs that need more than these variables:",
      "  sudo               drops them: sudo --preserve-env=http_proxy,https_proxy,no_proxy COMMAND",
      "  systemd units      sallyport env --shell systemd, in a drop-in below [Service]",
      "  containers         docker run --network host --env-file FILE, of sallyport env --shell env-file",
      "  Docker's daemon    is a unit as well: docker pull asks it",
      "  Node.js            before 22.21 and 24.5 it ignores them, or some of its modules do",
      "  Maven              <proxies> in ~/.m2/settings.xml",
      "  Firefox            Settings, Network Settings: Use system proxy settings",
      "  Chromium           chromium --proxy-server=\(proxy), where a desktop has settings of its own",
      "  GNOME, KDE         the proxy of the desktop's network settings",
      "  snapd              snap set system proxy.http=http://\(proxy) proxy.https=http://\(proxy)",
      "  ssh, rsync, ping   do not speak HTTP and are not held by a proxy",
    ]
  }
}

/// The variables that tell programs which certificates to trust.
struct AuthorityVariables {
  /// These files are added to what the program trusts.
  static let additive = [
    "NODE_EXTRA_CA_CERTS",  // Node.js
    "DENO_CERT",  // Deno
  ]

  /// These files replace what the program trusts.
  static let replacing = [
    "SSL_CERT_FILE",  // OpenSSL, and so Python, Ruby, PHP; also Go, curl, Rust's native certificates, uv
    "CURL_CA_BUNDLE",  // curl; requests
    "REQUESTS_CA_BUNDLE",  // Python's requests, and libraries built on it
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
  private let place: ProxyPlace
  private let states: TrustFiles.States
  private let hasSystemBundle: Bool

  /// First updates the files, if this user may do that and the configuration gives their contents.
  init(_ directory: AuthorityDirectory, _ place: ProxyPlace) throws {
    self.directory = directory
    self.place = place
    if let anchors = place.anchors {
      let files = try TrustFiles(directory, anchors: anchors, at: Clock.wall / 1_000)
      states = files.refresh()
      hasSystemBundle = files.bundle != nil
    } else {
      states = TrustFiles.found(in: directory)
      hasSystemBundle = true
    }
  }

  func write(to text: inout EnvironmentText) {
    write(Self.additive, directory.authoritiesPath, state: states.authorities, to: &text)
    write(Self.replacing, directory.bundlePath, state: states.bundle, to: &text)
    var java = JavaOptions(place.address.address.description, place.address.port)
    if isThere(directory.javaStorePath, states.javaStore, for: "Java's trust store", to: &text) {
      java.trust(directory.javaStorePath, password: JavaTrustStore.password)
    }
    text.set(JavaOptions.variable, java.text)
  }

  private func write(_ names: [String], _ path: String, state: TrustFiles.State, to text: inout EnvironmentText) {
    guard isThere(path, state, for: names.joined(separator: ", "), to: &text) else { return }
    for name in names { text.set(name, path) }
  }

  /// Whether the file exists and can be used. Adds a remark if it is out of date or missing.
  private func isThere(
    _ path: String, _ state: TrustFiles.State, for variables: String, to text: inout EnvironmentText
  ) -> Bool {
    switch state {
    case .current: return true
    case .stale:
      Output.complain("sallyport: \(path) is out of date: \(advice(path))\n")
      text.remark("\(path) is out of date: \(advice(path))")
      return true
    case .absent:
      text.remark("\(path) does not exist, without which \(variables) are not set: \(advice(path))")
      return false
    }
  }

  private func advice(_ path: String) -> String {
    if path != directory.authoritiesPath && !hasSystemBundle {
      return "the system has no bundle of anchors to merge with; Debian's is in the package ca-certificates"
    }
    return "run 'sallyport env' once as a user who may write there"
  }
}
