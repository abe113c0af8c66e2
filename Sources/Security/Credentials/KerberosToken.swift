// Negotiate tokens (RFC 4559): a Kerberos ticket for a service, wrapped in SPNEGO (RFC 4178).

import Bytes
import CGSSAPI
import Glibc

public enum KerberosToken {
  public struct Fault: Error, Sendable { public let description: String }

  /// `Negotiate YII…`, for the service `HTTP` of the host. A secret, usable once.
  ///
  /// If there is no ticket yet, this asks the key distribution center and waits for it, so it must not run on a loop.
  /// Tickets are kept in the memory of the process, separately for each client.
  ///
  /// - keytab: the path of the client's keys.
  /// - principal: which of them to use; nil: the first.
  public static func make(keytab: String, principal: String?, host: String) -> Result<[UInt8], Fault> {
    var token: UnsafeMutablePointer<UInt8>? = nil
    var count = 0
    var fault: UnsafeMutablePointer<CChar>? = nil
    let cache = "MEMORY:sallyport \(principal ?? "") \(keytab)"
    let outcome = cg_token(keytab, principal, "HTTP@\(host)", cache, &token, &count, &fault)
    defer {
      free(token)
      free(fault)
    }
    guard outcome == 0, let token else {
      return .failure(Fault(description: fault.map { String(cString: $0) } ?? "out of memory"))
    }
    let bytes = Array(UnsafeBufferPointer(start: token, count: count))
    return .success(Array("Negotiate ".utf8) + Base64.encode(bytes))
  }
}
