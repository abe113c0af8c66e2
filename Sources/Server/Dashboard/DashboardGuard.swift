// What a request to the dashboard has to prove before anything is done for it. Every page that the user visits can send
// requests to this port, and a name that its owner points at 127.0.0.1 makes them same-origin (DNS rebinding). The
// fields that the browser itself writes tell them apart: Host, Origin and Sec-Fetch-Site, which no script can set.
// Pure.
// Tests: DashboardGuardTests, test_dashboard.py.

import Bytes
import Policy

/// The fields of a request that show where it comes from.
struct WebFields: Equatable {
  var host: String? = nil
  var origin: String? = nil
  /// Sec-Fetch-Site (Fetch Metadata), which browsers send since 2020 (Firefox 90, Chromium 76, Safari 16.4).
  var site: String? = nil
  var contentType: String? = nil
  /// The field of scripts that act. A form cannot send it, and a script of another origin could only after a preflight
  /// request, which is refused.
  var action: String? = nil
  var cookies: [String] = []
  var hasBody = false
  /// A field that may occur once occurred again: two readers could use different ones.
  var isAmbiguous = false
  /// The target contains a host, which would replace Host (RFC 9112, 3.2.2): browsers send that to proxies.
  var isForProxy = false

  static let actionName = "sallyport-dashboard"

  /// Reads a field of the head; `name` in lower case.
  mutating func take(_ name: String, _ value: String) {
    switch name {
    case "host": set(\.host, value)
    case "origin": set(\.origin, value)
    case "sec-fetch-site": set(\.site, value)
    case "content-type": set(\.contentType, value)
    case Self.actionName: set(\.action, value)
    case "cookie": cookies.append(value)
    default: break
    }
  }

  private mutating func set(_ field: WritableKeyPath<WebFields, String?>, _ value: String) {
    if self[keyPath: field] != nil { isAmbiguous = true }
    self[keyPath: field] = value
  }

  /// The values of the cookie `name` (RFC 6265, 5.4); a browser sends one.
  func cookies(named name: String) -> [String] {
    cookies.flatMap { $0.split(separator: ";") }.compactMap { pair in
      let text = pair.drop { $0 == " " }
      return text.hasPrefix(name + "=") ? String(text.dropFirst(name.utf8.count + 1)) : nil
    }
  }
}

/// The checks of one listener.
struct DashboardGuard: Sendable {
  /// The values that Host may have: the address of the listener, and localhost.
  let hosts: [String]

  init(_ address: ListenAddress) {
    let bare = address.address.isIPv4 ? "\(address.address)" : "[\(address.address)]"
    let names = [bare, "localhost"]
    // Browsers leave out the default port of the scheme.
    hosts = names.map { "\($0):\(address.port)" } + (address.port == 80 ? names : [])
  }

  struct Refusal: Error, Equatable {
    let status: Int
    let detail: String
  }

  func refusal(_ fields: WebFields, method: String) -> Refusal? {
    if fields.isAmbiguous {
      return Refusal(status: 400, detail: "a field that says where the request comes from came twice")
    }
    if fields.isForProxy {
      return Refusal(status: 421, detail: "expected a path as the target: the dashboard is no proxy")
    }
    guard let host = fields.host?.lowercased(), hosts.contains(host) else {
      return Refusal(
        status: 421, detail: "expected Host to be \(hosts.joined(separator: " or ")): the dashboard has no other name")
    }
    // `null`, which sandboxed pages send, is not our origin either.
    if let origin = fields.origin, origin.lowercased() != "http://\(host)" {
      return Refusal(status: 403, detail: "expected the dashboard's own Origin, found another page's")
    }
    if let site = fields.site, site != "same-origin", site != "none" {
      return Refusal(
        status: 403, detail: "another page sent this request (Sec-Fetch-Site); open the dashboard by its own link")
    }
    return method == "GET" ? nil : refusalOfAction(fields)
  }

  /// A form can send neither a field of its own nor JSON.
  private func refusalOfAction(_ fields: WebFields) -> Refusal? {
    if fields.origin == nil {
      return Refusal(status: 403, detail: "expected Origin in a request that changes something")
    }
    if fields.action == nil {
      return Refusal(status: 403, detail: "expected the field Sallyport-Dashboard in a request that changes something")
    }
    if let type = fields.contentType {
      let essence = type.prefix { $0 != ";" && $0 != " " }.lowercased()
      if essence != "application/json" {
        return Refusal(status: 415, detail: "expected application/json or no content")
      }
    } else if fields.hasBody {
      return Refusal(status: 415, detail: "expected application/json or no content, found content without a type")
    }
    return nil
  }

  /// Instructions to the browser in every answer: run only our own files, send nothing elsewhere, show the page in no
  /// frame, store nothing, and let no other page read it or keep a handle on it.
  static let answerFields =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    + "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n"
    + "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
    + "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    + "Cross-Origin-Embedder-Policy: require-corp\r\n"
    + "Permissions-Policy: camera=(), geolocation=(), microphone=(), usb=()\r\n"
}
