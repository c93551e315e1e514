# shellcheck shell=bash
# Which commit a build is of; results and /status name it.

# Sets commit, with -dirty if a tracked file was changed, and exports it to the build as QUORATE_COMMIT. One that the caller has set is
# kept, as a packager does. Where there is no repository of our own (a tarball) nothing is set, and results say that it is not known.
# As long as the value stays the same cargo builds nothing again.
find_commit() { # REPOSITORY
    local above changed
    commit=${QUORATE_COMMIT:-}
    # The files may lie in somebody else's repository, whose commit says nothing about them.
    if [[ -z $commit ]] && above=$(git -C "$1" rev-parse --show-cdup 2>/dev/null) && [[ -z $above ]]; then
        commit=$(git -C "$1" rev-parse --verify HEAD 2>/dev/null) || commit=''
        if [[ -n $commit ]] && changed=$(git -C "$1" status --porcelain --untracked-files=no 2>/dev/null) && [[ -n $changed ]]; then
            commit+=-dirty
        fi
    fi
    if [[ -n $commit ]]; then
        export QUORATE_COMMIT=$commit
    else
        unset QUORATE_COMMIT # an empty one would be built in as a name
        commit=unknown
    fi
}
