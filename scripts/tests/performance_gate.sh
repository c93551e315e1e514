#!/usr/bin/env bash
# The gate on costs per transaction.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

bounds=$work_folder/bounds.txt
cat >"$bounds" <<'END'
# case figure measured factor
batches cpu_us_per_transaction 0.2 2
batches socket_calls_per_1000_transactions 3 1.5   # twice would be too much
single  cpu_us_per_transaction 0.3 2
END

run_gate() { # ARGUMENT...
    status=0
    : >"$SHIM_RECORD"
    "$repository/scripts/deploy/performance_local/performance_gate.sh" --out "$work_folder/out" "$@" </dev/null >"$work_folder/stdout" 2>"$work_folder/stderr" || status=$?
}

figures() { # CPU CALLS
    export SHIM_FIGURES="\"cpu_us_per_transaction\": $1, \"socket_calls_per_1000_transactions\": $2"
}

figures 0.4 4.5
run_gate --bounds "$bounds"
expect_status 0
[[ $(grep -c ' ok$' "$work_folder/stdout") == 3 ]]
expect_in "$SHIM_RECORD" '--duration 5 '
[[ $(grep -c '^perf load .*--window 64 --json ' "$SHIM_RECORD") == 1 ]]
[[ $(grep -c '^perf load .*--window 256 --json .* --batch 1 --connections 4 --value-size 100 --keys 10000$' "$SHIM_RECORD") == 1 ]]
[[ $(grep -c -- '--hosts 127.0.0.1,127.0.0.1,127.0.0.1 --ports free' "$SHIM_RECORD") == 1 ]]
expect_no_leftovers
claim 'figures up to their bounds pass, for four replicas with batches and three with single operations, on free ports'

figures 0.41 4.5
run_gate --bounds "$bounds"
expect_status 1
[[ $(grep -c ' BROKEN$' "$work_folder/stdout") == 1 && $(grep -c ' ok$' "$work_folder/stdout") == 2 ]]
grep -q '^batches *cpu_us_per_transaction *0.41 *0.4 *0.2 *2  BROKEN$' "$work_folder/stdout"
expect_in stderr "error: 1 bound(s) of $bounds broken"
claim 'one figure above its bound fails the gate, and the table says which, with bound, measured value and factor'

figures 0.41 4.5
run_gate --bounds "$bounds" single
expect_status 0
[[ $(grep -c '^perf load' "$SHIM_RECORD") == 1 ]]
claim 'one case can be run alone'

figures null 4.5
run_gate --bounds "$bounds" batches
expect_status 1
expect_in stderr 'error: cpu_us_per_transaction of the case batches is null'
unset SHIM_FIGURES
run_gate --bounds "$bounds" batches
expect_status 1
expect_in stderr 'has no figure cpu_us_per_transaction'
claim 'a figure that is null or missing is a failure and no pass'

figures 0.1 1
SHIM_LOAD_STATUS=3 run_gate --bounds "$bounds"
expect_status 3
expect_in stderr 'the result of the case batches was not valid'
SHIM_NOT_READY=1 run_gate --bounds "$bounds"
expect_status 1
expect_in stderr 'error: the case batches ended with exit status 1'
claim 'a result that is not valid can not be judged, and a run that fails fails the gate'

refused() { # LINE EXPECTED
    printf '%s\n' "$1" >"$work_folder/bad.txt"
    run_gate --bounds "$work_folder/bad.txt" batches
    expect_status 2
    expect_in stderr "$2"
    [[ ! -s $SHIM_RECORD ]]
}
refused 'several cpu_us_per_transaction 1 2' "bad.txt:1: 'several' is no case"
refused 'batches cpu_us_per_transaction 0 2' "bad.txt:1: '0': a number above zero is needed"
refused 'batches cpu_us_per_transaction 1' "bad.txt:1: '': a number above zero is needed"
refused 'batches cpu_us_per_transaction 1 2 3' "bad.txt:1: unexpected '3'"
refused 'single cpu_us_per_transaction 1 2' 'there is no bound for the case batches'
run_gate --bounds "$work_folder/missing.txt"
expect_status 2
expect_in stderr "missing.txt': no such file"
run_gate --fast
expect_status 2
expect_in stderr "error: unknown option '--fast'"
run_gate many
expect_status 2
expect_in stderr "error: 'many' is no case"
run_gate --duration 0
expect_status 2
expect_in stderr "error: --duration '0': a whole number from 1 to 86400 is needed"
run_gate --help
expect_status 0
expect_in stdout 'Usage: performance_gate.sh'
claim 'bad bounds and bad options are refused before anything is started'
