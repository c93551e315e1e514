#!/usr/bin/env bash
# The commands of README.md that show quorate by hand, word for word; only what would take long is made short (case B70).
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"

find_real_quorate
export PATH=${quorate%/*}:$PATH
mapfile -t commands < <(sed -n '/^## By hand/,/^## [^B]/p' "$repository/README.md" | grep -E '^(quorate|for id) ')
((${#commands[@]} >= 12)) || not_so "README.md shows ${#commands[@]} commands of quorate, at least 12 expected"

cd "$work_folder"
ln -s "$repository/scripts" scripts
replicas=()
trap 'for pid in "${replicas[@]}"; do kill -s KILL "$pid" 2>/dev/null; done; end_test' EXIT

stop_replicas() {
    ((${#replicas[@]} == 3)) || not_so 'README.md starts no replicas'
    for pid in "${replicas[@]}"; do
        kill -s TERM "$pid"
        wait "$pid" || not_so "a replica ended with $? at SIGTERM"
    done
    replicas=()
}

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
        *' perf clients '*) short='--quick --clients 1,16 --duration 0.5 --warm-up 0.2' ;;
        *' perf wal '*) short='--quick' ;;
        *' wal check '*)
            short=''
            stop_replicas ;;
        *) short='' ;;
    esac
    status=0
    bash -c "$command $short" </dev/null >stdout 2>stderr || status=$?
    # A second on a busy machine may be too little for a result that can be quoted; that it says so is another test's matter.
    [[ $status == 0 || ($status == 3 && $command == *' perf '*) ]] || not_so "exit status $status from: $command"
    [[ -s stdout ]] || not_so "no output from: $command"
done
((${#replicas[@]} == 0)) || not_so 'README.md does not end with the check of a stopped replica'
claim 'the commands of README.md run as they stand there'
