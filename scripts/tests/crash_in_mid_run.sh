#!/usr/bin/env bash
# A replica that ends in mid-run, or before it.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

SHIM_CRASH_REPLICA=3 SHIM_LOAD_S=30 run_script
expect_status 1
expect_in stderr 'error: replica 3 ended during the run with exit status 41'
find_run_folder
expect_in stderr "$run_folder/replica-3/replica.log"
expect_in stderr '| the disk is on fire'
expect_in stderr "what was collected: $run_folder"
((SECONDS < 25)) || not_so 'the load went on after the crash'
[[ ! -s $work_folder/stdout ]] || not_so 'a failed run prints no result'
expect_no_leftovers
claim 'a replica that crashes in mid-run ends the run at once: its name, status and last log lines are shown and nothing is left running'

recorded() { # TEXT
    grep -q -- "$1" "$SHIM_RECORD"
}

export SHIM_LOAD_S=30
start_script --quick
wait_until recorded '^perf load'
find_run_folder
kill -s KILL "$(<"$run_folder/replica-1/replica.pid")"
wait_for_script
expect_status 1
expect_in stderr 'error: replica 1 ended during the run with exit status 137 (signal KILL)'
expect_no_leftovers
claim 'a replica that is killed in mid-run ends the run and is named with its signal'
