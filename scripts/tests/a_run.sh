#!/usr/bin/env bash
# A run from start to end.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

run_script
expect_status 0
expect_in stdout 'throughput 1000 per s'
find_run_folder
[[ $(tail -n 1 "$work_folder/stdout") == "$run_folder" ]]
for file in result.json cluster.json config-new.log machines.conf template.config command.txt environment.txt replica-4/replica.log; do
    [[ -s $run_folder/$file ]] || not_so "$file is missing in the run folder"
done
expect_no_leftovers
claim 'a run without arguments prints the result and, as its last line, the folder with result, settings and logs'

expect_not_in stderr 'not durable'
grep -q '"recovery_enabled": true' "$run_folder/template.config" || not_so 'the default template does not ask for durability'
for data in "$run_folder"/replica-*/data; do
    [[ ! -e $data ]] || not_so "$data is left"
done
claim 'a run without arguments is durable, and what its replicas kept is removed at its end'

[[ $(grep -c '^serve ' "$SHIM_RECORD") == 4 ]]
[[ $(grep -c '^init --bootstrap ' "$SHIM_RECORD") == 4 ]]
[[ $(grep -c '^perf load .*--duration 10 ' "$SHIM_RECORD") == 1 ]]
expect_in "$SHIM_RECORD" '--ports free'
claim 'the default is four replicas, one client, ten seconds and free ports'

default_folder=$run_folder
run_script --free-ports "$repository/scripts/deploy/config/kv_performance_server_local.conf" "$repository/scripts/deploy/config/raft.config"
expect_status 0
expect_in stderr 'not durable'
claim 'a run with the published settings holds everything in memory and says so'

run_folder=$default_folder
first_result=$(cksum <"$run_folder/result.json")
run_script --quick --duration 7 -- --value-size 256
expect_status 0
expect_in "$SHIM_RECORD" '--duration 7 --warm-up 1 --json '
expect_in "$SHIM_RECORD" 'client-1.json --value-size 256'
[[ $(tail -n 1 "$work_folder/stdout") != "$run_folder" ]]
[[ $(cksum <"$run_folder/result.json") == "$first_result" ]]
claim 'a second run takes a fresh folder, and options after -- reach perf load'

mkdir "$work_folder/elsewhere"
ln -s "$performance_script" "$work_folder/elsewhere/a link"
cd "$work_folder/elsewhere"
status=0
'./a link' --quick --out 'a folder' >"$work_folder/stdout" 2>"$work_folder/stderr" || status=$?
expect_status 0
[[ $(tail -n 1 "$work_folder/stdout") == "$work_folder/elsewhere/a folder/"*-raft ]]
claim 'the script runs through a symbolic link, from any folder, into a folder with a space in its name'

status=0
"$performance_script" --help >"$work_folder/stdout" 2>"$work_folder/stderr" || status=$?
expect_status 0
expect_in stdout '--duration S'
[[ ! -s $work_folder/stderr ]]
claim '--help goes to stdout and ends with 0'
