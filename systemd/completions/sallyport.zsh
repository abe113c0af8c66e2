#compdef sallyport
# Completion of sallyport(1) for zsh. Installed as _sallyport.

_sallyport_authority() {
  local line state
  _arguments -C \
    '1:what to do:((init\:"make an authority, or the next one" activate\:"let the next one sign" show\:"say what is there" export\:"print the certificates for programs to trust"))' \
    '*:: :->rest'
  [[ $state == rest ]] || return
  local -a place=(
    '(--config -c)--directory=[directory of the authority]:directory:_directories'
    '(--directory -c)--config=[configuration file]:file:_files -g "*.toml(-.)"'
    '(--directory --config)-c[configuration file]:file:_files -g "*.toml(-.)"'
    '(- *)'{-h,--help}'[print help]'
  )
  case $line[1] in
    init) _arguments '*--permit=[limit what it may sign for]:name, address or block:_hosts' $place ;;
    activate) _arguments '--previous[go back to the authority before]' $place ;;
    show) _arguments '--json[print JSON]' $place ;;
    export)
      _arguments \
        '(--bundle)--format=[form of the certificates]:form:(pem der)' \
        '(--bundle)--only=[one of the authorities]:authority:(active next previous)' \
        '(--format --only)--bundle[behind the anchors of the system]' \
        '--output=[file to write]:file:_files' $place
      ;;
  esac
}

_sallyport_cache() {
  local line state
  _arguments -C \
    '1:what to do:((status\:"say how much is stored" list\:"list what is stored" show\:"show what is stored for a URL" purge\:"remove what is stored"))' \
    '*:: :->rest'
  [[ $state == rest ]] || return
  local -a which=(
    '--host=[only answers of this host]:host:_hosts' '--rule=[only those that this rule stored]:rule:'
  )
  case $line[1] in
    status) _arguments $daemon ;;
    list) _arguments $daemon $which ;;
    show) _arguments $daemon '1:URL:_urls' ;;
    purge)
      _arguments $daemon $which '--older=[only those stored longer ago, such as 7d]:duration:' \
        '--all[all that is stored]' '*:URL:_urls'
      ;;
  esac
}

_sallyport() {
  local curcontext="$curcontext" context line state
  typeset -A opt_args
  local -a commands=(
    'run:start the proxy'
    'check:report everything that is wrong with the configuration'
    'test:check what the configuration says should become of requests'
    'explain:say which rule decides a request, and why'
    'diff:say what two configurations decide differently'
    'config:print the configuration as it is in force'
    'schema:print what a configuration may hold, for editors'
    'pin:show the certificates of a server, and a table of pins to paste'
    'ca:make, show and export the local authority'
    'env:print the variables that point programs at the proxy'
    'status:say how the running daemon is'
    'top:watch what the running daemon does'
    'dashboard:open a view of the running daemon in the browser'
    'reload:have the running daemon read its configuration again'
    'events:print what happens'
    'reachability:say by what kind of link a host is reached'
    'cache:show and purge the answers that are stored'
    'log:show what was decided'
    'learn:write rules that allow what was allowed'
    'replay:say what a configuration would change of the past'
    'asks:show what waits for an operator'
    'allow:say yes to a request that waits'
    'deny:say no to a request that waits'
    'cancel:end requests and tunnels that are under way'
    'flush:drop kept connections, names and TLS sessions'
    'version:print the version'
    'help:print help'
  )

  _arguments -C \
    '(- *)'{-h,--help}'[print help]' \
    '(- *)'{-V,--version}'[print the version]' \
    '1:command:->command' \
    '*:: :->rest' && return

  local -a help=('(- *)'{-h,--help}'[print help]')
  local -a configuration=(
    '(-c)--config=[configuration file]:file:_files -g "*.toml(-.)"'
    '(--config)-c[configuration file]:file:_files -g "*.toml(-.)"'
    $help
  )
  local -a json=('--json[print JSON]')
  local -a place=(
    '(--socket -c)--config=[configuration file]:file:_files -g "*.toml(-.)"'
    '(--socket --config)-c[configuration file]:file:_files -g "*.toml(-.)"'
    '(--config -c)--socket=[socket of the daemon]:socket:_files'
    $help
  )
  local -a daemon=($place $json)
  local -a history=(
    '(-c)--config=[configuration file]:file:_files -g "*.toml(-.)"'
    '(--config)-c[configuration file]:file:_files -g "*.toml(-.)"'
    '--file=[file of the history]:file:_files'
    '--since=[only what ended after it]:time:' '*--user=[only of this user]:user:_users'
    '*--unit=[only of this unit or slice]:unit:' $help
  )
  case $state in
    command) _describe -t commands command commands ;;
    rest)
      curcontext="${curcontext%:*:*}:sallyport-$line[1]:"
      case $line[1] in
        run) _arguments $configuration ;;
        check)
          _arguments $configuration $json '--strict[exit 1 on a warning too]' \
            '1:configuration file:_files -g "*.toml(-.)"'
          ;;
        diff)
          _arguments $json $help '1:configuration before:_files -g "*.toml(-.)"' '2:configuration after:_files -g "*.toml(-.)"'
          ;;
        test | config) _arguments $configuration $json '1:configuration file:_files -g "*.toml(-.)"' ;;
        explain)
          _arguments $daemon \
            '--user=[the local user that asks]:user:_users' \
            '--unit=[the unit that asks]:unit' \
            '--client=[the address that it connects from]:address:' \
            '--proxy-user=[the name that it comes with]:name:' \
            '--program=[the path of the executable that asks]:program:_files' \
            '--when=[the link that the machine leaves by]:kind:(unknown not-reachable wwan wifi wired)' \
            '--absolute[as sent without CONNECT]' \
            '1:method or reference:(GET HEAD POST PUT DELETE OPTIONS PATCH TRACE CONNECT)' \
            '2:URL:_urls'
          ;;
        pin)
          _arguments $json $help \
            '*--file=[certificates, PEM or DER]:file:_files' \
            '--server-name=[the name to ask for]:name:_hosts' \
            '--anchors=[whom to trust]:file:_files' \
            '1:host:_hosts'
          ;;
        ca) _sallyport_authority ;;
        env) _arguments $place '--shell=[language of the lines]:shell:(sh bash zsh fish systemd env-file json)' ;;
        top) _arguments $place '--interval=[ask so often]:duration:' ;;
        dashboard) _arguments $daemon '--no-open[print the link only]' ;;
        status | flush) _arguments $daemon ;;
        reload) _arguments $daemon '--close-denied[end what the new policy denies]' ;;
        asks)
          _arguments $daemon '--watch[print each question and answer]' '--revoke=[end this temporary rule]:number:'
          ;;
        allow | deny)
          _arguments $daemon \
            '(--for --always)--once[as long as the rule remembers it]' \
            '(--once --always)--for=[for this time]:time:(10m 1h 8h 1d)' '(--once --for)--always[as a rule in a file]' \
            '--user=[for this user alone]:user:_users' '--unit=[for this unit alone]:unit:' \
            '--port=[to this port alone]:port:' '--write=[into this file]:file:_files' '1:reference or host:_hosts'
          ;;
        cancel)
          _arguments $daemon \
            '--host=[those to this host]:host:_hosts' '--rule=[those that this rule decided]:rule:' \
            '--user=[those of this user]:user:_users' '1:reference:'
          ;;
        events)
          _arguments $daemon \
            '--rule=[only of this rule]:rule:' '--user=[only of this user]:user:_users' '--ref=[only of this exchange]:reference:' \
            '--kind=[kinds of events]:kind:_sequence compadd - begun progress finished violation pin-mismatch wait ask answer reachability reload'
          ;;
        reachability) _arguments $daemon '--watch[print each change]' '1:host:_hosts' ;;
        cache) _sallyport_cache ;;
        log)
          _arguments $history \
            '--until=[only what ended before it]:time:' '*--program=[only of this program]:program:_files' \
            '*--host=[only to this host]:host:_hosts' '*--rule=[only what this rule decided]:rule:' \
            '--denied[only what was denied]' '--slow=[only what took so long]:duration:' \
            '--by=[count by these]:word:_sequence compadd - host user unit program rule method path status day decision outcome' \
            '--limit=[the newest so many]:number:' '(--csv)--json[print JSON]' '(--json)--csv[print comma-separated values]'
          ;;
        learn)
          _arguments $history '--for=[what the rules are for]:kind:(deny-default)' '--write=[into this file]:file:_files'
          ;;
        replay) _arguments $history $json ;;
        schema | version) [[ $PREFIX == -* ]] && _arguments $help ;;
        help) _arguments $help $json '1:command:->topic' ; [[ $state == topic ]] && _describe -t commands command commands ;;
      esac
      ;;
  esac
}

_sallyport "$@"
