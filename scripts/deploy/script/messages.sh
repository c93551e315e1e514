# shellcheck shell=bash
# What the scripts say: progress and errors on stderr, results on stdout.
# Exit codes as in the binary: 0 ok, 1 failed, 2 bad input, 3 inconclusive.

note() {
    printf '%s\n' "$*" >&2
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

bad_input() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# A command that failed where no failure was expected is at least named with its place.
say_unexpected_failure() { # STATUS FILE LINE COMMAND
    printf 'error: %s:%s: exit status %s from: %s\n' "$2" "$3" "$1" "$4" >&2
}

show_log_end() { # FILE [LINES]
    local file=$1 lines=${2:-20}
    if [[ -s $file ]]; then
        note "  the last lines of $file:"
        tail -n "$lines" -- "$file" | sed 's/^/  | /' >&2
    else
        note "  $file is empty"
    fi
}

describe_exit_status() { # STATUS
    if (($1 > 128)); then
        printf 'exit status %s (signal %s)' "$1" "$(kill -l "$1")"
    else
        printf 'exit status %s' "$1"
    fi
}
