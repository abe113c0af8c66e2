// sallyport help and sallyport version.

nonisolated let version = "0.1.0"

nonisolated func versionCommand(_ arguments: [String]) throws -> Int32 {
  try Arguments(arguments).refuseOperands()
  Output.answer("sallyport \(version)\n")
  return 0
}

nonisolated func helpCommand(_ arguments: [String]) throws -> Int32 {
  let operands = try Arguments(arguments).operands
  if operands.count > 1 { throw UsageError(message: "unexpected '\(operands[1])'") }
  guard let topic = operands.first else {
    Output.answer(overview)
    return 0
  }
  guard let text = topics[topic] else {
    Output.complain(
      "sallyport: no help on '\(topic)'; expected one of \(topics.keys.sorted().joined(separator: ", "))\n")
    return 2
  }
  Output.answer(text)
  return 0
}

private nonisolated let overview = """
  sallyport: a local HTTP forward proxy with one policy for every program of the machine

  usage: sallyport COMMAND [OPTIONS]

    run      start the proxy
    check    report everything that is wrong with the configuration
    explain  say which rule decides a request, and why
    env      print the variables that point programs at the proxy
    version  print the version
    help     print this, or more on a command: sallyport help COMMAND

  The configuration is /etc/sallyport/sallyport.toml, or the file that --config names; without either, sallyport is a
  plain forward proxy on 127.0.0.1:3128 and [::1]:3128.

  Exit status: 0 done, 1 the answer is no or it failed, 2 wrong usage.

  """

private nonisolated let topics: [String: String] = [
  "run": """
  usage: sallyport run [--config FILE]

  Starts the proxy in the foreground. When it is ready it prints one line with the addresses it listens on. The log
  goes to standard error: text on a terminal, one JSON object a line otherwise.

  SIGHUP reads the configuration again; with an error in it nothing changes, and the log says so.
  SIGTERM or SIGINT stops: requests under way may finish, up to timeouts.drain. A second one ends at once.

  """,
  "check": """
  usage: sallyport check [--config FILE] [--strict] [--json]

  Prints every error and warning of the configuration and of the files it includes, with file, line and column.
  Exits 1 when there is an error; with --strict, when there is a warning too. --json prints an array of objects.

  """,
  "explain": """
  usage: sallyport explain [--config FILE] [--json] METHOD URL

  Says which rule decides the request, where it stands, why each rule before it does not match, and what will be done.
  For a tunnel: sallyport explain CONNECT host:443, or any method with an https:// URL. Exits 1 where it is denied.

  """,
  "env": """
  usage: sallyport env [--config FILE] [--shell sh|fish|systemd]

  Prints the variables that point programs at the proxy: eval "$(sallyport env)".

  """,
  "version": "usage: sallyport version\n\nPrints the version.\n",
  "help": "usage: sallyport help [COMMAND]\n\nPrints what sallyport or one of its commands does.\n",
]
