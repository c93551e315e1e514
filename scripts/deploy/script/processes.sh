# shellcheck shell=bash
# Starting, watching and stopping processes. Only children of this shell are ever signalled: a pid is looked up in bash's own job
# table first, so a pid that the system has meanwhile given to somebody else is left alone.

impatient=0 # 1 after a second Ctrl-C: no grace period any more

# Starts a command in a process group of its own: Ctrl-C then reaches only this script, which stops things in order.
# OUTPUT is a file for stdout; ERRORS a file for stderr, or "-" for this script's stderr. Sets started_process.
start_process() { # OUTPUT ERRORS COMMAND...
    local output=$1 errors=$2
    shift 2
    set -m
    if [[ $errors == - ]]; then
        "$@" </dev/null >"$output" &
    else
        "$@" </dev/null >"$output" 2>"$errors" &
    fi
    started_process=$!
    set +m
}

# Sets running_processes to those of the given pids that still run, with blanks around each.
find_running() { # PID...
    local running pid
    running=$(jobs -rp)
    running=" ${running//$'\n'/ } "
    running_processes=' '
    for pid in "$@"; do
        [[ $running != *" $pid "* ]] || running_processes+="$pid "
    done
}

signal_running() { # SIGNAL PID...
    local signal=$1 pid
    shift
    find_running "$@"
    for pid in $running_processes; do
        kill -s "$signal" -- "-$pid" 2>/dev/null || true
    done
}

# Sets exit_status of a child that has ended.
read_exit_status() { # PID
    exit_status=0
    wait "$1" 2>/dev/null || exit_status=$?
}

# Waits until all have ended, at most LIMIT_S seconds; fails if one still runs.
wait_for_end() { # LIMIT_S PID...
    local deadline=$((SECONDS + $1))
    shift
    while find_running "$@" && [[ $running_processes != ' ' ]]; do
        ((SECONDS <= deadline && impatient == 0)) || return 1
        sleep 0.1 || true # a signal may cut it short
    done
}

# Asks with SIGTERM, waits, then ends with SIGKILL. Sets killed_processes to those that had to be killed.
stop_processes() { # GRACE_S PID...
    local grace_s=$1
    shift
    killed_processes=' '
    (($# > 0)) || return 0
    signal_running TERM "$@"
    signal_running CONT "$@" # a stopped process hears SIGTERM only when it goes on
    if ! wait_for_end "$grace_s" "$@"; then
        find_running "$@"
        killed_processes=$running_processes
        signal_running KILL "$@"
        impatient=0
        wait_for_end 10 "$@" || note "warning: still running after SIGKILL:$running_processes"
    fi
}
