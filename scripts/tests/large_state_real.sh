#!/usr/bin/env bash
# A small run of the large state, with the real binary.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
find_real_quorate
performance_script=$repository/scripts/deploy/performance_local/raft_large_state.sh

run_script --quorate "$quorate" --state-mib 64 --before 2 --settle 1
# A busy machine may spoil a measurement (3), which is no fault of the script.
[[ $status == 0 || $status == 3 ]] || not_so "exit status $status"
find_run_folder
number() { # KEY
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$run_folder/result.json"
}
(($(number values) >= 1024)) || not_so "only $(number values) values were written"
(($(number snapshot_bytes) > 64 << 20)) || not_so "the snapshot has $(number snapshot_bytes) bytes"
(($(number transfer_ms) > 0 && $(number transfer_ms) <= $(number return_ms))) || not_so 'the times make no sense'
expect_in stdout '| during |'
expect_in stdout '| follower |'
[[ $(tail -n 1 "$work_folder/stdout") == "$run_folder" ]] || not_so 'the run folder is not the last line'
[[ -z $(find "$run_folder" -name '*.wal') ]] || not_so 'the data was left behind'
expect_no_leftovers
claim 'a follower that lags is brought back by a snapshot under load, and the run says how long it took and what memory'
