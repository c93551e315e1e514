#!/usr/bin/env bash
# Ports in use.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

start_listener
run_script --base-port "$busy_port"
expect_status 1
expect_in stderr "error: port $busy_port of replica 1 (127.0.0.1) is in use"
expect_not_in "$SHIM_RECORD" 'serve '
expect_no_leftovers
claim 'a busy port that the user chose is named before a replica is started'

run_script --base-port $((busy_port - 1000))
expect_status 1
expect_in stderr "error: port $busy_port of replica 1 (127.0.0.1) is in use"
claim 'a busy HTTP port is named too'

stop_listener
run_script "$repository/scripts/deploy/config/kv_performance_server_local.conf" --quick
expect_status 0
expect_in "$SHIM_RECORD" '--ports base'
claim 'a machines file on the command line means the ports of the configuration'

# Between the look for free ports and the start of the replicas somebody else may come.
export SHIM_WAIT_S=2
SHIM_LOST_PORTS=2 run_script --quick
expect_status 0
[[ $(grep -c '^config new ' "$SHIM_RECORD") == 3 ]] || not_so 'three attempts expected'
[[ $(grep -c '^perf load ' "$SHIM_RECORD") == 1 ]]
expect_in stderr 'somebody else has taken a port meanwhile: trying others'
expect_no_leftovers
claim 'free ports that somebody takes before the replicas do are chosen again'

SHIM_LOST_PORTS=99 run_script --quick
expect_status 1
[[ $(grep -c '^config new ' "$SHIM_RECORD") == 5 ]] || not_so 'five attempts expected'
expect_in stderr 'error: replica 2 ended before the cluster was ready with exit status 1'
expect_in stderr '| error: port 63001'
expect_no_leftovers
SHIM_LOST_PORTS=1 run_script --quick --base-port "$busy_port"
expect_status 1
[[ $(grep -c '^config new ' "$SHIM_RECORD") == 1 ]] || not_so 'one attempt expected'
expect_in stderr '| error: port 63001'
claim 'but not for ever, and not if the user chose the ports'
