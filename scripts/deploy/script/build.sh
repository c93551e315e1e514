# shellcheck shell=bash
# Builds the binary from this checkout.

# Sets quorate to the path of the release binary.
build_quorate() { # FOLDER
    local artifacts=$1/build-artifacts.json log=$1/build.log errors
    # A relative CARGO_TARGET_DIR is meant from where the user stands, but cargo is started in the repository.
    if [[ -n ${CARGO_TARGET_DIR:-} && $CARGO_TARGET_DIR != /* ]]; then
        export CARGO_TARGET_DIR=$PWD/$CARGO_TARGET_DIR
    fi
    errors=$log
    if [[ -t 2 ]]; then
        errors=- # cargo shows its own progress on a terminal
    fi
    note "building quorate (release); the first build takes some minutes"
    start_process "$artifacts" "$errors" in_folder "$repository" \
        cargo build --release --locked -p quorate --message-format=json-render-diagnostics
    wait_for_end 7200 "$started_process" || fail "the build did not end within two hours"
    read_exit_status "$started_process"
    if ((exit_status != 0)); then
        note "error: the build failed ($(describe_exit_status "$exit_status"))"
        [[ $errors == - ]] || show_log_end "$log" 30
        exit 1
    fi
    find_built_binary "$artifacts"
    rm -f -- "$artifacts"
}

in_folder() { # FOLDER COMMAND...
    cd -- "$1" || return
    shift
    exec "$@"
}

# Cargo says itself where the binary lies, whatever target folder or triple its configuration chose.
find_built_binary() { # ARTIFACTS
    quorate=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$1" | tail -n 1)
    [[ -n $quorate && -x $quorate ]] || fail "cargo built no executable called quorate (see $1)"
}
