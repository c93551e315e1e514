#!/usr/bin/env bash
# Judges what a transaction costs against committed bounds: processor time and system calls, which are steady where throughput is not.
set -Eeuo pipefail

deploy_folder=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
repository=$(dirname -- "$(dirname -- "$deploy_folder")")
performance_script=$deploy_folder/performance_local/raft_performance.sh

# shellcheck source=scripts/deploy/script/messages.sh
source "$deploy_folder/script/messages.sh"
# shellcheck source=scripts/deploy/script/prerequisites.sh
source "$deploy_folder/script/prerequisites.sh"
require_bash 4 4
# shellcheck source=scripts/deploy/script/json.sh
source "$deploy_folder/script/json.sh"
# shellcheck source=scripts/deploy/script/checks.sh
source "$deploy_folder/script/checks.sh"

gate_usage() {
    cat <<'END_OF_USAGE'
Usage: performance_gate.sh [--bounds FILE] [--duration S] [--out DIR] [--help] [CASE...]

Runs a cluster in memory on this machine for each case, and fails if a figure of its result is above its bound.

  CASE            batches: 4 replicas, batches of 100, window 64
                  single:  3 replicas, single operations of 100 bytes on 10,000 keys, window 256 over 4 connections
                  (default: both)
  --bounds FILE   lines of: case figure measured factor; the bound is measured times factor
                  (default: scripts/deploy/config/performance_bounds.txt)
  --duration S    seconds measured for each case, 1 to 86400 (default 5)
  --out DIR       where run folders are made (default: results/ in the repository)

Exit codes: 0 all within their bounds, 1 a bound is broken or a run failed, 2 bad input, 3 a result was not valid.
END_OF_USAGE
}

read_arguments() { # ARGUMENT...
    local value
    bounds_file=$deploy_folder/config/performance_bounds.txt duration_s=5 out_folder=$repository/results cases=()
    while (($# > 0)); do
        case $1 in
            --help | -h) gate_usage; exit 0 ;;
            --bounds | --duration | --out)
                (($# > 1)) || bad_input "$1 needs a value (--help tells which)"
                value=$2
                case $1 in
                    --bounds) bounds_file=$value ;;
                    --duration) require_whole_number "$1" "$value" 1 86400; duration_s=$whole_number ;;
                    --out) require_folder_name "$1" "$value"; out_folder=$value ;;
                esac
                shift 2 ;;
            batches | single) cases+=("$1"); shift ;;
            -*) bad_input "unknown option '$1' (--help lists the options)" ;;
            *) bad_input "'$1' is no case: batches and single are" ;;
        esac
    done
    ((${#cases[@]} > 0)) || cases=(batches single)
    require_regular_file --bounds "$bounds_file"
}

# Sets bound_cases, bound_figures, bound_measured and bound_factors, of all bounds of the cases wanted.
read_bounds() {
    local line number=0 name figure measured factor rest value
    bound_cases=() bound_figures=() bound_measured=() bound_factors=()
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        line=${line%%#*}
        [[ $line =~ [^[:space:]] ]] || continue
        read -r name figure measured factor rest <<<"$line"
        [[ $name == batches || $name == single ]] || bad_input "$bounds_file:$number: '$name' is no case: batches and single are"
        [[ $figure =~ ^[a-z0-9_]+$ ]] || bad_input "$bounds_file:$number: '$figure' is not the name of a figure"
        for value in "$measured" "$factor"; do
            [[ $value =~ ^[0-9]+(\.[0-9]+)?$ && $value =~ [1-9] ]] || bad_input "$bounds_file:$number: '$value': a number above zero is needed"
        done
        [[ -z $rest ]] || bad_input "$bounds_file:$number: unexpected '$rest'"
        [[ " ${cases[*]} " == *" $name "* ]] || continue
        bound_cases+=("$name") bound_figures+=("$figure") bound_measured+=("$measured") bound_factors+=("$factor")
    done <"$bounds_file"
    for name in "${cases[@]}"; do
        [[ " ${bound_cases[*]-} " == *" $name "* ]] || bad_input "$bounds_file: there is no bound for the case $name"
    done
}

# Runs a case; sets result to its result file. A run without a valid result ends the gate.
run_case() { # CASE
    # The bounds were measured without a disk.
    local in_memory=$deploy_folder/config/raft.config
    local status=0 options=(--free-ports --duration "$duration_s" --out "$out_folder")
    case $1 in
        batches) options+=("$deploy_folder/config/kv_performance_server_local.conf" "$in_memory" -- --window 64) ;;
        single)
            printf 'iplist=(127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1)\nclient_num=1\n' >"$scratch/machines.conf"
            options+=("$scratch/machines.conf" "$in_memory" -- --batch 1 --window 256 --connections 4 --value-size 100 --keys 10000) ;;
    esac
    note "case $1"
    "$performance_script" "${options[@]}" >"$scratch/$1.txt" || status=$?
    if ((status == 3)); then
        note "error: the result of the case $1 was not valid, so it can not be judged"
        exit 3
    elif ((status != 0)); then
        note "error: the case $1 ended with $(describe_exit_status "$status")"
        exit $((status == 2 ? 2 : 1))
    fi
    result=$(tail -n 1 -- "$scratch/$1.txt")/result.json
}

# Prints the verdict on each figure of a case; counts broken bounds in broken.
judge_case() { # CASE
    local place verdict bound
    for place in "${!bound_cases[@]}"; do
        [[ ${bound_cases[place]} == "$1" ]] || continue
        read_json "$result" "${bound_figures[place]}" || fail "$result has no figure ${bound_figures[place]}"
        [[ $json_value != null ]] || fail "${bound_figures[place]} of the case $1 is null; the reason is in $result"
        bound=$(LC_ALL=C awk -v was="${bound_measured[place]}" -v factor="${bound_factors[place]}" 'BEGIN { printf "%.6g", was * factor }')
        verdict=ok
        if LC_ALL=C awk -v is="$json_value" -v bound="$bound" 'BEGIN { exit !(is > bound) }'; then
            verdict=BROKEN
            broken=$((broken + 1))
        fi
        LC_ALL=C printf '%-8s %-36s %10.4g %10.4g %10s %7s  %s\n' \
            "$1" "${bound_figures[place]}" "$json_value" "$bound" "${bound_measured[place]}" "${bound_factors[place]}" "$verdict" >>"$scratch/table"
    done
}

read_arguments "$@"
read_bounds
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
broken=0
printf '%-8s %-36s %10s %10s %10s %7s\n' case figure now bound measured factor >"$scratch/table"
for name in "${cases[@]}"; do
    run_case "$name"
    judge_case "$name"
done
cat -- "$scratch/table"
if ((broken > 0)); then
    fail "$broken bound(s) of $bounds_file broken: a transaction costs more than it may"
fi
