// The listeners of the admin API: the socket in the file system, an address for metrics only, and one for browsers.
// Tests: test_admin_socket.py, test_admin_rights.py.

import Bytes
import Policy
import Transport

/// Where clients of the admin API come from.
struct AdminListener {
  enum Kind {
    /// The socket in the file system, for everything.
    case socket
    /// A TCP address, for scrapers.
    case metrics
    /// A TCP address of the loopback interface, for the dashboard.
    case web
  }

  let kind: Kind
  let descriptor: Descriptor
  /// Set for TCP: the caller of `accept` needs to know the peer.
  var tcp: Listener? = nil

  /// The most connections of this kind at once. The socket serves commands and watchers. Every local user reaches TCP;
  /// it serves a few scrapers, and cannot use up the places of the socket.
  var mostConnections: Int {
    switch kind {
    case .socket: AdminServer.mostConnections
    case .metrics: AdminServer.mostScrapers
    case .web: AdminServer.mostBrowserConnections
    }
  }

  /// Opens what [admin] names. `passed`: the socket that the service manager opened, which replaces `socket`. The
  /// standard socket may be missing: without a service, its directory does not exist.
  static func open(
    _ admin: AdminSettings, passed: Descriptor?, _ log: LogWriter
  ) throws(StartFailure) -> (listeners: [AdminListener], metrics: SocketAddress?, web: SocketAddress?) {
    var listeners: [AdminListener] = []
    if let passed {
      listeners.append(AdminListener(kind: .socket, descriptor: passed))
    } else if let socket = try openSocket(admin, log) {
      listeners.append(AdminListener(kind: .socket, descriptor: socket))
    }
    var metrics: SocketAddress? = nil
    if let wanted = admin.metrics {
      let listener = try open(.metrics, wanted, key: "metrics")
      metrics = listener.tcp?.address
      listeners.append(listener)
      if let metrics { log.event(.info, "metrics: http://\(Daemon.text(metrics))/metrics") }
    }
    var web: SocketAddress? = nil
    if let wanted = admin.web {
      let listener = try open(.web, wanted, key: "web")
      web = listener.tcp?.address
      listeners.append(listener)
      if let web { log.event(.info, "dashboard: http://\(Daemon.text(web))/, opened by 'sallyport dashboard'") }
    }
    return (listeners, metrics, web)
  }

  private static func open(_ kind: Kind, _ wanted: ListenAddress, key: String) throws(StartFailure) -> AdminListener {
    switch Listener.open(SocketAddress(wanted.address, port: wanted.port), probes: true) {
    case .success(let listener): return AdminListener(kind: kind, descriptor: listener.descriptor, tcp: listener)
    case .failure(let error):
      throw StartFailure(description: "cannot listen on \(wanted), which '\(key)' of [admin] names: \(error)")
    }
  }

  enum Acceptance {
    /// With its peer if it came by TCP.
    case accepted(Descriptor, Accepted?)
    /// The process has no descriptor left for it.
    case exhausted
    /// None waits any more.
    case none
  }

  /// Accepts one waiting connection.
  func accept() -> Acceptance {
    guard let tcp else {
      switch descriptor.accept() {
      case .success(let accepted): return .accepted(accepted, nil)
      case .failure(let error): return error.isExhaustion ? .exhausted : .none
      }
    }
    switch tcp.accept() {
    case .accepted(let accepted): return .accepted(accepted.descriptor, accepted)
    case .failed(let error): return error.isExhaustion ? .exhausted : .none
    case .none: return .none
    }
  }

  private static func openSocket(_ admin: AdminSettings, _ log: LogWriter) throws(StartFailure) -> Descriptor? {
    switch LocalListener.open(admin.socket, mode: socketMode) {
    case .success(let listener): return listener.descriptor
    case .failure(let error):
      if admin.isGiven {
        throw StartFailure(description: "cannot listen on \(admin.socket): \(error)\(advice(error))")
      }
      log.event(.debug, "no admin API: \(admin.socket): \(error)")
      return nil
    }
  }

  private static func advice(_ error: SystemError) -> String {
    if error.isInUse { return " by a daemon that answers there; stop it, or change 'socket' in [admin]" }
    if error.isAbsence { return "; make its directory, or change 'socket' in [admin]" }
    return ""
  }

  /// For its owner and group: anyone who may connect may read.
  private static let socketMode: UInt32 = 0o660
}
