// GET /v1/reachability: how the machine, and a host, is reached. Tests: test_admin_reachability.py.

import Policy

struct ReachabilityResource {
  let inquiries: AdminInquiries

  func show(_ call: AdminCall) {
    var name: String? = nil
    switch AdminQuery.values(of: "host", in: call.request.query) {
    case .failure(let fault): return call.refuse(400, fault.sentence)
    case .success(let names) where names.count > 1: return call.refuse(400, "expected one host")
    case .success(let names): name = names.first
    }
    if let given = name {
      var host = CanonicalHost()
      // IPv6 addresses are also accepted without the brackets that separate a port.
      let text = given.contains(":") && !given.hasPrefix("[") ? "[\(given)]" : given
      if let fault = host.set(Array(text.utf8).span) {
        return call.refuse(400, "'\(AdminCall.cut(given))' is no host; expected \(fault.expectation)")
      }
      name = String(decoding: host.bytes, as: UTF8.self)
    }
    inquiries.askReachability(of: name, for: call.connection) { Self.page($0, wantsText: call.wantsText) }
  }

  private static func page(_ report: ReachabilityReport, wantsText: Bool) -> AdminPage {
    var page: AdminPage =
      wantsText ? .text(ReachabilityPage.text(report)) : .json(AdminResources.reachability(report))
    // For the command, which prints what it gets and still has to exit with yes or no.
    if let destination = report.destination {
      page.fields = [(ReachabilityReport.fieldName, destination.isReachable ? "yes" : "no")]
    }
    return page
  }
}
