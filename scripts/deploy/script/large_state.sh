# shellcheck shell=bash
# A replica that lags is brought back with a large snapshot, under load. Wants local_performance.sh, and a cluster that is started.

# Sets leader_place and follower_place, which index the replica arrays.
choose_follower() {
    local leader place
    "$quorate" cluster status --config "$run_folder/cluster.json" --output json >"$run_folder/status.json" ||
        fail "cluster status failed before anything was measured"
    read_json "$run_folder/status.json" leader || fail "$run_folder/status.json names no leader"
    leader=$json_value
    for place in "${!replica_ids[@]}"; do
        [[ ${replica_ids[place]} == "$leader" ]] || follower_place=$place
        [[ ${replica_ids[place]} != "$leader" ]] || leader_place=$place
    done
}

# The follower leaves the list of those that are watched while it is meant to be down.
stop_follower() {
    local process=${replica_processes[follower_place]}
    follower=${replica_ids[follower_place]}
    note "stopping follower $follower; replica ${replica_ids[leader_place]} leads"
    stop_processes "$replica_stop_s" "$process"
    read_exit_status "$process"
    ((exit_status == 0)) || fail "replica $follower stopped with $(describe_exit_status "$exit_status") at SIGTERM"
    unset 'replica_processes[follower_place]'
}

start_follower() {
    local home=$run_folder/replica-$follower
    start_process "$home/replica-again.out" "$home/replica-again.log" \
        "$quorate" serve --config "$run_folder/cluster.json" --id "$follower" --data-dir "$home/data"
    replica_processes[follower_place]=$started_process
    replica_logs[follower_place]=$home/replica-again.log
    printf '%s\n' "$started_process" >"$home/replica.pid"
}

# Starts a load of single writes; leaves NAME.txt and NAME.json in the run folder.
start_writes() { # NAME ARGUMENT...
    local name=$1
    shift
    start_process "$run_folder/$name.txt" "$run_folder/$name.log" \
        "$quorate" perf load --cluster "$run_folder/cluster.json" --json "$run_folder/$name.json" --batch 1 "$@"
    load_processes=("$started_process")
}

# Waits for the load; sets exit_status to 0 or 3, or ends the script.
end_writes() { # NAME LIMIT_S
    watch_until_end "during '$1'" "$2" "${load_processes[@]}" || fail "the load '$1' did not end within $2 s"
    read_exit_status "${load_processes[0]}"
    load_processes=()
    case $exit_status in
        0 | 3) ;;
        2) show_log_end "$run_folder/$1.log"; exit 2 ;;
        *)
            show_log_end "$run_folder/$1.log"
            fail "the load '$1' failed with $(describe_exit_status "$exit_status")" ;;
    esac
}

# Writes large values under ever new keys until there is enough. Whether these runs are valid is of no interest: what counts is what was
# accepted.
fill_state() {
    local wanted=$((state_mib * 1048576 / value_size)) written=0 number=0 began=$SECONDS piece_s=$((state_mib < 512 ? 1 : 3))
    note "filling: $wanted values of $value_size bytes"
    while ((written < wanted)); do
        number=$((number + 1))
        ((SECONDS - began < 3600)) || fail "the state could not be filled within an hour"
        start_writes "fill-$number" --keys 100000000 --value-size "$value_size" --window 16 --connections 2 --seed "$number" \
            --warm-up 0 --duration "$piece_s" --deadline-ms 60000 --expect-down "$follower"
        end_writes "fill-$number" 120
        read_json "$run_folder/fill-$number.json" accepted || fail "$run_folder/fill-$number.json does not say what was accepted"
        ((json_value > 0)) || fail "no value was accepted in $piece_s s"
        written=$((written + json_value))
    done
    filled=$written fill_s=$((SECONDS - began))
    note "filled with $filled values in $fill_s s; resting for $settle_s s"
    sleep "$settle_s"
}

rate_of_writes() {
    writes=(--keys 10000 --value-size 100 --window 1024 --connections 4 --rate "$rate")
}

measure_before() {
    local writes
    rate_of_writes
    note "measuring $rate writes/s for $before_s s without follower $follower"
    start_writes before "${writes[@]}" --warm-up 1 --duration "$before_s" --expect-down "$follower"
    end_writes before $((before_s + 60))
    ((exit_status == 0)) || worst_status=3
}

# Sets status_text to what a replica says of itself; fails if it does not answer.
read_status() { # PLACE
    local both
    read -ra both <<<"${replica_ports[$1]}"
    exec 4<>"/dev/tcp/${replica_addresses[$1]}/${both[1]}" || return 1
    printf 'GET /status HTTP/1.0\r\n\r\n' >&4
    status_text=$(timeout 2 cat <&4) || true
    exec 4>&-
    [[ $status_text == *'"snapshots"'* ]]
} 2>/dev/null

# Sets memory_kib to the anonymous resident memory of a process, and fails if it has none any more. Read in one go: the text changes
# while it is read line by line.
read_memory() { # PID
    local text
    text=$(<"/proc/$1/status") || return 1
    [[ $text =~ RssAnon:[[:space:]]*([0-9]+) ]] || return 1
    memory_kib=${BASH_REMATCH[1]}
} 2>/dev/null

# Takes a look at the memory of a replica: the first one is what later ones are held against.
look_at_memory() { # PLACE...
    local place
    for place in "$@"; do
        read_memory "${replica_processes[place]}" || fail "replica ${replica_ids[place]} is gone"
        printf '%s %s %s\n' "$EPOCHREALTIME" "${replica_ids[place]}" "$memory_kib" >&5
        [[ -n ${memory_before[place]:-} ]] || memory_before[place]=$memory_kib memory_peak[place]=$memory_kib
        ((memory_kib <= memory_peak[place])) || memory_peak[place]=$memory_kib
    done
}

# Sets began_us when the follower says that it fetches, and ended_us when it has installed.
look_at_transfer() {
    local fetching='"fetching" *: *([0-9]+)' installed='"installed" *: *([0-9]+)'
    read_status "$follower_place" || return 0
    if [[ -z $began_us && $status_text =~ $fetching ]] && ((BASH_REMATCH[1] > 0)); then
        began_us=${EPOCHREALTIME/[.,]/}
    fi
    if [[ $status_text =~ $installed ]] && ((BASH_REMATCH[1] > 0)); then
        ended_us=${EPOCHREALTIME/[.,]/}
        [[ -n $began_us ]] || fail "the snapshot was installed between two looks: the state is too small to measure"
    fi
}

# Sets transfer_ms and return_ms, and memory_before and memory_peak by place.
measure_transfer() {
    local writes started_us began_us='' ended_us='' deadline
    memory_before=() memory_peak=()
    rate_of_writes
    note "starting follower $follower under $rate writes/s"
    exec 5>"$run_folder/memory.txt"
    look_at_memory "$leader_place" # before it makes the snapshot
    start_follower
    started_us=${EPOCHREALTIME/[.,]/}
    deadline=$((SECONDS + 60))
    until read_status "$follower_place"; do
        require_living_replicas 'while the follower started'
        ((SECONDS < deadline)) || fail "the follower did not answer within a minute of its start"
        sleep 0.02
    done
    look_at_memory "$follower_place"
    start_writes during "${writes[@]}" --warm-up 0 --duration $((limit_s + 60))
    deadline=$((SECONDS + limit_s))
    while [[ -z $ended_us ]]; do
        look_at_transfer
        look_at_memory "$leader_place" "$follower_place"
        require_living_replicas 'during the transfer'
        find_running "${load_processes[@]}"
        if [[ $running_processes == ' ' ]]; then
            show_log_end "$run_folder/during.log"
            fail "the load ended before the transfer did"
        fi
        ((SECONDS < deadline)) || fail "the follower has not installed a snapshot within $limit_s s, see $run_folder/replica-$follower"
        sleep 0.05
    done
    transfer_ms=$(((ended_us - began_us) / 1000)) return_ms=$(((ended_us - started_us) / 1000))
    signal_running INT "${load_processes[@]}"
    end_writes during 60
    require_valid_but_for_its_end "$run_folder/during.json"
    look_at_memory "$leader_place" "$follower_place"
    exec 5>&-
    read_status "$follower_place" || fail "the follower does not answer any more"
    local bytes='"snapshots" *: *\{[^{}]*"bytes" *: *([0-9]+)'
    [[ $status_text =~ $bytes ]] || fail "the follower does not say how large its snapshot is"
    snapshot_bytes=${BASH_REMATCH[1]}
}

# The load is ended when the transfer is, which alone does not make its result one that may not be quoted.
require_valid_but_for_its_end() { # RESULT_FILE
    local reasons early='^[[:space:]]*"ended early[^"]*"[[:space:]]*$'
    reasons=$(<"$1")
    [[ $reasons =~ \"invalid_because\"[[:space:]]*:[[:space:]]*\[([^]]*)\] ]] || fail "$1 does not say whether it is valid"
    reasons=${BASH_REMATCH[1]}
    if [[ -n ${reasons//[[:space:]]/} && ! $reasons =~ $early ]]; then
        note "not valid: $reasons"
        worst_status=3
    fi
}

# A row of the table of latencies.
show_latency() { # NAME
    local key figures=()
    for key in p50 p99 p99_9 max; do
        read_json "$run_folder/$1.json" latency_ms "$key" || fail "$run_folder/$1.json has no latency $key"
        figures+=("$json_value")
    done
    printf '| %-6s | %10s | %10s | %10s | %10s |\n' "$1" "${figures[@]}"
}

# A row of the table of memory; marks what is more than allowed.
show_memory() { # NAME PLACE
    local before=$((memory_before[$2] / 1024)) extra=$(((memory_peak[$2] - memory_before[$2] + 1023) / 1024))
    printf '| %-8s | %10s | %10s | %10s |\n' "$1" "$before" "$((memory_peak[$2] / 1024))" "$extra"
}

takes_too_much_memory() {
    local place
    for place in "$leader_place" "$follower_place"; do
        ((memory_peak[place] - memory_before[place] <= memory_mib * 1024)) || return 0
    done
    return 1
}

seconds() { # MILLISECONDS
    printf '%s.%03d' $(($1 / 1000)) $(($1 % 1000))
}

report_large_state() {
    printf 'state                %s values of %s bytes (%s MiB), store %s, filled in %s s\n' \
        "$filled" "$value_size" $((filled * value_size / 1048576)) "$store" "$fill_s"
    printf 'snapshot             %s MiB, fetched and installed in %s s, %s s after the start of the follower\n\n' \
        $((snapshot_bytes / 1048576)) "$(seconds "$transfer_ms")" "$(seconds "$return_ms")"
    printf 'latency of %s writes/s of 100 bytes, ms\n\n' "$rate"
    printf '| %-6s | %10s | %10s | %10s | %10s |\n' '' p50 p99 p99.9 max
    printf '|%s|%s|%s|%s|%s|\n' -------- -----------: -----------: -----------: -----------:
    show_latency before
    show_latency during
    printf '\nanonymous memory, MiB\n\n'
    printf '| %-8s | %10s | %10s | %10s |\n' '' before peak extra
    printf '|%s|%s|%s|%s|\n' ---------- -----------: -----------: -----------:
    show_memory leader "$leader_place"
    show_memory follower "$follower_place"
    printf '\n'
    write_large_state_result
}

write_large_state_result() {
    printf '{"experiment": "large_state", "store": "%s", "value_size_bytes": %s, "values": %s, "rate_per_s": %s, "transfer_ms": %s, "return_ms": %s, ' \
        "$store" "$value_size" "$filled" "$rate" "$transfer_ms" "$return_ms"
    printf '"snapshot_bytes": %s, ' "$snapshot_bytes"
    printf '"leader_anonymous_kib": {"before": %s, "peak": %s}, ' "${memory_before[leader_place]}" "${memory_peak[leader_place]}"
    printf '"follower_anonymous_kib": {"before": %s, "peak": %s}}\n' "${memory_before[follower_place]}" "${memory_peak[follower_place]}"
} >"$run_folder/result.json"
