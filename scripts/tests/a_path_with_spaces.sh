#!/usr/bin/env bash
# The whole checkout in a folder with spaces and non-ASCII letters.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

copy="$work_folder/my own café/quorate checkout"
mkdir -p "$copy"
cp -R "$repository/scripts" "$repository/Cargo.toml" "$copy/"
performance_script=$copy/scripts/deploy/performance_local/raft_performance.sh

status=0
"$performance_script" --quick >"$work_folder/stdout" 2>"$work_folder/stderr" </dev/null || status=$?
expect_status 0
[[ $(tail -n 1 "$work_folder/stdout") == "$copy/results/"*-raft ]]
[[ -s $(tail -n 1 "$work_folder/stdout")/result.json ]]
expect_no_leftovers
claim 'a checkout in a path with spaces runs, collects its results there and leaves no process'
