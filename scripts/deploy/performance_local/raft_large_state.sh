#!/usr/bin/env bash
# Brings a replica that lags back with a large snapshot while the cluster serves writes at a fixed rate; --help tells more.
set -Eeuo pipefail

deploy_folder=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")

# shellcheck source=scripts/deploy/script/messages.sh
source "$deploy_folder/script/messages.sh"
# shellcheck source=scripts/deploy/script/prerequisites.sh
source "$deploy_folder/script/prerequisites.sh"
require_bash 5 0
# shellcheck source=scripts/deploy/script/local_performance.sh
source "$deploy_folder/script/local_performance.sh"
# shellcheck source=scripts/deploy/script/large_state.sh
source "$deploy_folder/script/large_state.sh"

large_state_usage() {
    cat <<'END_OF_USAGE'
Usage: raft_large_state.sh [options]

Builds quorate, makes a durable cluster of three on this machine, stops a follower, and fills the others with a large state, so that the
log no longer reaches back to where the follower is. Then it measures writes at a fixed rate without that follower, starts it again, and
measures the same writes until the follower has the state by a snapshot. Prints how long that took, the latency of writes before and
during it, and the memory that leader and follower took for it. Everything is collected in a fresh run folder (its path is the last line);
the cluster's data is removed.

  --state-mib N         MiB of values, 16 to 16384 (default 1024); about four times that is needed on disk
  --value-size BYTES    bytes of a value, 100 to 1048576 (default 65536)
  --store NAME          lsm or memory (default lsm)
  --rate N              writes a second during the measurements, of 100 bytes each, 1 to 100000 (default 2000)
  --before S            seconds measured before the follower is started, 1 to 3600 (default 10)
  --settle S            seconds of rest between filling and measuring, 0 to 3600 (default 10)
  --limit S             seconds that the follower may take, 1 to 86400 (default 300)
  --memory-mib N        MiB of memory that the transfer may take on either side with store lsm, 1 to 65536 (default 64)
  --out DIR             where run folders are made (default: results/ in the repository); the data lies there too
  --quorate FILE        measure this binary instead of building one
  --help                this text

Memory is the anonymous resident memory of a process, looked at ten times a second, against the last look before the transfer began.

Exit codes: 0 measured, 1 failed, 2 bad input, 3 a result failed its own validity checks, or the transfer took more memory than it may.
END_OF_USAGE
}

# Sets state_mib, value_size, store, rate, before_s, settle_s, limit_s, memory_mib, out_folder and quorate.
read_arguments() { # ARGUMENT...
    local option value taken seen=' '
    local names='--state-mib --value-size --store --rate --before --settle --limit --memory-mib --out --quorate'
    state_mib=1024 value_size=65536 store=lsm rate=2000 before_s=10 settle_s=10 limit_s=300 memory_mib=64
    out_folder=$repository/results quorate=''
    while (($# > 0)); do
        case $1 in
            --help | -h) large_state_usage; exit 0 ;;
            -*)
                take_option "$names" '' "$@"
                shift "$taken"
                read_argument "$option" "$value" ;;
            *) bad_input "unexpected argument '$1' (--help tells what is taken)" ;;
        esac
    done
}

read_argument() { # OPTION VALUE
    case $1 in
        --state-mib) require_whole_number "$1" "$2" 16 16384; state_mib=$whole_number ;;
        --value-size) require_whole_number "$1" "$2" 100 1048576; value_size=$whole_number ;;
        --rate) require_whole_number "$1" "$2" 1 100000; rate=$whole_number ;;
        --before) require_whole_number "$1" "$2" 1 3600; before_s=$whole_number ;;
        --settle) require_whole_number "$1" "$2" 0 3600; settle_s=$whole_number ;;
        --limit) require_whole_number "$1" "$2" 1 86400; limit_s=$whole_number ;;
        --memory-mib) require_whole_number "$1" "$2" 1 65536; memory_mib=$whole_number ;;
        --store)
            [[ $2 == lsm || $2 == memory ]] || bad_input "--store '$2': lsm or memory is needed"
            store=$2 ;;
        --out) require_folder_name "$1" "$2"; out_folder=$2 ;;
        --quorate) require_executable "$1" "$2"; quorate=$executable ;;
    esac
}

require_room() { # FOLDER
    local free_kib
    free_kib=$(df -Pk -- "$1" | awk 'NR == 2 { print $4 }')
    ((free_kib / 1024 > 4 * state_mib + 1024)) ||
        fail "$((free_kib / 1024)) MiB are free in $1, and a state of $state_mib MiB needs about $((4 * state_mib + 1024))"
}

read_arguments "$@"
[[ -n $quorate ]] || require_build_tools "$repository"
ports=free base_port='' worst_status=0 replica_hosts=(127.0.0.1 127.0.0.1 127.0.0.1)
make_run_folder "$out_folder" raft-large-state
clean_up_at_the_end
require_room "$run_folder"
record_and_build "$0" "$@"
template_file=$run_folder/template.config
printf '{ "recovery_enabled": true, "store": "%s" }\n' "$store" >"$template_file"
start_cluster "$run_folder"
choose_follower
stop_follower
fill_state
measure_before
measure_transfer
stop_replicas
rm -rf -- "$run_folder"/replica-*/data
report_large_state >"$run_folder/result.txt"
cat -- "$run_folder/result.txt"
# A store in memory takes at least the state.
if [[ $store == lsm ]] && takes_too_much_memory; then
    note "the transfer took more than $memory_mib MiB of memory"
    worst_status=3
fi
if ((worst_status == 3)); then
    note "inconclusive: see above"
fi
printf '%s\n' "$run_folder"
exit "$worst_status"
