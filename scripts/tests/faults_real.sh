#!/usr/bin/env bash
# Crash, Ctrl-C and a busy port with the real binary.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
mkdir "$work_folder/out"

start_until_load() { # ARGUMENT...
    rm -rf -- "$work_folder/out"/*
    start_script --duration 60 "$@"
    wait_until load_runs
    find_run_folder
}

load_runs() {
    compgen -G "$work_folder/out/*-raft/client-1.txt" >/dev/null
}

start_until_load
sleep 1 # into the load
kill -s KILL "$(<"$run_folder/replica-2/replica.pid")"
wait_for_script
expect_status 1
expect_in stderr 'error: replica 2 ended during the run with exit status 137 (signal KILL)'
expect_in stderr "$run_folder/replica-2/replica.log"
expect_no_leftovers
claim 'a replica killed in mid-run ends the run, is named, and nothing is left running'

start_until_load
kill -s INT -- "-$script_process"
wait_for_script
expect_status 130
expect_no_leftovers
claim 'Ctrl-C in mid-run leaves no process'

start_listener
run_script --base-port "$busy_port"
[[ $status == 1 || $status == 2 ]] || not_so "exit status 1 or 2 expected, got $status"
expect_in stderr "port $busy_port"
expect_in stderr 'replica 1'
expect_no_leftovers
claim 'a busy port is named'

cat >"$work_folder/machines.conf" <<'END'
iplist=(127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1)
client_num=2
END
stop_listener
# On ports that the script looks for: one that the system gave to a listener may be given to any connection once that is gone.
run_script "$work_folder/machines.conf" --quick
expect_status 0
find_run_folder
[[ -s $run_folder/result.json && -s $run_folder/client-1.json && -s $run_folder/client-2.json ]]
expect_no_leftovers
claim 'two clients run side by side and leave one merged result'
