// sallyport dashboard: a link to the dashboard of the running daemon, and a browser that opens it. The daemon makes the
// link, for the user that the kernel says is asking. Tests: test_dashboard.py.

import Transport

nonisolated func dashboardCommand(_ arguments: Arguments) throws -> Int32 {
  let options = AdminOptions(arguments)
  try arguments.refuseOperands()
  var path = "/v1/dashboard"
  // The browser is the user's who ran sudo. The daemon heeds this of root alone.
  let caller = Files.environment("SUDO_UID").flatMap { UInt32($0) }
  if Process.isRoot, let caller {
    path += "?user=\(caller)"
  } else if Process.isRoot, !arguments.flags.contains("no-open"), Browser.command(for: "", sudo: false) != nil {
    // The browser is root's own, and its command line is there for everybody to read.
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
  /// What opens a link: $BROWSER, else xdg-open on a display. nil: nothing. Root's browser on the display of another
  /// user would run as root, so root has to name one, and not by sudo.
  static func command(for link: String, sudo: Bool) -> [String]? {
    if Process.isRoot, sudo { return nil }
    if let browser = Files.environment("BROWSER"), let first = browser.split(separator: ":").first {
      // Several between colons; %s stands for the link, as for other programs that read this variable. No shell reads
      // it.
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
