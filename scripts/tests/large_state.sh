#!/usr/bin/env bash
# The script that brings a lagging replica back with a large snapshot: bad input, and a leader that is missing.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims
performance_script=$repository/scripts/deploy/performance_local/raft_large_state.sh

for value in ten -1 1e9 5s 1.5 '' ' ' 99999999999999999999; do
    for option in --state-mib --value-size --rate --before --settle --limit --memory-mib; do
        refused_in_one_line "$option '$value'" "$option" "$value"
    done
done
refused_in_one_line "--state-mib '15': a whole number from 16 to 16384" --state-mib 15
refused_in_one_line "--store 'rocks': lsm or memory is needed" --store=rocks
refused_in_one_line "--quorate '/no/such': no such file" --quorate /no/such
refused_in_one_line "unknown option '--raet'" --raet 5
refused_in_one_line '--rate needs a value' --rate
refused_in_one_line "--rate '3': the option is given twice" --rate 2 --rate=3
refused_in_one_line "unexpected argument 'x'" x
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
