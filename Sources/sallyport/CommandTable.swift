// The commands: their names, arguments and functions. Tests: test_commands.py; test_manual.py and test_completions.py
// compare the manual and the completions with it.

import Reachability

enum CommandTable {
  static let all: [Command] = [
    run, check, test, explain, diff, configuration, schema, pin, caInit, caActivate, caShow, caExport, env, status, top,
    dashboard,
    reload,
    events, reachability, cacheStatus, cacheList, cacheShow, cachePurge, log, learn, replay, asks, allow, deny,
    cancel, flush,
    versionCommand, helpCommand,
  ]

  /// Commands with subcommands, and the common description of those.
  static let families: [(name: String, summary: String, text: String)] = [
    ("ca", "make, show and export the local authority for connect = \"intercept\"", authorityText),
    ("cache", "show and purge the answers that the running proxy has stored", cacheText),
  ]

  static func command(named name: String) -> Command? { all.first { $0.name == name } }

  /// `ca init`, … of `ca`.
  static func parts(of family: String) -> [Command] { all.filter { $0.name.hasPrefix(family + " ") } }

  // MARK: Options

  static let help = CommandOption(name: "help", letter: "h", summary: "print this")
  private static let config = CommandOption(
    name: "config", letter: "c", value: "FILE", summary: "the configuration, in place of /etc/sallyport/sallyport.toml")
  private static let json = CommandOption(name: "json", summary: "print one JSON document")
  private static let jsonLines = CommandOption(name: "json", summary: "print one JSON object a line")
  /// The options of commands that ask the daemon, to find it.
  private static let daemon = [
    CommandOption(
      name: "config", letter: "c", value: "FILE", group: "the daemon", summary: "the daemon of this configuration"),
    CommandOption(name: "socket", value: "PATH", group: "the daemon", summary: "the daemon with this socket"),
  ]
  private static let authority = [
    CommandOption(
      name: "directory", value: "DIRECTORY", group: "the authority", summary: "the directory of the authority"),
    CommandOption(
      name: "config", letter: "c", value: "FILE", group: "the authority",
      summary: "the configuration whose [authority] says where it is"),
  ]

  // MARK: The policy

  private static let run = Command(
    name: "run", summary: "start the proxy", forms: [CommandForm(options: [config])],
    text: """
      Starts the proxy in the foreground. When it is ready it prints one line with the addresses it
      listens on. The log goes to standard error: text on a terminal, one JSON object a line otherwise.

      SIGHUP reads the configuration again. With an error in it nothing changes, and the log says so.
      SIGTERM or SIGINT stops: requests under way may finish, up to timeouts.drain. A second one ends
      at once.
      """, run: runCommand)

  private static let check = Command(
    name: "check", summary: "report everything that is wrong with the configuration",
    forms: [
      CommandForm(
        operands: "[FILE]",
        options: [config, CommandOption(name: "strict", summary: "exit 1 on a warning too"), json])
    ],
    text: """
      Prints every error and warning of the configuration, or of FILE, and of the files it includes,
      with file, line and column. Secrets that only the service may read are notes.
      An [[expect]] that does not hold is an error. Exits 1 when there is an error, with --strict when
      there is a warning too.
      """, run: checkCommand)

  private static let test = Command(
    name: "test", summary: "check what the configuration says should become of requests",
    forms: [CommandForm(operands: "[FILE]", options: [config, json])],
    text: """
      Decides each request of the [[expect]] tables in the configuration, or in FILE, as the proxy
      would, and prints those that are not decided as expected: where, what was expected and seen, and
      why.

      Exits 0 where all hold, 3 where one does not, 1 where the configuration has errors.
      """, run: testCommand)

  private static let explain = Command(
    name: "explain", summary: "say which rule decides a request, and why",
    forms: [
      CommandForm(
        operands: "[METHOD] URL",
        options: [
          config,
          CommandOption(name: "user", value: "USER", summary: "who asks, by name or number"),
          CommandOption(name: "unit", value: "UNIT", summary: "the systemd unit that asks"),
          CommandOption(name: "client", value: "ADDRESS", summary: "the address that it connects from"),
          CommandOption(
            name: "proxy-user", value: "NAME", summary: "the name that it comes with, of [proxy] credentials"),
          CommandOption(name: "program", value: "PATH", summary: "the path of the executable that asks"),
          CommandOption(
            name: "when", value: "KIND", choices: ReachabilityStatus.allCases.map(\.rawValue),
            summary: "the link that the machine leaves by"),
          CommandOption(name: "absolute", summary: "explain an https:// URL as sent without CONNECT"),
          json,
        ]),
      CommandForm(operands: "REF", options: daemon + [json]),
    ],
    text: """
      Says which rule decides the request, where it stands, why each rule before it does not match,
      and what will be done. Without METHOD it is a GET. For a tunnel: sallyport explain CONNECT
      HOST:443, or an https:// URL. What the options leave out of who asks is taken for unknown.
      KIND is wired, wifi, wwan, unknown or not-reachable.

      REF is the reference of a recent request, as in a reason phrase or a line of the log: the running
      proxy says what it decided.

      Exits 0 where the request is allowed, 3 where it is denied or an operator is asked, 1 where that
      cannot be said.
      """, run: explainCommand)

  private static let diff = Command(
    name: "diff", summary: "say what two configurations decide differently",
    forms: [CommandForm(operands: "OLD NEW", options: [json])],
    text: """
      Says which requests the configuration NEW would deny that OLD allows, which it would allow, and
      which it would treat otherwise, each with a request that shows it. The requests are made from the
      rules of both; nothing is sent, and no daemon is asked.

      Exits 1 where anything would newly be denied, or a configuration has errors, and 0 otherwise.
      """, run: diffCommand)

  private static let configuration = Command(
    name: "config", summary: "print the configuration as it is in force, with the place of each key",
    forms: [CommandForm(operands: "[FILE]", options: [config, json])],
    text: """
      Prints the configuration, or FILE, with all that it includes as one file: each key with the file
      and line where it stands, or "default". Secrets are hidden. The output can be checked again.

      Exits 1 where the configuration has errors.
      """, run: configCommand)

  private static let schema = Command(
    name: "schema", summary: "print what a configuration may hold, for editors",
    forms: [CommandForm(options: [])],
    text: """
      Prints the keys of the configuration as a JSON Schema (draft-07): what each takes, what holds
      without it, and what it is for. Editors that know TOML complete and check files with it; put
      "#:schema PATH" into the first line of a file for taplo and Even Better TOML. What only the whole
      of a configuration can tell, such as a rule that names pins that are nowhere, is for check.
      """, run: printSchema)

  private static let pin = Command(
    name: "pin", summary: "show the certificates of a server, and a table of pins to paste",
    forms: [
      CommandForm(operands: "HOST[:PORT]", options: pinOptions),
      CommandForm(
        operands: "[HOST]",
        options: [
          CommandOption(name: "file", value: "FILE", repeats: true, summary: "certificates, PEM or DER, leaf first")
        ] + pinOptions),
    ],
    text: """
      Shows each certificate that the server sends, or that the files hold: whom it is for, until when,
      its key, its pin, and what a pin on it is worth; whether the chain leads to the system's anchors,
      or those of --anchors, and is for the name. The table at the end is for the configuration: the
      leaf's pin and a backup. Nothing goes through the proxy.

      Exits 1 where there are no certificates to show.
      """, run: pinCommand)

  private static let pinOptions = [
    CommandOption(name: "server-name", value: "NAME", summary: "ask the server for this name, and check it"),
    CommandOption(name: "anchors", value: "FILE", summary: "trust these, in place of the system's"), json,
  ]

  // MARK: The local authority

  private static let authorityText = """
    init makes the authority that signs for intercepted hosts: authority.pem, and authority.key, which
    nobody else may read. show says what is there, export prints the certificates for programs to trust.

    A roll-over: 'ca init' makes the next authority beside the present one, and programs get both from
    'env' and 'ca export'. 'ca activate' lets the next one sign. The old one stays as previous.pem, and
    'ca activate --previous' goes back to it. Delete it and previous.key when all is well.
    """

  private static let caInit = Command(
    name: "ca init", summary: "make an authority, or the next one",
    forms: [
      CommandForm(
        options: [
          CommandOption(
            name: "permit", value: "NAME", repeats: true, summary: "limit what it may sign for")
        ] + authority)
    ],
    text: """
      Makes the authority that signs for intercepted hosts, or the next one where one exists.
      NAME is a name, which permits all below it too, an address or a CIDR block. Clients refuse
      anything else that it signs. Without --permit it may sign for every host.
      """, run: authorityInitCommand)

  private static let caActivate = Command(
    name: "ca activate", summary: "let the next one sign",
    forms: [
      CommandForm(
        options: [CommandOption(name: "previous", summary: "go back to the authority before")] + authority)
    ],
    text: "The next authority signs once the daemon reloads. The present one stays as previous.pem.",
    run: authorityActivateCommand)

  private static let caShow = Command(
    name: "ca show", summary: "say what is there", forms: [CommandForm(options: [json] + authority)],
    text: "Prints what the certificates of the authorities say, and where their keys are.",
    run: authorityShowCommand)

  private static let caExport = Command(
    name: "ca export", summary: "print the certificates for programs to trust",
    forms: [
      CommandForm(
        options: [
          CommandOption(
            name: "format", value: "pem|der", choices: ["pem", "der"], summary: "form of the certificates"),
          CommandOption(
            name: "only", value: "active|next|previous", choices: ["active", "next", "previous"],
            summary: "one of the authorities"),
          CommandOption(name: "bundle", summary: "after the anchors of the system and of [trust]"),
          CommandOption(name: "output", value: "FILE", summary: "write to this file"),
        ] + authority)
    ],
    text: """
      Prints the certificates of the authorities. --bundle is for programs in which a file takes the
      place of the anchors they have.
      """, run: authorityExportCommand)

  // MARK: Programs

  private static let env = Command(
    name: "env", summary: "print the variables that point programs at the proxy",
    forms: [
      CommandForm(
        options: daemon + [
          CommandOption(
            name: "shell", value: "SHELL", choices: Shell.allCases.map(\.rawValue), summary: "the language of the lines"
          )
        ])
    ],
    text: """
      Prints the variables that point programs at the proxy, where it listens now if it runs, and at
      the certificates of the local authority where there is one. A comment names each well-known
      program that needs more.

        eval "$(sallyport env)"                                sh, bash, zsh
        sallyport env --shell fish | source                    fish
        sallyport env --shell systemd                          lines of a unit
        sallyport env --shell env-file >proxy.env              docker run --env-file, node --env-file
        sallyport env --shell json                             one JSON object

      Where it cannot know the address it prints variables that point at one which refuses every
      connection, so that no program goes around the proxy, says why, and exits 1.
      """, run: environmentCommand)

  // MARK: The daemon

  private static let status = Command(
    name: "status", summary: "show what the running proxy does", forms: [CommandForm(options: daemon + [json])],
    text: """
      Asks the running proxy what it does: since when, with which policy, how many connections, what
      each rule allowed and refused, which pins expire soon, and why the last reload failed, if it did.
      """, run: statusCommand)

  private static let top = Command(
    name: "top", summary: "watch what it does, on a screen that goes on",
    forms: [
      CommandForm(
        options: daemon + [
          CommandOption(name: "interval", value: "DURATION", summary: "ask so often: 500ms, 2s; 1s without it")
        ])
    ],
    text: """
      Shows what the running proxy does, on the whole terminal: who talks to whom, connections, hits of
      rules, refusals with their reasons, and requests that wait for an answer. Enter says more on a row,
      / filters, ? shows all keys, q quits. It asks once a second, at the same cost at any load.

      Exits 1 where the proxy cannot be reached at the start, or the terminal cannot show it.
      """, run: topCommand)

  private static let dashboard = Command(
    name: "dashboard", summary: "open a view of it in the browser",
    forms: [
      CommandForm(options: [CommandOption(name: "no-open", summary: "print the link only")] + daemon + [json])
    ],
    text: """
      Prints a link to the dashboard of the running proxy and opens it: with $BROWSER, else with xdg-open
      on a display. Root opens nothing, unless BROWSER is set and sudo is not used.

      The link works once, within a minute, in a browser of the user who asked; of the user who ran
      sudo, where root asks by sudo. The browser may then do what that user may do by the admin socket.
      The dashboard needs 'web' in [admin]. From another machine: ssh -L 3129:127.0.0.1:3129.
      """, run: dashboardCommand)

  private static let reload = Command(
    name: "reload", summary: "have it read its configuration again",
    forms: [
      CommandForm(
        options: [
          CommandOption(name: "close-denied", summary: "end what goes on and the new policy denies")
        ] + daemon + [json])
    ],
    text: """
      Has the running proxy read its configuration again. With an error in it nothing changes, the
      errors are printed, and the exit status is 1. Requests and tunnels under way finish under the
      policy they began with; --close-denied ends those that the new one denies.
      """, run: reloadCommand)

  private static let asks = Command(
    name: "asks", summary: "show the requests that wait for an operator, and what was answered for a time",
    forms: [
      CommandForm(
        options: [
          CommandOption(name: "watch", summary: "go on, and print each question and answer as it comes"),
          CommandOption(name: "revoke", value: "NUMBER", summary: "end this temporary rule"),
        ] + daemon + [json])
    ],
    text: """
      Prints the questions that rules with action = "ask" have put: who asks for what, how many requests
      wait, and how long they do. 'sallyport allow' and 'sallyport deny' answer them. Temporary rules
      follow: what was answered for a time, each with its number.
      """, run: asksCommand)

  private static let answerOptions = [
    CommandOption(name: "once", group: "how long", summary: "as long as the rule remembers it, which is the default"),
    CommandOption(name: "for", value: "TIME", group: "how long", summary: "for this time, such as 1h"),
    CommandOption(name: "always", group: "how long", summary: "as a rule in a file of the configuration"),
    CommandOption(name: "user", value: "USER", summary: "with a HOST: for this user alone"),
    CommandOption(name: "unit", value: "UNIT", summary: "with a HOST: for this systemd unit alone"),
    CommandOption(name: "port", value: "PORT", summary: "with a HOST: to this port alone"),
    CommandOption(
      name: "write", value: "FILE", summary: "with --always: into this file, in place of policy.d/90-answers.toml"),
  ]

  private static let allow = Command(
    name: "allow", summary: "say yes to a request that waits, or allow a host for a time",
    forms: [CommandForm(operands: "REF|HOST", options: answerOptions + daemon + [json])],
    text: """
      Says yes to the question REF: all that wait for it go on. The answer holds for the same question
      of the same client as long as the rule says (remember in [rule.ask]), or for the time of --for.
      REF may also name a request that was refused a moment ago. HOST is a host or a pattern: requests to
      it are allowed for the time of --for, as far as no rule of the configuration decides them. One that
      reads as a REF has a dot at its end.

      --always adds the narrowest rule to a file that the configuration includes, and reloads.

      Exits 1 where no such question waits.
      """, run: allowCommand)

  private static let deny = Command(
    name: "deny", summary: "say no to a request that waits, or deny a host for a time",
    forms: [CommandForm(operands: "REF|HOST", options: answerOptions + daemon + [json])],
    text: """
      Says no to the question REF: all that wait for it are refused. A HOST is denied for the time of
      --for whatever the rules say. Options and exit status are those of 'sallyport allow'.
      """, run: denyCommand)

  private static let cancel = Command(
    name: "cancel", summary: "end requests and tunnels that are under way in it",
    forms: [
      CommandForm(
        operands: "[REF]",
        options: [
          CommandOption(name: "host", value: "HOST", summary: "those to this host"),
          CommandOption(name: "rule", value: "NAME", summary: "those that this rule decided"),
          CommandOption(name: "user", value: "USER", summary: "those of this user, by name or number"),
        ] + daemon + [json])
    ],
    text: """
      Ends the requests and tunnels that all of it holds for, and says how many. A client that has got
      nothing yet is told so (403 cancelled); one that is in the middle sees that the answer was broken
      off. REF is the reference of one, as in 'sallyport events' or GET /v1/connections.

      Exits 1 where nothing of the kind is under way.
      """, run: cancelCommand)

  private static let flush = Command(
    name: "flush", summary: "have it drop kept connections, names and TLS sessions",
    forms: [CommandForm(options: daemon + [json])],
    text: """
      Drops the connections to origins and parents that nobody uses just now, what is known of names, and
      the TLS sessions that could be resumed. Requests under way go on; the next one starts fresh. What
      'cache' stores stays.
      """, run: flushCommand)

  private static let events = Command(
    name: "events", summary: "print what happens in it, as it happens",
    forms: [
      CommandForm(
        options: daemon + [
          CommandOption(name: "kind", value: "KIND,…", summary: "only these, between commas"),
          CommandOption(name: "rule", value: "NAME", summary: "only of requests that this rule decided"),
          CommandOption(name: "user", value: "USER", summary: "only of requests of this user"),
          CommandOption(name: "ref", value: "REF", summary: "only of the exchange with this reference"),
          jsonLines,
        ])
    ],
    text: """
      Prints what happens in the running proxy until it is interrupted. The kinds:
        begun         a request or tunnel has been decided
        progress      how far one is that takes its time
        finished      one is over
        violation     what passed although it violates its rule
        pin-mismatch  a certificate without a pinned key was seen
        wait          a request waits for a path, or goes on
        ask           a request waits for an operator
        answer        an operator, or the end of the time, has answered
        reachability  the network has changed
        reload        the configuration was read again
      """, run: eventsCommand)

  private static let reachability = Command(
    name: "reachability", summary: "show by what kind of link it reaches the network, or a host",
    forms: [
      CommandForm(
        operands: "[HOST]",
        options: [CommandOption(name: "watch", summary: "go on with a line for each change")] + daemon + [
          CommandOption(name: "json", summary: "print JSON: one document, with --watch one a line")
        ])
    ],
    text: """
      Asks the running proxy by what kind of link the machine is reached, which interfaces and routes
      there are, and which of them are passed over; of HOST, by which interface each of its addresses
      is reached. Exits 1 where HOST cannot be reached.
      """, run: reachabilityCommand)

  // MARK: Stored answers

  private static let cacheText = """
    status says how much is stored and how often it was used, list names the answers, show says of one
    URL how old its answers are, until when they are fresh and by whose word. purge removes answers.
    URLs are those that programs asked for, without what a rule adds.
    """

  private static let ofHost = CommandOption(name: "host", value: "HOST", summary: "only answers of this host")
  private static let ofRule = CommandOption(name: "rule", value: "NAME", summary: "only those that this rule stored")

  private static let cacheStatus = Command(
    name: "cache status", summary: "show how much is stored", forms: [CommandForm(options: daemon + [json])],
    text: "Says how much is stored, how often it was used, and for which part of the requests.",
    run: sallyport.cacheStatus)

  private static let cacheList = Command(
    name: "cache list", summary: "list what is stored",
    forms: [CommandForm(options: [ofHost, ofRule] + daemon + [json])],
    text: "Prints a line for each stored answer: status, size, how long it is fresh, and its URL.",
    run: sallyport.cacheList)

  private static let cacheShow = Command(
    name: "cache show", summary: "show what is stored for a URL",
    forms: [CommandForm(operands: "URL", options: daemon + [json])],
    text: """
      Says of each answer that is stored for the URL how old it is, until when it is fresh and by whose
      word, and what it varies with. Exits 1 where nothing is stored.
      """, run: sallyport.cacheShow)

  private static let cachePurge = Command(
    name: "cache purge", summary: "remove what is stored",
    forms: [
      CommandForm(operands: "URL …", options: daemon + [json]),
      CommandForm(
        options: [
          ofHost, ofRule,
          CommandOption(name: "older", value: "DURATION", summary: "only those stored longer ago, such as 7d"),
        ] + daemon + [json]),
      CommandForm(options: [CommandOption(name: "all", summary: "all that is stored")] + daemon + [json]),
    ],
    text: "Removes answers by URL, by host, rule and age, or all, and says how many.", run: sallyport.cachePurge)

  // MARK: The history

  /// The options of commands that read the history, to find it.
  private static let history = [
    CommandOption(
      name: "config", letter: "c", value: "FILE", group: "the history",
      summary: "the configuration whose [history] names the file"),
    CommandOption(name: "file", value: "PATH", group: "the history", summary: "the file of the history"),
  ]
  private static let since = CommandOption(
    name: "since", value: "TIME", summary: "only what ended after it: 7d ago, 2026-11-20, 2026-11-20T07:30 (UTC)")
  private static let ofUser = CommandOption(
    name: "user", value: "USER", repeats: true, summary: "only of this user, by name or number")
  private static let ofUnit = CommandOption(
    name: "unit", value: "UNIT", repeats: true, summary: "only of this systemd unit, or of units in this slice")

  private static let log = Command(
    name: "log", summary: "show what was decided, out of the history",
    forms: [
      CommandForm(
        options: [
          since, CommandOption(name: "until", value: "TIME", summary: "only what ended before it"), ofUser, ofUnit,
          CommandOption(
            name: "program", value: "PROGRAM", repeats: true, summary: "only of this program, by path or last component"
          ),
          CommandOption(
            name: "host", value: "HOST", repeats: true, summary: "only to this host; patterns as in rules: **.a.example"
          ),
          CommandOption(name: "rule", value: "NAME", repeats: true, summary: "only what this rule decided; - is none"),
          CommandOption(name: "denied", summary: "only what was denied"),
          CommandOption(name: "slow", value: "DURATION", summary: "only what took so long"),
          CommandOption(name: "by", value: "WORD,…", summary: "count by these, between commas: host,user"),
          CommandOption(name: "limit", value: "N", summary: "the newest N, or of counts the largest; 0: all"),
          CommandOption(name: "json", summary: "print one JSON object a line"),
          CommandOption(name: "csv", summary: "print comma-separated values"),
        ] + history)
    ],
    text: """
      Shows exchanges of the history, the newest last: when each began, its reference, who asked, the
      status, what was decided and by which rule, how it ended and how long it took. Without --limit a
      table has the newest 200. It reads the file itself, whether the proxy runs or not; root and the
      file's group (sallyport) may.

      --by counts: how many, how many of them refused, bytes from clients and to them, and when the last
      was. WORD is a name of a field of the log (client, user, unit, program, method, host, rule, reason,
      outcome, violation, route, upstream, …), or path, status or day.
      """, run: logCommand)

  private static let learn = Command(
    name: "learn", summary: "write rules that allow what was allowed",
    forms: [
      CommandForm(
        options: [
          since, ofUser, ofUnit,
          CommandOption(
            name: "for", value: "deny-default", choices: ["deny-default"],
            summary: "for a configuration that denies by default, which is the only kind"),
          CommandOption(name: "write", value: "FILE", summary: "into this file, where it is new or learned"),
        ] + history)
    ],
    text: """
      Prints rules out of the history, of the last 7 days without --since, for a configuration with
      default = "deny": for each user and unit the hosts with their ports, methods and shapes of paths,
      with how often and when last. They allow all that was allowed and nothing of what was denied: each
      request of the time is decided by them before they are printed. What was denied follows in comments.

      Numbers, versions, hashes and ids in paths become *, and so do 8 or more names in one place. Hosts
      that differ in a number become a pattern where there are 5 or more. --write replaces only a file
      that learn wrote and nobody changed since.
      """, run: learnCommand)

  private static let replay = Command(
    name: "replay", summary: "say what a configuration would change of the past",
    forms: [
      CommandForm(
        options: [
          CommandOption(name: "config", letter: "c", value: "FILE", summary: "the configuration to try"),
          CommandOption(name: "file", value: "PATH", summary: "the file of the history"), since, ofUser, ofUnit, json,
        ])
    ],
    text: """
      Decides every request of the history again, by the rules of FILE, and prints what comes out
      differently, by rule and by who asked, what would be denied first. The history is that of FILE, or
      of the installed configuration. Nothing changes in the running proxy.

      Exits 1 where a request that was allowed would be denied, 0 where none would.
      """, run: replayCommand)

  // MARK: The program

  private static let versionCommand = Command(
    name: "version", summary: "print the version", forms: [CommandForm(options: [])], text: "Prints the version.",
    run: printVersion)

  private static let helpCommand = Command(
    name: "help", summary: "print this, or more on a command or a key",
    forms: [CommandForm(operands: "[COMMAND|KEY]", options: [json])],
    text: """
      Prints what sallyport or one of its commands does, or what a key or a table of the configuration
      takes, what holds without it and what it is for: sallyport help min_tls, sallyport help
      proxy.limits. With --json, all commands with their options.
      """,
    run: printHelp)
}
