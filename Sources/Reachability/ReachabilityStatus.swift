// AFNetworkReachabilityStatus, in the words of policy-file: the values of `when`, and the status of a destination.

/// Whether something can be reached, and by which kind of link.
public enum ReachabilityStatus: String, Sendable, CaseIterable {
  /// Nothing is known yet, or the kind of the link has not been configured, for example of a VPN.
  case unknown
  case notReachable = "not-reachable"
  case wwan, wifi, wired
}
