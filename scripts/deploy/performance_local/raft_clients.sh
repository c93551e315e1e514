#!/usr/bin/env bash
# Measures durable clusters on this machine with more and more clients: one that syncs its logs, one that does not; --help tells more.
set -Eeuo pipefail

deploy_folder=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")

# shellcheck source=scripts/deploy/script/messages.sh
source "$deploy_folder/script/messages.sh"
# shellcheck source=scripts/deploy/script/prerequisites.sh
source "$deploy_folder/script/prerequisites.sh"
require_bash 4 4
# shellcheck source=scripts/deploy/script/local_performance.sh
source "$deploy_folder/script/local_performance.sh"

clients_usage() {
    cat <<'END_OF_USAGE'
Usage: raft_clients.sh [options] [-- perf clients options]

Builds quorate, and for wal_sync always and then never: makes a fresh durable cluster on this machine, measures it with
1, 8, 16, 64, 128 and 256 clients and with the most of them over one connection, prints the tables, and stops the cluster.
Everything is collected in a fresh run folder (its path is the last line); the clusters' data is removed.

  --replicas N      replicas, 1 to 9 (default 3)
  --wal-sync LIST   always, never, or always,never (default: both)
  --duration S      measure each row for S seconds, 1 to 86400 (default 10; with --quick 2)
  --repeat N        N runs of each row, 1 to 100; tables show the median (default 1)
  --quick           a short run: 2 s a row after a warm-up of 1 s
  --out DIR         where run folders are made (default: results/ in the repository); the data lies there too: its device is measured
  --quorate FILE    measure this binary instead of building one
  --help            this text

What follows -- goes to 'quorate perf clients' unchanged, for example:  -- --clients 1,256 --connections 8

Exit codes: 0 valid results, 1 failed, 2 bad input, 3 a result failed its own validity checks.
END_OF_USAGE
}

# Sets replica_count, wal_syncs, duration_s, repeat, quick, out_folder, quorate and client_options.
read_arguments() { # ARGUMENT...
    local option value taken seen=' '
    replica_count=3 wal_syncs=(always never) duration_s='' repeat=1 quick=0 out_folder=$repository/results quorate='' client_options=()
    while (($# > 0)); do
        case $1 in
            --) shift; client_options=("$@"); break ;;
            --help | -h) clients_usage; exit 0 ;;
            --quick) quick=1; shift; continue ;;
            -*)
                take_option '--replicas --wal-sync --duration --repeat --out --quorate' '; perf clients options go after --' "$@"
                shift "$taken"
                read_argument "$option" "$value" ;;
            *) bad_input "unexpected argument '$1' (--help tells what is taken)" ;;
        esac
    done
    for option in ${client_options[@]+"${client_options[@]}"}; do
        case ${option%%=*} in
            --cluster | --json | --output | --duration | --repeat | --quick)
                bad_input "${option%%=*} after --: the script sets it itself" ;;
        esac
    done
}

read_argument() { # OPTION VALUE
    case $1 in
        --replicas) require_whole_number "$1" "$2" 1 9; replica_count=$whole_number ;;
        --wal-sync)
            case $2 in
                always | never) wal_syncs=("$2") ;;
                always,never | never,always) IFS=, read -ra wal_syncs <<<"$2" ;;
                *) bad_input "--wal-sync '$2': always, never or always,never is needed" ;;
            esac ;;
        --duration) require_whole_number "$1" "$2" 1 86400; duration_s=$whole_number ;;
        --repeat) require_whole_number "$1" "$2" 1 100; repeat=$whole_number ;;
        --out) require_folder_name "$1" "$2"; out_folder=$2 ;;
        --quorate) require_executable "$1" "$2"; quorate=$executable ;;
    esac
}

# Measures one cluster; leaves FOLDER/clients.txt and FOLDER/clients.json. Shares worst_status with its caller.
measure_clients() { # WAL_SYNC FOLDER
    local arguments=(--cluster "$2/cluster.json" --json "$2/clients.json" --repeat "$repeat")
    ((quick == 0)) || arguments+=(--quick)
    [[ -z $duration_s ]] || arguments+=(--duration "$duration_s")
    start_process "$2/clients.txt" - "$quorate" perf clients "${arguments[@]}" ${client_options[@]+"${client_options[@]}"}
    load_processes=("$started_process")
    watch_until_end 'during the run' 864000 "${load_processes[@]}" || fail "the measurement did not end within ten days"
    read_exit_status "${load_processes[0]}"
    load_processes=()
    case $exit_status in
        0) ;;
        3) worst_status=3 ;;
        2) exit 2 ;; # the binary has said what is wrong
        *)
            sleep 0.5 # a replica's crash explains more than the client's complaint of it
            require_living_replicas 'during the run'
            fail "perf clients failed with $(describe_exit_status "$exit_status")" ;;
    esac
    printf '## wal_sync: %s, %s replicas\n\n' "$1" "$replica_count"
    cat -- "$2/clients.txt"
    printf '\n'
}

measure_cluster() { # WAL_SYNC
    local folder=$run_folder/$1 place
    mkdir -- "$folder"
    template_file=$folder/template.config
    printf '{ "recovery_enabled": true, "wal_sync": "%s" }\n' "$1" >"$template_file"
    note "wal_sync: $1"
    start_cluster "$folder"
    measure_clients "$1" "$folder"
    stop_replicas
    for place in "${replica_ids[@]}"; do
        rm -rf -- "$folder/replica-$place/data"
    done
}

read_arguments "$@"
[[ -n $quorate ]] || require_build_tools "$repository"
ports=free base_port='' worst_status=0 replica_hosts=()
while ((${#replica_hosts[@]} < replica_count)); do
    replica_hosts+=(127.0.0.1)
done
make_run_folder "$out_folder" raft-clients
clean_up_at_the_end
record_and_build "$0" "$@"
for wal_sync in "${wal_syncs[@]}"; do
    measure_cluster "$wal_sync"
done
if ((worst_status == 3)); then
    note "inconclusive: a result failed its own validity checks, see above"
fi
printf '%s\n' "$run_folder"
exit "$worst_status"
