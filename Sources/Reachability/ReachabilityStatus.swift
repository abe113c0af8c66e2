// AFNetworkReachabilityStatus, in the words of policy-file: what `when` lists and what is said of a destination.

/// Whether something can be reached, and by what kind of link.
public enum ReachabilityStatus: String, Sendable, CaseIterable {
  /// Nothing is known yet, or the link is of a kind that nobody has named: a VPN, say.
  case unknown
  case notReachable = "not-reachable"
  case wwan, wifi, wired
}
