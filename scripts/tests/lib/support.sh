# shellcheck shell=bash
# What every test of the scripts uses. A test file sources it, makes claims, and prints "ok - sentence" for each.
set -Eeuo pipefail

tests_folder=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
repository=$(dirname -- "$(dirname -- "$tests_folder")")
performance_script=$repository/scripts/deploy/performance_local/raft_performance.sh

# Everything a test makes lies here; its name is in the command line of every process the scripts start for it.
work_folder=$(mktemp -d "${TMPDIR:-/tmp}/quorate script test.XXXXXX")
trap end_test EXIT
trap 'printf "not ok - %s:%s: %s\n" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND"' ERR

end_test() {
    local status=$?
    trap - ERR
    set +e
    if ((status != 0)); then
        printf '  exit status %s; what the script said:\n' "$status"
        sed 's/^/  > /' "$work_folder/stdout" "$work_folder/stderr" 2>/dev/null
    fi
    stop_listener
    find_leftovers
    local pid
    for pid in $leftovers; do
        kill -s KILL "$pid" 2>/dev/null
    done
    rm -rf -- "$work_folder"
    exit "$status"
}

# A cargo and a quorate that only act their parts, see shim/. Every SHIM_ variable is a way for them to behave.
use_shims() {
    mkdir -p "$work_folder/bin" "$work_folder/target" "$work_folder/out"
    cp -- "$tests_folder/lib/shim/cargo" "$work_folder/bin/cargo"
    export PATH=$work_folder/bin:$PATH
    export CARGO_TARGET_DIR=$work_folder/target
    export SHIM_QUORATE=$tests_folder/lib/shim/quorate SHIM_RECORD=$work_folder/record
    : >"$SHIM_RECORD"
}

# Sets quorate to the real binary, which scripts/test has built; cargo says where it lies.
find_real_quorate() {
    # shellcheck source=scripts/deploy/script/commit.sh
    source "$repository/scripts/deploy/script/commit.sh"
    find_commit "$repository"
    (cd -- "$repository" && cargo build --release --locked -p quorate --message-format=json-render-diagnostics) \
        >"$work_folder/artifacts" 2>"$work_folder/stderr"
    quorate=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$work_folder/artifacts" | tail -n 1)
    [[ -x $quorate ]] || not_so "cargo named no binary: $(<"$work_folder/artifacts")"
}

# Runs the performance script to its end; sets status, and leaves its output in work_folder/stdout and stderr.
run_script() { # ARGUMENT...
    status=0
    [[ -z ${SHIM_RECORD:-} ]] || : >"$SHIM_RECORD"
    "$performance_script" --out "$work_folder/out" "$@" </dev/null >"$work_folder/stdout" 2>"$work_folder/stderr" || status=$?
}

# Bad input: one line with this text on stderr, and nothing is built.
refused_in_one_line() { # TEXT ARGUMENT...
    local text=$1
    shift
    run_script "$@"
    expect_status 2
    expect_in stderr "$text"
    [[ $(wc -l <"$work_folder/stderr") == 1 ]] || not_so "one line expected for: $*"
    [[ ! -s $work_folder/stdout ]] || not_so "nothing on stdout expected for: $*"
    [[ ! -s $SHIM_RECORD ]] || not_so "nothing may be built for: $*"
}

# Starts it in a process group of its own, as a terminal would, with signals as a terminal sets them. Sets script_process.
start_script() { # ARGUMENT...
    [[ -z ${SHIM_RECORD:-} ]] || : >"$SHIM_RECORD"
    set -m
    env --default-signal=INT,TERM,HUP "$performance_script" --out "$work_folder/out" "$@" \
        </dev/null >"$work_folder/stdout" 2>"$work_folder/stderr" &
    script_process=$!
    set +m
}

wait_for_script() {
    status=0
    wait "$script_process" || status=$?
}

# Waits until a command succeeds, at most 60 s.
wait_until() { # COMMAND...
    local deadline=$((SECONDS + 60))
    until "$@"; do
        ((SECONDS < deadline)) || not_so "within 60 s: $*"
        sleep 0.05
    done
}

not_so() {
    printf 'not ok - %s\n' "$*"
    trap - ERR
    exit 1
}

claim() { # SENTENCE
    printf 'ok - %s\n' "$1"
}

expect_status() { # STATUS
    [[ $status == "$1" ]] || not_so "exit status $1 expected, got $status"
}

expect_in() { # stdout|stderr|FILE TEXT
    local file=$1
    [[ $file == /* ]] || file=$work_folder/$file
    grep -qF -- "$2" "$file" || not_so "'$2' expected in $1"
}

expect_not_in() { # stdout|stderr|FILE TEXT
    local file=$1
    [[ $file == /* ]] || file=$work_folder/$file
    ! grep -qF -- "$2" "$file" || not_so "'$2' not expected in $1"
}

# Sets leftovers to the processes whose command line names this test's folder.
find_leftovers() {
    local entry pid
    leftovers=''
    for entry in /proc/[0-9]*; do
        pid=${entry#/proc/}
        [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
        if { tr '\0' ' ' <"$entry/cmdline"; } 2>/dev/null | grep -qF -- "$work_folder"; then
            leftovers+=" $pid"
        fi
    done
}

expect_no_leftovers() {
    find_leftovers
    local pid
    for pid in $leftovers; do
        printf '  left over: %s %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
    done
    [[ -z $leftovers ]] || not_so "processes were left behind:$leftovers"
}

# The run folder of the only run of this test.
find_run_folder() {
    local folders=("$work_folder/out"/*-raft*)
    run_folder=${folders[-1]}
    [[ -d $run_folder ]] || not_so "no run folder was made"
}

# Listens on a port that the system chooses. Sets listener_process and busy_port.
listener_process='' busy_port=''
listen_somewhere() {
    local program='import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(300)'
    if command -v python3 >/dev/null; then
        python3 -c "$program" >"$work_folder/port" &
    else
        perl -MIO::Socket::INET -e '$| = 1; my $s = IO::Socket::INET->new(Listen => 8, LocalAddr => "127.0.0.1", LocalPort => 0) or die;
            print $s->sockport, "\n"; sleep 300' >"$work_folder/port" &
    fi
    listener_process=$!
    wait_until test -s "$work_folder/port"
    busy_port=$(<"$work_folder/port")
    [[ -n $busy_port ]]
}

# A listener on a port that may also be a base port.
start_listener() {
    local attempt
    for attempt in {1..50}; do
        listen_somewhere
        ((busy_port < 3000 || busy_port > 59000)) || return 0
        stop_listener
        : >"$work_folder/port"
    done
    not_so "no port from 3000 to 59000 in $attempt attempts"
}

stop_listener() {
    [[ -z $listener_process ]] || kill "$listener_process" 2>/dev/null
    listener_process=''
}
