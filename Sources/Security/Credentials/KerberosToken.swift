// Tokens of Negotiate (RFC 4559): a ticket of Kerberos for a service, as SPNEGO wraps it (RFC 4178).

import Bytes
import CGSSAPI
import Glibc

public enum KerberosToken {
  public struct Fault: Error, Sendable { public let description: String }

  /// `Negotiate YII…`, for the service `HTTP` of the host. A secret, and good for one use.
  ///
  /// Asks the key distribution center where no ticket is at hand, and waits for it: no loop calls this. Tickets are kept in
  /// the memory of the process, for each client its own.
  ///
  /// - keytab: path of the keys of the client.
  /// - principal: which of them; nil: the first.
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
    return .success(Array("Negotiate \(Base64.encode(bytes))".utf8))
  }
}
