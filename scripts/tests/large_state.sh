#!/usr/bin/env bash
# The script that brings a lagging replica back with a large snapshot: bad input, and a leader that is missing.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims
performance_script=$repository/scripts/deploy/performance_local/raft_large_state.sh

refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    run_script "$@"
    expect_status 2
    expect_in stderr "$text"
    [[ $(wc -l <"$work_folder/stderr") == 1 ]] || not_so "one line expected for: $*"
    [[ ! -s $work_folder/stdout ]] || not_so "nothing on stdout expected for: $*"
    [[ ! -s $SHIM_RECORD ]] || not_so "nothing may be built for: $*"
}

for value in ten -1 1e9 5s 1.5 '' ' ' 99999999999999999999; do
    for option in --state-mib --value-size --rate --before --settle --limit --memory-mib; do
        refused "$option '$value'" "$option" "$value"
    done
done
refused "--state-mib '15': a whole number from 16 to 16384" --state-mib 15
refused "--store 'rocks': lsm or memory is needed" --store=rocks
refused "--quorate '/no/such': no such file" --quorate /no/such
refused "unknown option '--raet'" --raet 5
refused '--rate needs a value' --rate
refused "--rate '3': the option is given twice" --rate 2 --rate=3
refused "unexpected argument 'x'" x
claim 'a bad number, an unknown store, option or file, a missing value and an option twice are refused in one line before anything is built'

run_script --help
expect_status 0
expect_in stdout 'Usage: raft_large_state.sh'
claim '--help tells the options'

run_script --state-mib 16
expect_status 1
expect_in stderr 'error: cluster status failed before anything was measured'
expect_no_leftovers
claim 'a cluster that does not say who leads is an error, and nothing is left running'
