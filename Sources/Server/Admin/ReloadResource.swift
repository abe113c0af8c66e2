// POST /v1/reload: reads the configuration again. With `close_denied=true`, the loops then end what the new policy
// denies (DeniedClosing). Tests: test_admin.py, test_close_denied.py.

import Bytes
import Session

struct ReloadResource {
  unowned let host: any AdminHost
  let inquiries: AdminInquiries

  func reload(_ call: AdminCall) {
    let wantsText = call.wantsText
    switch AdminQuery.values(of: "close_denied", in: call.request.query) {
    case .success([]): call.write(reload(wantsText: wantsText))
    case .success(["true"]):
      let page = reload(wantsText: wantsText)
      guard page.status == 200 else { return call.write(page) }
      // After the policy in each loop's mailbox.
      inquiries.ask(.closeDenied, for: call.connection) { closed($0, after: page, wantsText: wantsText) }
    case .success, .failure: call.refuse(400, "expected close_denied=true in the query")
    }
  }

  private func closed(_ answers: [Answer], after page: AdminPage, wantsText: Bool) -> AdminPage {
    guard case .text(let text) = page.body else { return page }
    let count = Answer.cancelledCount(answers)
    return wantsText
      ? .text(text + "ended \(count) that the policy now denies\n")
      : .json(.object([("rules", .number(host.state.policy.rules.count)), ("closed", .number(count))]))
  }

  private func reload(wantsText: Bool) -> AdminPage {
    let fault: ReloadFault
    switch host.reloadNow() {
    case .done(let warnings):
      let rules = host.state.policy.rules.count
      if wantsText {
        return .text((warnings + ["reloaded: \(String.counted(rules, "rule"))\n"]).joined(separator: "\n"))
      }
      return .json(.object([("rules", .number(rules)), ("warnings", .array(warnings.map { .string($0) }))]))
    case .stopping:
      let detail = "the proxy is stopping; the configuration is not read again"
      return wantsText ? .text(detail + "\n", status: 503) : .problem(503, detail)
    case .failed(let found): fault = found
    }
    let detail = "\(fault.summary); nothing has changed"
    if wantsText { return .text((fault.reasons + [detail]).joined(separator: "\n") + "\n", status: 422) }
    return .json(
      .object([
        ("status", .number(422)), ("detail", .string(detail)), ("errors", .array(fault.reasons.map { .string($0) })),
      ]), status: 422)
  }
}
