# Completion of sallyport(1) for bash. Needs nothing but bash: it does without the functions of bash-completion.

# Adds the words that begin with what stands before the cursor.
__sallyport_words() {
    local word
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$1" -- "$current")
}

__sallyport_files() {
    local path
    compopt -o filenames 2>/dev/null
    while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -f -- "$current")
}

# Of an option, what its value may be; fails for an option that takes none.
__sallyport_value() {
    case $1 in
        -c | --config | --anchors | --file | --output | --socket | --write) __sallyport_files ;;
        --directory)
            compopt -o filenames 2>/dev/null
            local path
            while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -d -- "$current")
            ;;
        --shell) __sallyport_words "sh bash zsh fish systemd env-file json" ;;
        --for) if [[ $command == learn ]]; then __sallyport_words "deny-default"; fi ;; # elsewhere a time
        --format) __sallyport_words "pem der" ;;
        --only) __sallyport_words "active next previous" ;;
        --kind)
            # What stands before the last comma stays.
            local list=""
            if [[ $current == *,* ]]; then list=${current%,*},; fi
            local kind
            for kind in begun progress finished violation pin-mismatch wait ask answer reachability reload; do
                __sallyport_words "$list$kind"
            done
            ;;
        --by)
            local before=""
            if [[ $current == *,* ]]; then before=${current%,*},; fi
            local name
            for name in client user unit program proxy_user method scheme host port link protocol rule place decision \
                reason outcome violation report route upstream assurance cache path status day; do
                __sallyport_words "$before$name"
            done
            ;;
        --when) __sallyport_words "unknown not-reachable wwan wifi wired" ;;
        --user) __sallyport_words "$(compgen -u)" ;;
        --unit | --client | --proxy-user | --permit | --server-name | --host | --older | --rule | --ref | --since | --until | --slow | --limit | --interval) ;;
        --program) __sallyport_files ;;
        *) return 1 ;;
    esac
}

__sallyport_options() {
    case $1 in
        run) echo "--config --help" ;;
        check) echo "--config --strict --json --help" ;;
        diff) echo "--json --help" ;;
        schema) echo "--help" ;;
        config | test) echo "--config --json --help" ;;
        explain) echo "--config --socket --user --unit --client --proxy-user --program --when --absolute --json --help" ;;
        pin) echo "--file --server-name --anchors --json --help" ;;
        ca) echo "--help" ;;
        "ca init") echo "--permit --directory --config --help" ;;
        "ca activate") echo "--previous --directory --config --help" ;;
        "ca show") echo "--json --directory --config --help" ;;
        "ca export") echo "--format --only --bundle --output --directory --config --help" ;;
        env) echo "--config --socket --shell --help" ;;
        cancel) echo "--host --rule --user --config --socket --json --help" ;;
        dashboard) echo "--no-open --config --socket --json --help" ;;
        asks) echo "--watch --revoke --config --socket --json --help" ;;
        allow | deny) echo "--once --for --always --user --unit --port --write --config --socket --json --help" ;;
        reload) echo "--close-denied --config --socket --json --help" ;;
        top) echo "--config --socket --interval --help" ;;
        status | flush) echo "--config --socket --json --help" ;;
        events) echo "--config --socket --kind --rule --user --ref --json --help" ;;
        reachability) echo "--config --socket --watch --json --help" ;;
        cache) echo "--help" ;;
        "cache status" | "cache show") echo "--config --socket --json --help" ;;
        "cache list") echo "--host --rule --config --socket --json --help" ;;
        "cache purge") echo "--host --rule --older --all --config --socket --json --help" ;;
        log) echo "--since --until --user --unit --program --host --rule --denied --slow --by --limit --json --csv --config --file --help" ;;
        learn) echo "--since --user --unit --for --write --config --file --help" ;;
        replay) echo "--config --file --since --user --unit --json --help" ;;
        version) echo "--help" ;;
        help) echo "--json --help" ;;
    esac
}

__sallyport() {
    local commands="run check test explain diff config schema pin ca env status top dashboard reload events reachability cache log learn replay asks allow deny cancel flush version help"
    local current="${COMP_WORDS[COMP_CWORD]}" previous="" command="" index operands=0
    COMPREPLY=()

    # bash takes '=' for a word of its own: --shell=fi is three.
    local words=() word
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if [[ $word == = && ${#words[@]} -gt 0 ]]; then continue; fi
        words+=("$word")
    done
    if [[ $current == = ]]; then current=""; fi
    if [[ ${#words[@]} -gt 0 ]]; then previous=${words[${#words[@]} - 1]}; fi

    # The command, and how many operands stand behind it.
    local skip=0
    for word in "${words[@]}"; do
        if [[ $skip == 1 ]]; then
            skip=0
        elif [[ $word == -* ]]; then
            case $word in
                -c | --config | --anchors | --file | --output | --socket | --directory | --shell | --format | --only | \
                    --kind | --when | --user | --unit | --client | --proxy-user | --permit | --server-name | --host | --older | --rule | --ref | \
                    --since | --until | --slow | --by | --limit | --program | --write | --for | --interval) skip=1 ;;
            esac
        elif [[ -z $command ]]; then
            command=$word
        elif [[ $command == ca || $command == cache ]]; then
            command="$command $word"
        else
            operands=$((operands + 1))
        fi
    done

    if [[ $skip == 1 ]] && __sallyport_value "$previous"; then return; fi
    if [[ -z $command ]]; then
        if [[ $current == -* ]]; then __sallyport_words "--help --version"; else __sallyport_words "$commands"; fi
        return
    fi
    if [[ $current == -* ]]; then
        __sallyport_words "$(__sallyport_options "$command")"
        return
    fi
    case $command in
        ca) __sallyport_words "init activate show export" ;;
        cache) __sallyport_words "status list show purge" ;;
        diff) if [[ $operands -lt 2 ]]; then __sallyport_files; fi ;;
        check | test | config) if [[ $operands == 0 ]]; then __sallyport_files; fi ;;
        help) if [[ $operands == 0 ]]; then __sallyport_words "$commands"; fi ;;
        explain)
            if [[ $operands == 0 ]]; then
                __sallyport_words "GET HEAD POST PUT DELETE OPTIONS PATCH TRACE CONNECT"
            fi
            ;;
        pin | reachability) if [[ $operands == 0 ]]; then __sallyport_words "$(compgen -A hostname)"; fi ;;
    esac
}

complete -F __sallyport sallyport
