# shellcheck shell=bash
# The load clients: one or several perf load processes whose results make one.

# Takes --window, --rate and --warm-up out of load_options: the first two are totals that are split over the clients.
read_load_options() {
    local option value rest=("${load_options[@]+"${load_options[@]}"}")
    window_total='' rate_total='' warm_up_s='' plain_load_options=()
    set -- ${rest[@]+"${rest[@]}"}
    while (($# > 0)); do
        option=${1%%=*}
        case $option in
            --window | --rate | --warm-up)
                if [[ $1 == *=* ]]; then
                    value=${1#*=}
                    shift
                else
                    (($# > 1)) || bad_input "$1 after -- needs a value"
                    value=$2
                    shift 2
                fi
                set_load_option "$option" "$value" ;;
            *) plain_load_options+=("$1"); shift ;;
        esac
    done
    [[ -n $warm_up_s ]] || warm_up_s=$((quick ? 1 : 2))
}

set_load_option() { # OPTION VALUE
    case $1 in
        --window) require_whole_number "--window" "$2" "$client_num" 1000000; window_total=$whole_number ;;
        --rate) require_whole_number "--rate" "$2" "$client_num" 999999999; rate_total=$whole_number ;;
        --warm-up) require_whole_number "--warm-up" "$2" 0 3600; warm_up_s=$whole_number ;;
    esac
}

# Sets share to what client NUMBER (from 1) gets of TOTAL; the first clients get the remainder.
split_share() { # TOTAL CLIENTS NUMBER
    share=$(($1 / $2 + ($3 <= $1 % $2 ? 1 : 0)))
}

# Only several clients need the window as a number; one client reads it from the cluster file itself.
find_window() { # CLUSTER_FILE
    if [[ -z $window_total ]] && ((client_num > 1)); then
        read_json "$1" max_process_txn ||
            bad_input "$template_file: max_process_txn is missing, so the window can not be split over $client_num clients: add it or give -- --window N"
        require_whole_number "max_process_txn" "$json_value" "$client_num" 1000000
        window_total=$whole_number
    fi
}

# Puts the cluster under load; leaves FOLDER/result.json and FOLDER/result.txt. Sets load_status to 0 (valid) or 3.
run_load() { # FOLDER
    local number arguments errors limit_s
    load_processes=()
    find_window "$1/cluster.json"
    note "load: $client_num client(s), ${warm_up_s} s warm-up, ${duration_s} s measured"
    for ((number = 1; number <= client_num; number++)); do
        arguments=(--cluster "$1/cluster.json" --duration "$duration_s" --warm-up "$warm_up_s")
        if [[ -n $window_total ]]; then
            split_share "$window_total" "$client_num" "$number"
            arguments+=(--window "$share")
        fi
        if [[ -n $rate_total ]]; then
            split_share "$rate_total" "$client_num" "$number"
            arguments+=(--rate "$share")
        fi
        errors=$1/client-$number.log
        ((client_num > 1)) || errors=- # one client shows its progress itself
        start_process "$1/client-$number.txt" "$errors" "$quorate" perf load "${arguments[@]}" --json "$1/client-$number.json" \
            ${plain_load_options[@]+"${plain_load_options[@]}"} # last, so that nothing of ours is taken for a value that is missing
        load_processes+=("$started_process")
    done
    limit_s=$((warm_up_s + duration_s + 60))
    watch_until_end 'during the run' "$limit_s" "${load_processes[@]}" || fail "the load did not end within $limit_s s"
    judge_load "$1"
    collect_result "$1"
    load_processes=()
}

judge_load() { # FOLDER
    local number
    load_status=0
    for ((number = 1; number <= client_num; number++)); do
        read_exit_status "${load_processes[number - 1]}"
        case $exit_status in
            0) ;;
            3) load_status=3 ;;
            *)
                sleep 0.5 # a replica's crash explains more than the client's complaint of it
                require_living_replicas 'during the run'
                note "error: load client $number failed with $(describe_exit_status "$exit_status")"
                if ((client_num > 1)); then
                    show_log_end "$1/client-$number.log"
                fi
                ((exit_status != 2)) || exit 2
                exit 1 ;;
        esac
    done
}

collect_result() { # FOLDER
    local number parts=() merge_status=0
    for ((number = 1; number <= client_num; number++)); do
        parts+=("$1/client-$number.json")
        [[ -s ${parts[-1]} ]] || fail "load client $number left no result in ${parts[-1]}"
    done
    if ((client_num == 1)); then
        mv -- "${parts[0]}" "$1/result.json"
        mv -- "$1/client-1.txt" "$1/result.txt"
    else
        "$quorate" perf merge "${parts[@]}" --json "$1/result.json" >"$1/result.txt" || merge_status=$?
        ((merge_status == 0 || merge_status == 3)) || fail "the results of $client_num clients could not be merged (exit status $merge_status)"
        ((merge_status == 0)) || load_status=3
    fi
    [[ -s $1/result.txt ]] || fail "the result in $1/result.json came without its text; is the disk full?"
    require_throughput "$1/result.json"
}

# An empty run is an error, never a zero in a table.
require_throughput() { # FILE
    [[ -s $1 ]] || fail "no result in $1"
    read_json "$1" throughput_per_s || fail "$1 has no throughput_per_s"
    [[ $json_value =~ [1-9] && $json_value != -* ]] || fail "no transaction was completed: throughput_per_s is $json_value in $1"
}
