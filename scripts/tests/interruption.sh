#!/usr/bin/env bash
# Ctrl-C and other signals, at every stage.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims
export SHIM_LOAD_S=60

recorded() { # TEXT
    grep -q -- "$1" "$SHIM_RECORD"
}

interrupt_when() { # RECORDED SIGNAL EXPECTED_STATUS
    start_script
    wait_until recorded "$1"
    kill -s "$2" -- "-$script_process"
    wait_for_script
    expect_status "$3"
    expect_no_leftovers
}

interrupt_when '^perf load' INT 130
expect_in stderr 'stopped by Ctrl-C'
expect_not_in stderr 'error:'
claim 'Ctrl-C during the load leaves no process'
interrupt_when '^serve .*--id 2' INT 130
claim 'Ctrl-C while replicas start leaves no process'
interrupt_when '^cargo build' INT 130
claim 'Ctrl-C during the build leaves no process'
interrupt_when '^perf load' TERM 143
claim 'SIGTERM leaves no process'
interrupt_when '^perf load' HUP 129
claim 'a closed terminal leaves no process'

export SHIM_DEAF_REPLICAS=1
start_script
wait_until recorded '^perf load'
begin=$SECONDS
kill -s INT -- "-$script_process"
wait_until grep -q 'stopped by Ctrl-C' "$work_folder/stderr"
sleep 1 # the second Ctrl-C falls into the wait for replicas that do not listen
kill -s INT -- "-$script_process"
wait_for_script
expect_status 130
((SECONDS - begin < 12)) || not_so 'the second Ctrl-C did not shorten the wait'
expect_no_leftovers
claim 'a second Ctrl-C shortens the wait for replicas that do not listen and leaves no process'
unset SHIM_DEAF_REPLICAS

# The third line is said when the replicas run already, and nobody reads it.
pipe_status=0
SHIM_LOAD_S=0.3 "$performance_script" --out "$work_folder/out" --quick </dev/null 2>&1 | head -n 2 >"$work_folder/stdout" || pipe_status=$?
[[ $pipe_status != 0 ]] || not_so 'a run whose output could not be printed must not end with 0'
expect_no_leftovers
claim 'a reader of the output that goes away leaves no process'
