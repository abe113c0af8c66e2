// sallyport dashboard: a link to the dashboard of the running daemon, opened in a browser. The daemon makes the link,
// for the user that the kernel reports for the connection. Tests: test_dashboard.py.

import Transport

nonisolated func dashboardCommand(_ arguments: Arguments) throws -> Int32 {
  let options = AdminOptions(arguments)
  try arguments.refuseOperands()
  var path = "/v1/dashboard"
  // The browser belongs to the user who ran sudo. The daemon accepts this parameter only from root.
  let caller = Files.environment("SUDO_UID").flatMap { UInt32($0) }
  if Process.isRoot, let caller {
    path += "?user=\(caller)"
  } else if Process.isRoot, !arguments.flags.contains("no-open"), Browser.command(for: "", sudo: false) != nil {
    // The browser is root's own, and all users can read its command line.
    path += "?user=0"
  }
  guard var exchange = try options.open("POST", path) else { return 1 }
  defer { exchange.close() }
  guard let head = exchange.readHead() else {
    Output.complain("sallyport: the daemon did not answer\n")
    return 1
  }
  while exchange.receive() {}
  let text = exchange.takeText()
  guard head.status == 200 else {
    Output.complain(text)
    return 1
  }
  Output.answer(text)
  if options.wantsJSON || arguments.flags.contains("no-open") { return 0 }
  if let command = Browser.command(for: text.split(separator: "\n").first.map(String.init) ?? "", sudo: caller != nil) {
    if let error = Programs.start(command) {
      Output.complain("sallyport: cannot start \(command[0]): \(error); open the link yourself\n")
    }
  }
  return 0
}

enum Browser {
  /// The command that opens a link: $BROWSER, or else xdg-open on a display; nil if there is none. Root's browser on
  /// another user's display would run as root, so root must set $BROWSER, and not through sudo.
  static func command(for link: String, sudo: Bool) -> [String]? {
    if Process.isRoot, sudo { return nil }
    if let browser = Files.environment("BROWSER"), let first = browser.split(separator: ":").first {
      // Several commands are separated by colons, and %s stands for the link, as other programs read this variable. No
      // shell is involved.
      var words = first.split(separator: " ").map(String.init)
      if words.isEmpty { return nil }
      if !words.contains(where: { $0.contains("%s") }) { words.append("%s") }
      return words.map { $0 == "%s" ? link : $0 }
    }
    if Process.isRoot { return nil }
    let hasDisplay = ["DISPLAY", "WAYLAND_DISPLAY"].contains { !(Files.environment($0) ?? "").isEmpty }
    return hasDisplay ? ["xdg-open", link] : nil
  }
}
