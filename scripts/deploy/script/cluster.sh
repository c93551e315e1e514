# shellcheck shell=bash
# A cluster of replica processes on this machine: made in a folder, started, watched and stopped.

replica_stop_s=15 # SIGTERM is a bounded hand-over; past this a replica is killed

# Writes FOLDER/cluster.json and reads the replicas from it.
write_cluster_file() { # FOLDER
    local hosts base=() status=0
    hosts=$(IFS=,; printf '%s' "${replica_hosts[*]}")
    [[ -z $base_port ]] || base=(--base-port "$base_port")
    rm -f -- "$1/cluster.json" # of an attempt whose ports were taken
    "$quorate" config new --template "$template_file" --hosts "$hosts" --ports "$ports" \
        ${base[@]+"${base[@]}"} --out "$1/cluster.json" >"$1/config-new.log" || status=$?
    case $status in
        0) ;;
        1 | 2) exit "$status" ;; # the binary has said what is wrong
        *) fail "config new ended with $(describe_exit_status "$status")" ;;
    esac
    read_replicas "$1/cluster.json"
    note "cluster of ${#replica_ids[@]}: ports from ${replica_ports[0]%% *} on; settings and notes on them are in $1/config-new.log"
    if read_json "$1/cluster.json" recovery_enabled && [[ $json_value == false ]]; then
        note "not durable: recovery_enabled is false in $template_file, everything is held in memory only"
    fi
}

# Starts a cluster and waits until it serves. Somebody may take a port between the look for free ones and the start of the replicas; if
# the ports were ours to choose, others are chosen then.
start_cluster() { # FOLDER
    local attempt
    for ((attempt = 1; attempt <= 5; attempt++)); do
        may_choose_again=0
        [[ $ports != free ]] || ((attempt == 5)) || may_choose_again=1
        write_cluster_file "$1"
        # Free ports were just tried by config new, which names a busy one better.
        [[ $ports == free ]] || require_free_ports
        start_replicas "$1"
        if wait_for_cluster "$1" "$cluster_ready_s"; then
            may_choose_again=0
            return
        fi
        note "somebody else has taken a port meanwhile: trying others"
        sleep "0.$((RANDOM % 10))" || true # two scripts that stumble over each other must not do so again
    done
}

# Whether a replica has ended because its port was taken after it was found free.
has_lost_a_port() {
    local place
    find_running "${replica_processes[@]}"
    for place in "${!replica_processes[@]}"; do
        [[ $running_processes != *" ${replica_processes[place]} "* ]] || continue
        if tail -n 1 -- "${replica_logs[place]}" | grep -q '^error: port .* cannot be used on '; then
            return 0
        fi
    done
    return 1
}

# A first look that can name the port; whoever takes a port after it is found when the replica can not bind.
require_free_ports() {
    local place port
    for place in "${!replica_ids[@]}"; do
        for port in ${replica_ports[place]}; do
            if port_answers "${replica_addresses[place]}" "$port"; then
                fail "port $port of replica ${replica_ids[place]} (${replica_addresses[place]}) is in use: stop what listens there, or choose other ports with --base-port"
            fi
        done
    done
}

port_answers() { # HOST PORT
    (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null
}

start_replicas() { # FOLDER
    local id home
    replica_processes=() replica_logs=()
    for id in "${replica_ids[@]}"; do
        home=$1/replica-$id
        mkdir -p -- "$home/data"
        if ! "$quorate" init --bootstrap --config "$1/cluster.json" --id "$id" --data-dir "$home/data" >"$home/init.log" 2>&1; then
            note "error: the data directory of replica $id could not be made"
            show_log_end "$home/init.log"
            exit 1
        fi
        start_process "$home/replica.out" "$home/replica.log" \
            "$quorate" serve --config "$1/cluster.json" --id "$id" --data-dir "$home/data"
        replica_processes+=("$started_process")
        replica_logs+=("$home/replica.log")
        printf '%s\n' "$started_process" >"$home/replica.pid" || fail "$home/replica.pid could not be written"
    done
}

# Ends the script if a replica has ended by itself.
require_living_replicas() { # WHEN
    local place process dead=0
    find_running "${replica_processes[@]}"
    for place in "${!replica_processes[@]}"; do
        process=${replica_processes[place]}
        [[ $running_processes != *" $process "* ]] || continue
        read_exit_status "$process"
        note "error: replica ${replica_ids[place]} ended $1 with $(describe_exit_status "$exit_status")"
        show_log_end "${replica_logs[place]}"
        dead=1
    done
    ((dead == 0)) || exit 1
}

# Waits for processes while the replicas are watched; fails with 1 if one still runs after LIMIT_S seconds, and with 2 if a replica lost
# its port and others may be chosen.
watch_until_end() { # WHEN LIMIT_S PID...
    local when=$1 deadline=$((SECONDS + $2))
    shift 2
    while find_running "$@" && [[ $running_processes != ' ' ]]; do
        if ((may_choose_again)) && has_lost_a_port; then
            return 2
        fi
        require_living_replicas "$when"
        ((SECONDS <= deadline)) || return 1
        sleep 0.5 || true # rarely, because it takes processor time from what is measured; a signal may cut it short
    done
    require_living_replicas "$when"
}

# Fails if a replica lost its port and others may be chosen; then nothing of the cluster is left running.
wait_for_cluster() { # FOLDER LIMIT_S
    note "waiting for ${#replica_ids[@]} replicas"
    start_process "$1/cluster-wait.log" - "$quorate" cluster wait --config "$1/cluster.json" --timeout-s "$2"
    local waiting=$started_process place watched=0
    watch_until_end 'before the cluster was ready' $(($2 + 10)) "$waiting" || watched=$?
    case $watched in
        1) fail "cluster wait did not end within its own limit of $2 s" ;;
        2)
            stop_processes 2 "$waiting" "${replica_processes[@]}"
            replica_processes=()
            return 1 ;;
    esac
    read_exit_status "$waiting"
    if ((exit_status != 0)); then
        note "error: the cluster was not ready within $2 s"
        for place in "${!replica_logs[@]}"; do
            show_log_end "${replica_logs[place]}" 5
        done
        exit 1
    fi
}

# A replica that does not end cleanly at SIGTERM is a failure, also after a good result.
stop_replicas() {
    local place process unclean=0
    require_living_replicas 'at the end of the run'
    stop_processes "$replica_stop_s" "${replica_processes[@]}"
    for place in "${!replica_processes[@]}"; do
        process=${replica_processes[place]}
        read_exit_status "$process"
        ((exit_status != 0)) || continue
        if [[ $killed_processes == *" $process "* ]]; then
            note "error: replica ${replica_ids[place]} did not stop within $replica_stop_s s of SIGTERM and was killed"
        else
            note "error: replica ${replica_ids[place]} stopped with $(describe_exit_status "$exit_status") at SIGTERM"
        fi
        show_log_end "${replica_logs[place]}"
        unclean=1
    done
    replica_processes=()
    ((unclean == 0)) || exit 1
}
