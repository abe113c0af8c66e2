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

    run           start the proxy
    check         report everything that is wrong with the configuration
    explain       say which rule decides a request, and why
    pin           show the certificates of a server, and a table of pins to paste
    ca            make, show and export the local authority for connect = "intercept"
    env           print the variables that point programs at the proxy, and at its authority
    status        show what the running proxy does
    reload        have it read its configuration again
    events        print what happens in it, as it happens
    reachability  show by what kind of link it reaches the network, or a host
    version       print the version
    help          print this, or more on a command: sallyport help COMMAND

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
  usage: sallyport explain [--config FILE] [--json] [--user USER] [--unit UNIT] [--when KIND] [--absolute] METHOD URL
         sallyport explain [--config FILE | --socket PATH] [--json] REF

  Says which rule decides the request, where it stands, why each rule before it does not match, and what will be done.
  For a tunnel: sallyport explain CONNECT host:443, or any method with an https:// URL. Exits 1 where it is denied.
  With --absolute an https:// URL is explained as a program sends it that uses no CONNECT.
  --user (a name or a number) and --unit (of systemd) say who asks, --when by what link the machine leaves: wired, wifi,
  wwan, unknown or not-reachable. What is left out is taken for unknown.
  REF is the reference of a recent request, as in a reason phrase or a log line: the running proxy says what it decided.

  """,
  "pin": """
  usage: sallyport pin HOST[:PORT] [--server-name NAME] [--anchors FILE] [--json]
         sallyport pin --file FILE… [HOST] [--server-name NAME] [--anchors FILE] [--json]

  Shows each certificate that the server sends (or that the files hold, PEM or DER, leaf first): whom it is for, until
  when, its key, its pin, and what a pin on it is worth; whether the chain leads to the system's anchors, or those of
  --anchors, and is for the name. The table at the end is for the configuration: the leaf's pin and a backup.

  --server-name asks the server for another name than HOST, and checks that one. Nothing goes through the proxy.
  Exits 1 where there are no certificates to show.

  """,
  "ca": """
  usage: sallyport ca init [--permit NAME]…
         sallyport ca activate [--previous]
         sallyport ca show [--json]
         sallyport ca export [--format pem|der] [--only active|next|previous] [--bundle] [--output FILE]
         each with [--directory DIRECTORY] or [--config FILE]: else the directory of [authority]

  init makes the authority that signs for intercepted hosts: authority.pem, and authority.key, which nobody else may
  read. --permit limits what it may sign for to a name and all below it, an address or a CIDR block; clients refuse
  anything else. show says what is there, export prints the certificates for programs to trust; with --bundle, behind
  the system's anchors, for programs in which a file takes their place.

  A roll-over: 'ca init' makes the next authority beside the present one; programs get both from 'env' and 'export';
  'ca activate' lets the next one sign. The old one stays as previous.pem, and 'ca activate --previous' goes back to it;
  delete it and previous.key when all is well.

  """,
  "env": """
  usage: sallyport env [--config FILE] [--shell sh|fish|systemd]

  Prints the variables that point programs at the proxy: eval "$(sallyport env)", or, in fish,
  sallyport env --shell fish | source.
  Where there is a local authority ('sallyport ca init'), also those by which curl, Python, Node.js, git, pip and others
  are told to trust it. They name two files in its directory, authorities.pem and bundle.pem, which are brought up to
  date first where that is allowed; a comment says where not, and what Java needs.

  """,
  "status": """
  usage: sallyport status [--config FILE | --socket PATH] [--json]

  Asks the running proxy what it does: since when, with which policy, how many connections, what each rule let pass and
  refused, which pins expire soon, and why the last reload failed, if it did.

  """,
  "reload": """
  usage: sallyport reload [--config FILE | --socket PATH] [--json]

  Has the running proxy read its configuration again. With an error in it nothing changes, the errors are printed, and
  the exit status is 1.

  """,
  "events": """
  usage: sallyport events [--config FILE | --socket PATH] [--kind KIND,…] [--rule NAME] [--user USER]
                          [--ref REF] [--json]

  Prints what happens in the running proxy until it is interrupted. The kinds:
    begun         a request or tunnel has been decided
    progress      how far one is that takes its time
    finished      one is over
    violation     what passed although it violates its rule
    pin-mismatch  a certificate without a pinned key was seen
    wait          a request waits for a path, or goes on
    reachability  the network has changed
    reload        the configuration was read again
  --kind takes some of them, between commas; without it all are printed. --rule, --user and --ref choose those of the
  requests that a rule decided, a user sent, or that have a reference. With --json as server-sent events.

  """,
  "reachability": """
  usage: sallyport reachability [HOST] [--watch] [--config FILE | --socket PATH] [--json]

  Asks the running proxy by what kind of link the machine is reached, which interfaces and routes there are, and which of
  them are passed over; of HOST, by which interface each of its addresses is reached. Exits 1 where HOST cannot be.
  --watch goes on with a line for each change, until it is interrupted.

  """,
  "version": "usage: sallyport version\n\nPrints the version.\n",
  "help": "usage: sallyport help [COMMAND]\n\nPrints what sallyport or one of its commands does.\n",
]
