# shellcheck shell=bash
# One performance experiment with every process on this machine. Wants deploy_folder and messages.sh.

repository=$(dirname -- "$(dirname -- "$deploy_folder")")

# shellcheck source=scripts/deploy/script/checks.sh
source "$deploy_folder/script/checks.sh"
# shellcheck source=scripts/deploy/script/options.sh
source "$deploy_folder/script/options.sh"
# shellcheck source=scripts/deploy/script/machines.sh
source "$deploy_folder/script/machines.sh"
# shellcheck source=scripts/deploy/script/json.sh
source "$deploy_folder/script/json.sh"
# shellcheck source=scripts/deploy/script/processes.sh
source "$deploy_folder/script/processes.sh"
# shellcheck source=scripts/deploy/script/run_folder.sh
source "$deploy_folder/script/run_folder.sh"
# shellcheck source=scripts/deploy/script/commit.sh
source "$deploy_folder/script/commit.sh"
# shellcheck source=scripts/deploy/script/build.sh
source "$deploy_folder/script/build.sh"
# shellcheck source=scripts/deploy/script/cluster.sh
source "$deploy_folder/script/cluster.sh"
# shellcheck source=scripts/deploy/script/load.sh
source "$deploy_folder/script/load.sh"
# shellcheck source=scripts/deploy/script/summary.sh
source "$deploy_folder/script/summary.sh"

cluster_ready_s=30 run_folder='' started_process=''
load_processes=() replica_processes=() may_choose_again=0

local_performance() { # PROTOCOL ARGUMENT...
    local protocol=$1 number worst_status=0
    parse_options "$@"
    read_machines "$machines_file"
    require_loopback "$machines_file"
    read_load_options
    require_build_tools "$repository"
    make_run_folder "$out_folder" "$protocol"
    clean_up_at_the_end
    find_commit "$repository"
    record_settings "$run_folder" "$0" "${@:2}"
    build_quorate "$run_folder"
    if ((repeat == 1)); then
        run_once "$run_folder"
    else
        for ((number = 1; number <= repeat; number++)); do
            note "run $number of $repeat"
            mkdir -- "$run_folder/run-$number"
            run_once "$run_folder/run-$number"
        done
        summarise_runs "$run_folder" "$repeat"
    fi
    if ((worst_status == 3)); then
        note "inconclusive: the result failed its own validity checks, see above"
    fi
    printf '%s\n' "$run_folder"
    exit "$worst_status"
}

# From now on, whatever ends the script, what it started is stopped.
clean_up_at_the_end() {
    trap clean_up EXIT
    trap 'interrupted 130 Ctrl-C' INT
    trap 'interrupted 143 SIGTERM' TERM
    trap 'interrupted 129 SIGHUP' HUP
    trap 'exit 141' PIPE # a reader of our output that goes away must not leave a cluster behind
    trap 'say_unexpected_failure $? "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND"' ERR
}

# What a reader needs to measure again, and the binary, unless one was given. Wants quorate and run_folder.
record_and_build() { # SCRIPT ARGUMENT...
    printf '%q ' "$@" >"$run_folder/command.txt"
    printf 'system: %s\nprocessors: %s\n' "$(uname -srm)" "$(getconf _NPROCESSORS_ONLN)" >"$run_folder/environment.txt"
    [[ -z $quorate ]] || return 0
    find_commit "$repository"
    printf 'commit: %s\n' "$commit" >>"$run_folder/environment.txt"
    build_quorate "$run_folder"
}

# Shares worst_status with its caller.
run_once() { # FOLDER
    start_cluster "$1"
    run_load "$1"
    cat -- "$1/result.txt"
    ((load_status == 0)) || worst_status=$load_status
    stop_replicas
    # What the load has written is of no use any more, and large. Of a run that fails it stays.
    rm -rf -- "$1"/replica-*/data
}

interrupted() { # STATUS BY_WHAT
    note "stopped by $2: stopping what was started" || true # the terminal may be gone
    exit "$1"
}

# Whatever ended the script: what it started is stopped, clients first. A further Ctrl-C only shortens the wait.
clean_up() {
    local status=$? children
    set +e
    trap - ERR
    trap '' PIPE
    trap 'impatient=1' INT TERM HUP
    mapfile -t children < <(jobs -rp)
    stop_processes 2 ${load_processes[@]+"${load_processes[@]}"}
    stop_processes "$replica_stop_s" ${children[@]+"${children[@]}"}
    if ((status != 0 && status != 3)) && [[ -n $run_folder ]]; then
        note "what was collected: $run_folder"
    fi
    exit "$status"
}
