#!/usr/bin/env bash
# Several load clients.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

cat >"$work_folder/machines.conf" <<'END'
iplist=(127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1)
client_num=3
END

windows() {
    sed -n 's/^perf load .*--window \([0-9]*\).*/\1/p' "$SHIM_RECORD" | sort -rn | tr '\n' ' '
}

run_script "$work_folder/machines.conf" -- --window 64 --rate=1000
expect_status 0
[[ $(windows) == '22 21 21 ' ]] || not_so "windows are $(windows)"
[[ $(sed -n 's/^perf load .*--rate \([0-9]*\).*/\1/p' "$SHIM_RECORD" | sort -rn | tr '\n' ' ') == '334 333 333 ' ]]
expect_in "$SHIM_RECORD" '--hosts 127.0.0.1,127.0.0.1,127.0.0.1 '
claim 'three clients split a window of 64 as 22, 21, 21 and a rate of 1000 as 334, 333, 333'

find_run_folder
expect_in stdout 'merged 3 results'
expect_in "$run_folder/result.json" '"throughput_per_s": 3000'
claim 'the results of several clients are merged into one'

run_script "$work_folder/machines.conf" --free-ports
expect_status 0
expect_in "$SHIM_RECORD" '--ports free'
[[ $(windows) == '683 683 682 ' ]] || not_so "windows are $(windows)"
claim 'without --window the max_process_txn of the template is split'

run_script "$work_folder/machines.conf" -- --window 2
expect_status 2
expect_in stderr "--window '2': a whole number from 3"
claim 'a window smaller than the number of clients is refused'

SHIM_LOAD_STATUS=1 run_script "$work_folder/machines.conf"
expect_status 1
expect_in stderr 'error: load client 1 failed with exit status 1'
expect_in stderr '| error: the cluster can not be reached'
expect_no_leftovers
claim 'a client that fails is named with the last lines of its log'
