#!/usr/bin/env bash
# The commands of README.md that show quorate by hand, word for word; only what would take long is made short (case B70).
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"

find_real_quorate
export PATH=${quorate%/*}:$PATH
mapfile -t commands < <(sed -n '/^## By hand/,/^## [^B]/p' "$repository/README.md" | grep '^quorate ')
((${#commands[@]} >= 8)) || not_so "README.md shows ${#commands[@]} commands of quorate, at least 8 expected"

cd "$work_folder"
ln -s "$repository/scripts" scripts
replicas=()
trap 'for pid in "${replicas[@]}"; do kill -s KILL "$pid" 2>/dev/null; done; end_test' EXIT

for command in "${commands[@]}"; do
    command=${command%%#*}
    case $command in
        *' serve '*)
            for id in 1 2 3; do
                bash -c "exec ${command/--id 1/--id $id}" </dev/null >"replica-$id.log" 2>&1 &
                replicas+=("$!")
            done
            continue ;;
        *' perf load '*) short='--duration 1 --warm-up 0.5' ;;
        *' perf limit '*) short='--duration 0.5' ;;
        *) short='' ;;
    esac
    status=0
    bash -c "$command $short" </dev/null >stdout 2>stderr || status=$?
    # A second on a busy machine may be too little for a result that can be quoted; that it says so is another test's matter.
    [[ $status == 0 || ($status == 3 && $command == *' perf load '*) ]] || not_so "exit status $status from: $command"
    [[ -s stdout ]] || not_so "no output from: $command"
done
((${#replicas[@]} == 3)) || not_so 'README.md starts no replicas'
for pid in "${replicas[@]}"; do
    kill -s TERM "$pid"
    wait "$pid" || not_so "a replica ended with $? at SIGTERM"
done
replicas=()
claim 'the commands of README.md run as they stand there'
