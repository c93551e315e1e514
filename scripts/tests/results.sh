#!/usr/bin/env bash
# No result is ever made up.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

for throughput in 0 0.0 0e0 null; do
    SHIM_THROUGHPUT=$throughput run_script --quick
    expect_status 1
    expect_in stderr "no transaction was completed: throughput_per_s is $throughput"
done
SHIM_THROUGHPUT=none run_script --quick
expect_status 1
expect_in stderr 'has no throughput_per_s'
expect_no_leftovers
claim 'a throughput of zero, null or none is an error'

SHIM_LOAD_STATUS=3 run_script --quick
expect_status 3
expect_in stderr 'inconclusive'
find_run_folder
[[ $(tail -n 1 "$work_folder/stdout") == "$run_folder" ]]
claim 'a result that fails its own validity checks is shown and ends with 3'

SHIM_NOT_READY=1 run_script --quick
expect_status 1
expect_in stderr 'error: the cluster was not ready within 30 s'
expect_in stderr 'replica 3: connection refused'
expect_in stderr '| replica 1 serves'
expect_no_leftovers
claim 'a cluster that does not form ends the run with the reason and the logs'

SHIM_THROUGHPUT=700.5,900,100.25 run_script --quick --repeat 3
expect_status 0
expect_in stdout 'throughput per s   700.5 (100.25-900)'
find_run_folder
expect_in "$run_folder/summary.json" '"throughput_per_s": {"median": 700.5, "min": 100.25, "max": 900}'
claim 'three runs print median and min-max'

SHIM_THROUGHPUT=500,5e2,1e3,250 run_script --quick --repeat 4
expect_status 0
expect_in stdout 'throughput per s   500 (250-1000)'
find_run_folder
expect_in "$run_folder/result.json" '"throughput_per_s": 5'
claim 'an even number of runs has the mean of the middle two as median'

SHIM_FIGURES='"cpu_us_per_transaction": 0.25, "socket_calls_per_1000_transactions": 2.5' run_script --quick --repeat 2
expect_status 0
expect_in stdout 'CPU per txn, µs'
expect_in stdout '0.25 (0.25-0.25)'
find_run_folder
expect_in "$run_folder/summary.json" '"socket_calls_per_1000_transactions": {"median": 2.5, "min": 2.5, "max": 2.5}'
SHIM_FIGURES='"cpu_us_per_transaction": null, "socket_calls_per_1000_transactions": 2.5' run_script --quick --repeat 2
expect_status 0
expect_not_in stdout 'CPU per txn'
expect_in stdout 'calls per 1000 txn 2.5'
claim 'costs per transaction are summed up with the rest, and a null is not taken for a number'
