# Completion of sallyport(1) for fish.

# The command and its operands, as far as they stand before the cursor.
function __sallyport_words
    set -l is_value 0
    for word in (commandline -opc)[2..]
        if test $is_value = 1
            set is_value 0
        else if string match -qr -- '^(-c|--(config|socket|anchors|file|output|directory|shell|format|only|kind|user|unit|when|permit|server-name|host|rule|ref|older|since|until|slow|by|limit|program|write|for|interval))$' $word
            set is_value 1
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

# Whether the words begin with those given.
function __sallyport_at
    set -l words (__sallyport_words)
    test (count $words) -ge (count $argv); and test "$words[1..$(count $argv)]" = "$argv"
end

# Whether the words are those given, and nothing else stands there yet.
function __sallyport_behind
    set -l words (__sallyport_words)
    test (count $words) -eq (count $argv); and test "$words" = "$argv"
end

# Whether the command is one of those given.
function __sallyport_in
    set -l words (__sallyport_words)
    contains -- "$words[1]" $argv
end

function __sallyport_commands
    printf '%s\t%s\n' \
        run 'Start the proxy' \
        check 'Report everything that is wrong with the configuration' \
        test 'Check what the configuration says should become of requests' \
        explain 'Say which rule decides a request, and why' \
        diff 'Say what two configurations decide differently' \
        config 'Print the configuration as it is in force' \
        schema 'Print what a configuration may hold, for editors' \
        pin 'Show the certificates of a server, and pins to paste' \
        ca 'Make, show and export the local authority' \
        env 'Print the variables that point programs at the proxy' \
        status 'Say how the running daemon is' \
        top 'Watch what the running daemon does' \
        dashboard 'Open a view of the running daemon in the browser' \
        reload 'Have the running daemon read its configuration again' \
        events 'Print what happens' \
        reachability 'Say by what kind of link a host is reached' \
        cache 'Show and purge the answers that are stored' \
        log 'Show what was decided' \
        learn 'Write rules that allow what was allowed' \
        replay 'Say what a configuration would change of the past' \
        asks 'Show what waits for an operator' \
        allow 'Say yes to a request that waits' \
        deny 'Say no to a request that waits' \
        cancel 'End requests and tunnels that are under way' \
        flush 'Drop kept connections, names and TLS sessions' \
        version 'Print the version' \
        help 'Print help'
end

complete -c sallyport -f
complete -c sallyport -n __sallyport_behind -s h -l help -d 'Print help'
complete -c sallyport -n __sallyport_behind -s V -l version -d 'Print the version'
complete -c sallyport -n __sallyport_behind -a '(__sallyport_commands)'
complete -c sallyport -n '__sallyport_behind help' -a '(__sallyport_commands)'

# Options that several commands have.
complete -c sallyport -n 'not __sallyport_behind' -s h -l help -d 'Print help on the command'
complete -c sallyport -n '__sallyport_in run check test explain config ca env status top dashboard reload events reachability cache log learn replay asks allow deny cancel flush' -s c -l config -r -F -d 'Configuration file'
complete -c sallyport -n '__sallyport_in explain env status top dashboard reload events reachability cache asks allow deny cancel flush' -l socket -r -F -d 'Socket of the daemon'
complete -c sallyport -n '__sallyport_in check test explain diff config pin status dashboard reload events reachability cache log replay asks allow deny cancel flush help' -l json -d 'Print JSON'

complete -c sallyport -n '__sallyport_behind check' -F
complete -c sallyport -n '__sallyport_behind test' -F
complete -c sallyport -n '__sallyport_behind config' -F
complete -c sallyport -n '__sallyport_in diff' -F
complete -c sallyport -n '__sallyport_in check' -l strict -d 'Exit 1 on a warning too'

complete -c sallyport -n '__sallyport_behind explain' -a 'GET HEAD POST PUT DELETE OPTIONS PATCH TRACE CONNECT'
complete -c sallyport -n '__sallyport_in explain' -l user -x -a '(__fish_complete_users)' -d 'The local user that asks'
complete -c sallyport -n '__sallyport_in explain' -l unit -x -d 'The unit that asks'
complete -c sallyport -n '__sallyport_in explain' -l client -x -d 'The address that it connects from'
complete -c sallyport -n '__sallyport_in explain' -l proxy-user -x -d 'The name that it comes with'
complete -c sallyport -n '__sallyport_in explain' -l program -r -F -d 'The path of the executable that asks'
complete -c sallyport -n '__sallyport_in explain' -l when -x -a 'unknown not-reachable wwan wifi wired' -d 'The link that the machine leaves by'

complete -c sallyport -n '__sallyport_behind pin' -a '(__fish_print_hostnames)'
complete -c sallyport -n '__sallyport_in pin' -l file -r -F -d 'Certificates, PEM or DER'
complete -c sallyport -n '__sallyport_in pin' -l server-name -x -a '(__fish_print_hostnames)' -d 'The name to ask for'
complete -c sallyport -n '__sallyport_in pin' -l anchors -r -F -d 'Whom to trust'

complete -c sallyport -n '__sallyport_behind ca' -a init -d 'Make an authority, or the next one'
complete -c sallyport -n '__sallyport_behind ca' -a activate -d 'Let the next one sign'
complete -c sallyport -n '__sallyport_behind ca' -a show -d 'Say what is there'
complete -c sallyport -n '__sallyport_behind ca' -a export -d 'Print the certificates for programs to trust'
complete -c sallyport -n '__sallyport_in ca' -l directory -x -a '(__fish_complete_directories)' -d 'Directory of the authority'
complete -c sallyport -n '__sallyport_at ca init' -l permit -x -d 'Limit what it may sign for'
complete -c sallyport -n '__sallyport_at ca activate' -l previous -d 'Go back to the authority before'
complete -c sallyport -n '__sallyport_at ca show' -l json -d 'Print JSON'
complete -c sallyport -n '__sallyport_at ca export' -l format -x -a 'pem der' -d 'Form of the certificates'
complete -c sallyport -n '__sallyport_at ca export' -l only -x -a 'active next previous' -d 'One of the authorities'
complete -c sallyport -n '__sallyport_at ca export' -l bundle -d 'Behind the anchors of the system'
complete -c sallyport -n '__sallyport_at ca export' -l output -r -F -d 'File to write'

complete -c sallyport -n '__sallyport_in env' -l shell -x -a 'sh bash zsh fish systemd env-file json' -d 'Language of the lines'

complete -c sallyport -n '__sallyport_in top' -l interval -x -d 'Ask so often: 500ms, 2s'
complete -c sallyport -n '__sallyport_in explain' -l absolute -d 'As sent without CONNECT'
complete -c sallyport -n '__sallyport_in events' -l rule -x -d 'Only of this rule'
complete -c sallyport -n '__sallyport_in events' -l user -x -a '(__fish_complete_users)' -d 'Only of this user'
complete -c sallyport -n '__sallyport_in events' -l ref -x -d 'Only of this exchange'
complete -c sallyport -n '__sallyport_in events' -l kind -x -a '(__fish_append , begun progress finished violation pin-mismatch wait ask answer reachability reload)' -d 'Kinds of events'
complete -c sallyport -n '__sallyport_in dashboard' -l no-open -d 'Print the link only'

complete -c sallyport -n '__sallyport_in reload' -l close-denied -d 'End what the new policy denies'

complete -c sallyport -n '__sallyport_in asks' -l watch -d 'Print each question and answer'
complete -c sallyport -n '__sallyport_in asks' -l revoke -x -d 'End this temporary rule'
complete -c sallyport -n '__sallyport_behind allow deny' -a '(__fish_print_hostnames)'
complete -c sallyport -n '__sallyport_in allow deny' -l once -d 'As long as the rule remembers it'
complete -c sallyport -n '__sallyport_in allow deny' -l for -x -a '10m 1h 8h 1d' -d 'For this time'
complete -c sallyport -n '__sallyport_in allow deny' -l always -d 'As a rule in a file'
complete -c sallyport -n '__sallyport_in allow deny' -l user -x -a '(__fish_complete_users)' -d 'For this user alone'
complete -c sallyport -n '__sallyport_in allow deny' -l unit -x -d 'For this unit alone'
complete -c sallyport -n '__sallyport_in allow deny' -l port -x -d 'To this port alone'
complete -c sallyport -n '__sallyport_in allow deny' -l write -r -F -d 'Into this file'

complete -c sallyport -n '__sallyport_in cancel' -l host -x -a '(__fish_print_hostnames)' -d 'Those to this host'
complete -c sallyport -n '__sallyport_in cancel' -l rule -x -d 'Those that this rule decided'
complete -c sallyport -n '__sallyport_in cancel' -l user -x -a '(__fish_complete_users)' -d 'Those of this user'

complete -c sallyport -n '__sallyport_behind reachability' -a '(__fish_print_hostnames)'
complete -c sallyport -n '__sallyport_in reachability' -l watch -d 'Print each change'

complete -c sallyport -n '__sallyport_behind cache' -a status -d 'Say how much is stored'
complete -c sallyport -n '__sallyport_behind cache' -a list -d 'List what is stored'
complete -c sallyport -n '__sallyport_behind cache' -a show -d 'Show what is stored for a URL'
complete -c sallyport -n '__sallyport_behind cache' -a purge -d 'Remove what is stored'
for command in list purge
    complete -c sallyport -n "__sallyport_at cache $command" -l host -x -a '(__fish_print_hostnames)' -d 'Only answers of this host'
    complete -c sallyport -n "__sallyport_at cache $command" -l rule -x -d 'Only those that this rule stored'
end
complete -c sallyport -n '__sallyport_at cache purge' -l older -x -d 'Only those stored longer ago, such as 7d'
complete -c sallyport -n '__sallyport_at cache purge' -l all -d 'All that is stored'

# The history.
complete -c sallyport -n '__sallyport_in log learn replay' -l file -r -F -d 'File of the history'
complete -c sallyport -n '__sallyport_in log learn replay' -l since -x -d 'Only what ended after it: 7d, 2026-11-20'
complete -c sallyport -n '__sallyport_in log' -l until -x -d 'Only what ended before it'
complete -c sallyport -n '__sallyport_in log learn replay' -l user -x -a '(__fish_complete_users)' -d 'Only of this user'
complete -c sallyport -n '__sallyport_in log learn replay' -l unit -x -d 'Only of this unit or slice'
complete -c sallyport -n '__sallyport_in log' -l program -r -F -d 'Only of this program'
complete -c sallyport -n '__sallyport_in log' -l host -x -a '(__fish_print_hostnames)' -d 'Only to this host'
complete -c sallyport -n '__sallyport_in log' -l rule -x -d 'Only what this rule decided'
complete -c sallyport -n '__sallyport_in log' -l denied -d 'Only what was denied'
complete -c sallyport -n '__sallyport_in log' -l slow -x -d 'Only what took so long'
complete -c sallyport -n '__sallyport_in log' -l by -x -a 'host user unit program rule path status day' -d 'Count by these'
complete -c sallyport -n '__sallyport_in log' -l limit -x -d 'The newest so many'
complete -c sallyport -n '__sallyport_in log' -l csv -d 'Print comma-separated values'
complete -c sallyport -n '__sallyport_in learn' -l for -x -a deny-default -d 'What the rules are for'
complete -c sallyport -n '__sallyport_in learn' -l write -r -F -d 'Into this file'
