# shellcheck shell=bash
# What must be installed before anything is built. Until require_bash has run, old shells read this file: keep its syntax plain.

require_bash() { # MAJOR MINOR
    if ((BASH_VERSINFO[0] < $1 || (BASH_VERSINFO[0] == $1 && BASH_VERSINFO[1] < $2))); then
        fail "bash $1.$2 or newer is needed, this is bash $BASH_VERSION: install a newer bash and start the script with it"
    fi
}

require_build_tools() { # REPOSITORY
    local minimum
    minimum=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$1/Cargo.toml")
    if ! command -v cargo >/dev/null; then
        fail "cargo is missing: install Rust ${minimum:-stable} or newer (https://rustup.rs, default profile), open a new shell and try again"
    fi
    if ! command -v "${CC:-cc}" >/dev/null; then
        fail "a C compiler (${CC:-cc}) is missing: install one, on Debian and Ubuntu with: apt-get install gcc libc6-dev"
    fi
}
