// Opens what `listen` of [proxy] names. Tests: test_service.py.

import Policy
import Transport

enum ListenAddresses {
  /// The listeners of the first loop. Of several addresses, some may come later.
  static func open(_ addresses: [SocketAddress], _ log: LogWriter) throws(StartFailure) -> [Listener] {
    var listeners: [Listener] = []
    var missing = 0
    for address in addresses {
      var outcome = Listener.open(address, probes: true)
      // A machine without IPv6, or one whose network comes later, still gets a proxy.
      if case .failure(let error) = outcome, error.isAddressMissing, addresses.count > 1 {
        missing += 1
        outcome = Listener.open(address, probes: true, awaitsAddress: true)
        if case .success = outcome {
          log.event(
            .warning, "no interface has the listen address \(Daemon.text(address)) yet; clients are served once one has"
          )
        }
      }
      switch outcome {
      case .success(let listener): listeners.append(listener)
      case .failure(let error) where error.isAddressMissing && addresses.count > 1:
        log.event(.warning, "not listening on \(Daemon.text(address)): \(error)")
      case .failure(let error):
        throw StartFailure(description: "cannot listen on \(Daemon.text(address)): \(error)\(advice(address, error))")
      }
    }
    if missing == addresses.count { throw StartFailure(description: "none of the listen addresses exists here") }
    return listeners
  }

  /// What to do if the daemon cannot listen on an address.
  private static func advice(_ address: SocketAddress, _ error: SystemError) -> String {
    if error.isDenial { return "; ports below 1024 need CAP_NET_BIND_SERVICE" }
    guard error.isInUse else { return "" }
    let holder = PortHolder.listening(on: address).map { " by \($0)" } ?? ""
    return "\(holder); stop that, or change 'listen' in [proxy]"
  }

  /// Those of another loop, on the same ports: the kernel distributes the connections.
  static func openShared(_ addresses: [SocketAddress]) throws(StartFailure) -> [Listener] {
    var listeners: [Listener] = []
    for address in addresses {
      switch Listener.open(address, probes: false, awaitsAddress: true) {
      case .success(let listener): listeners.append(listener)
      case .failure(let error): throw StartFailure(description: "cannot listen on \(Daemon.text(address)): \(error)")
      }
    }
    return listeners
  }
}
