// sallyport env: the variables that point programs at the proxy.

import Policy

nonisolated func environmentCommand(_ arguments: [String]) throws -> Int32 {
  let options = try Arguments(arguments, valued: ["config", "shell"])
  try options.refuseOperands()
  let shell = options.values["shell"] ?? "sh"
  guard ["sh", "fish", "systemd"].contains(shell) else {
    throw UsageError(message: "'--shell' takes sh, fish or systemd, not '\(shell)'")
  }
  guard let policy = ConfigurationFile.loadOrComplain(options.values["config"]) else { return 1 }
  guard let address = reachableAddress(policy.configuration.proxy.listen) else {
    Output.complain("sallyport: the port is chosen when the daemon starts (listen has port 0)\n")
    return 1
  }
  if !policy.configuration.proxy.credentials.isEmpty {
    Output.answer("# The proxy asks for credentials: write http://USER:PASSWORD@\(address) for http://\(address).\n")
  }
  for (name, value) in variables(address) { Output.answer(line(shell, name, value)) }
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
private func variables(_ address: ListenAddress) -> [(String, String)] {
  let proxy = "http://\(address)"
  let direct = "localhost,127.0.0.1,::1"
  return [
    ("http_proxy", proxy), ("https_proxy", proxy), ("HTTP_PROXY", proxy), ("HTTPS_PROXY", proxy),
    ("no_proxy", direct), ("NO_PROXY", direct),
  ]
}

private func line(_ shell: String, _ name: String, _ value: String) -> String {
  switch shell {
  case "fish": "set -gx \(name) '\(value)'\n"
  case "systemd": "Environment=\"\(name)=\(value)\"\n"
  default: "export \(name)='\(value)'\n"
  }
}
