#!/usr/bin/env bash
# The main job with the real binary, short: what it measures must be believable. Its speed is not judged here.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
# shellcheck source=scripts/deploy/script/json.sh
source "$repository/scripts/deploy/script/json.sh"

run_script --quick
cat -- "$work_folder/stdout"
expect_status 0
expect_no_leftovers
find_run_folder
[[ $(tail -n 1 "$work_folder/stdout") == "$run_folder" ]]
result=$run_folder/result.json
claim 'the main job without arguments ends with a valid result'

if command -v python3 >/dev/null; then
    python3 -m json.tool "$result" >/dev/null
    claim 'result.json is well-formed'

    # Case B82: what the run was can be read from its result alone.
    find_real_quorate
    python3 -c 'import json, sys
settings = json.load(open(sys.argv[1]))["settings"]
json.dump(settings["cluster"], open(sys.argv[2], "w"))
print(json.dumps(settings["client"]))' "$result" "$work_folder/again.json" >"$work_folder/client"
    "$quorate" config check "$work_folder/again.json" >"$work_folder/again"
    "$quorate" config check "$run_folder/cluster.json" >"$work_folder/first"
    for described in again first; do
        sed -n '/^cluster /,/value_size_limit_bytes/p' "$work_folder/$described" >"$work_folder/$described-settings"
    done
    [[ $(wc -l <"$work_folder/first-settings") -gt 20 ]]
    cmp -- "$work_folder/again-settings" "$work_folder/first-settings"
    for option in duration_s warm_up_s window batch keys value_size_bytes read_share distribution rate_per_s connections threads seed deadline_ms; do
        expect_in "$work_folder/client" "\"$option\": "
    done
    claim 'the cluster file, with the same settings, and the options of the load can be made again from the result alone'

    [[ $commit == unknown ]] || expect_in "$result" "\"commit\": \"$commit\""
    claim 'the result names the commit of the build'
fi

read_json "$result" throughput_per_s
[[ $json_value =~ [1-9] ]] || not_so "throughput_per_s is $json_value"
read_json "$result" errors
[[ $json_value == 0 ]] || not_so "errors is $json_value"
claim 'transactions were completed, none with an error'

read_json "$result" little_law_ratio
awk -v ratio="$json_value" 'BEGIN { exit !(ratio >= 0.9 && ratio <= 1.1) }' || not_so "little_law_ratio is $json_value"
claim "Little's law holds within 10 %"

read_json "$result" durable
[[ $json_value == true || $json_value == false ]] || not_so "durable is $json_value"
for fact in fsync_ms rtt_ms; do
    read_json "$result" "$fact" p50 || not_so "$fact has no p50"
    [[ $json_value =~ [1-9] ]] || not_so "$fact is $json_value"
done
claim 'durability, sync time and round trip are known'
