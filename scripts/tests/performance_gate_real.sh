#!/usr/bin/env bash
# The gate with the real binary and the committed bounds. They are of processor time and system calls, not of speed.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"

run_gate() { # ARGUMENT...
    status=0
    "$repository/scripts/deploy/performance_local/performance_gate.sh" --out "$work_folder/out" "$@" </dev/null >"$work_folder/stdout" 2>"$work_folder/stderr" || status=$?
    cat -- "$work_folder/stdout"
}

run_gate
expect_status 0
[[ $(grep -c ' ok$' "$work_folder/stdout") == 4 ]]
expect_no_leftovers
claim 'a transaction costs no more than its bounds allow'

cat >"$work_folder/bounds.txt" <<'END'
batches cpu_us_per_transaction 0.001 2
batches socket_calls_per_1000_transactions 1000000 2
END
run_gate --bounds "$work_folder/bounds.txt" --duration 1 batches
expect_status 1
grep -q '^batches *cpu_us_per_transaction .* BROKEN$' "$work_folder/stdout"
grep -q '^batches *socket_calls_per_1000_transactions .* ok$' "$work_folder/stdout"
claim 'a bound that no program can keep is found broken'
