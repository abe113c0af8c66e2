// Sockets that were opened before the daemon started. systemd passes listening sockets and keeps them across a restart,
// so no connection attempt is lost; tunnels come from the previous daemon. Each is identified by its name. Tests:
// Tests/EndToEndTests/test_service.py.

import Bytes
import Policy
import Transport

public struct InheritedSockets: Sendable {
  /// These replace `[proxy] listen`, unless there are none.
  public let listeners: [Listener]
  /// This replaces `[admin] socket`.
  public let admin: Descriptor?
  /// Tunnels of the previous daemon, packed as they were stored.
  let tunnels: [Descriptor]

  static let proxyNames = ["sallyport.socket", "proxy"]
  static let adminNames = ["sallyport-admin.socket", "admin"]

  /// For a daemon that got no socket.
  public static let none = InheritedSockets(listeners: [], admin: nil, tunnels: [])

  private init(listeners: [Listener], admin: Descriptor?, tunnels: [Descriptor]) {
    self.listeners = listeners
    self.admin = admin
    self.tunnels = tunnels
  }

  /// Takes what was passed: once, before the first thread.
  public static func take() throws(StartFailure) -> InheritedSockets {
    let passed: [PassedSocket]
    switch Systemd.takeSockets() {
    case .success(let sockets): passed = sockets
    case .failure(let error): throw StartFailure(description: "the sockets that were passed cannot be taken: \(error)")
    }
    var listeners: [Listener] = []
    var admin: Descriptor? = nil
    var tunnels: [Descriptor] = []
    for socket in passed {
      switch (socket.name, socket.kind) {
      case (StoredTunnel.nameText, _): tunnels.append(socket.descriptor)
      case (let name, .internetListener) where proxyNames.contains(name):
        listeners.append(try adopt(socket))
      case (let name, .localListener) where adminNames.contains(name):
        guard admin == nil else { throw fault(socket, "one socket for the admin API was expected, this is another") }
        guard socket.descriptor.adopt() else { throw fault(socket, "it cannot be set to non-blocking") }
        admin = socket.descriptor
      case (let name, _) where proxyNames.contains(name):
        throw fault(socket, "a listening TCP socket was expected (ListenStream= with a port, Accept=no)")
      case (let name, _) where adminNames.contains(name):
        throw fault(socket, "a listening stream socket of the file system was expected (ListenStream= with a path)")
      default:
        throw fault(
          socket, "FileDescriptorName= was expected to be one of \((proxyNames + adminNames).joined(separator: ", "))")
      }
    }
    return InheritedSockets(listeners: listeners, admin: admin, tunnels: tunnels)
  }

  /// Why the daemon may not listen on these sockets under this configuration. As for `[proxy] listen`, accepting
  /// connections from other machines takes two settings.
  func fault(under proxy: ProxySettings) -> String? {
    if proxy.allowRemote, !proxy.credentials.isEmpty { return nil }
    let remote = listeners.first { !IPAddress($0.address).isLoopback }
    guard let address = remote.map({ ListenAddress(address: IPAddress($0.address), port: $0.address.port) }) else {
      return nil
    }
    return "the socket on \(address), which was passed, takes connections from other machines; that needs "
      + "'allow_remote = true' and 'credentials' in [proxy]"
  }

  private static func adopt(_ socket: PassedSocket) throws(StartFailure) -> Listener {
    guard let listener = Listener.adopt(socket.descriptor) else { throw fault(socket, "it cannot be set up") }
    return listener
  }

  private static func fault(_ socket: PassedSocket, _ text: String) -> StartFailure {
    StartFailure(description: "descriptor \(socket.descriptor.number), passed as '\(socket.name)': \(text)")
  }
}
