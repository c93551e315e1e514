#!/usr/bin/env bash
# The template of the scripts.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"

cmp -- "$repository/scripts/deploy/config/raft.config" "$repository/config/samples/raft.config"
claim 'the template of the scripts and the sample of the configuration are the same bytes'

diff -- "$repository/scripts/deploy/config/raft.config" "$repository/scripts/deploy/config/raft_durable.config" >"$work_folder/difference" || true
[[ $(grep -c '^[<>]' "$work_folder/difference") == 2 ]] || not_so 'the durable template differs in more than one line'
expect_in "$work_folder/difference" '>   "recovery_enabled": true,'
claim 'the default template is the published one but for recovery_enabled'

mkdir "$work_folder/out"
use_shims
printf '{\n  "no_such_key": 1\n}\n' >"$work_folder/bad.config"
run_script "$repository/scripts/deploy/config/kv_performance_server_local.conf" "$work_folder/bad.config"
expect_status 2
expect_in stderr '$.no_such_key: unknown key'
expect_no_leftovers
claim 'a template that the binary refuses ends with its message and 2'
