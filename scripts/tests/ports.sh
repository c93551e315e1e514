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
