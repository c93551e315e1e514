# shellcheck shell=bash
# Several runs together: median and min-max.

# Reads one number on each line; prints median, least and greatest.
median_and_range() {
    LC_ALL=C sort -g | LC_ALL=C awk '
        { value[NR] = $1 }
        END {
            middle = (NR % 2) ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
            printf "%.10g %.10g %.10g\n", middle, value[1], value[NR]
        }'
}

# Prints the figures of all runs and leaves FOLDER/summary.json and FOLDER/result.json, which is the result of the run with the
# median throughput (of an even number of runs the lower of the middle two).
summarise_runs() { # FOLDER REPEAT
    local number throughputs=() means=() tails=() costs=() calls=() median_run
    for ((number = 1; number <= $2; number++)); do
        read_json "$1/run-$number/result.json" throughput_per_s || fail "$1/run-$number/result.json has no throughput_per_s"
        throughputs+=("$json_value")
        read_json "$1/run-$number/result.json" latency_ms mean || fail "$1/run-$number/result.json has no mean latency"
        means+=("$json_value")
        read_json "$1/run-$number/result.json" latency_ms p99 || fail "$1/run-$number/result.json has no p99 latency"
        tails+=("$json_value")
        # Null if a replica could not be asked; then there is no median of all runs.
        add_number costs "$1/run-$number/result.json" cpu_us_per_transaction
        add_number calls "$1/run-$number/result.json" socket_calls_per_1000_transactions
    done
    median_run=$(for number in "${!throughputs[@]}"; do printf '%s %s\n' "${throughputs[number]}" $((number + 1)); done |
        LC_ALL=C sort -g | sed -n "$((($2 + 1) / 2))s/.* //p")
    cp -- "$1/run-$median_run/result.json" "$1/result.json"

    printf 'of %s runs: median (min-max)\n' "$2"
    printf '{\n  "runs": %s,\n  "median_run": %s' "$2" "$median_run" >"$1/summary.json"
    add_figure "$1" throughput_per_s 'throughput per s' "${throughputs[@]}"
    add_figure "$1" latency_mean_ms 'mean latency, ms' "${means[@]}"
    add_figure "$1" latency_p99_ms 'p99 latency, ms' "${tails[@]}"
    ((${#costs[@]} < $2)) || add_figure "$1" cpu_us_per_transaction 'CPU per txn, µs' "${costs[@]}"
    ((${#calls[@]} < $2)) || add_figure "$1" socket_calls_per_1000_transactions 'calls per 1000 txn' "${calls[@]}"
    printf '\n}\n' >>"$1/summary.json"
}

# Appends the number at KEY to a list, if there is one.
add_number() { # LIST FILE KEY
    local -n list=$1
    if read_json "$2" "$3" && [[ $json_value != null ]]; then
        list+=("$json_value")
    fi
}

add_figure() { # FOLDER KEY LABEL VALUE...
    local folder=$1 key=$2 label=$3 median least greatest
    shift 3
    read -r median least greatest < <(printf '%s\n' "$@" | median_and_range)
    printf '  %-18s %s (%s-%s)\n' "$label" "$median" "$least" "$greatest"
    printf ',\n  "%s": {"median": %s, "min": %s, "max": %s}' "$key" "$median" "$least" "$greatest" >>"$folder/summary.json"
}
