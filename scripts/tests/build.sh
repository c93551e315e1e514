#!/usr/bin/env bash
# What is needed for the build, and a build that fails.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

expect_built_commit() { # TEXT
    [[ $(sed -n 's/^built commit //p' "$SHIM_RECORD") == "$1" ]] || not_so "commit '$1' expected: $(cat "$SHIM_RECORD")"
    find_run_folder
    expect_in "$run_folder/environment.txt" "commit: ${1:-unknown}"
}

copy="$work_folder/a checkout"
mkdir -p "$copy"
cp -R "$repository/scripts" "$repository/Cargo.toml" "$copy/"
performance_script=$copy/scripts/deploy/performance_local/raft_performance.sh
unset QUORATE_COMMIT
run_script --quick
expect_built_commit ''
QUORATE_COMMIT=v1.2.3 run_script --quick
expect_built_commit v1.2.3
if command -v git >/dev/null; then
    in_copy() {
        git -C "$copy" -c user.name=Tester -c user.email=tester@example.org -c init.defaultBranch=main "$@" >"$work_folder/git" 2>&1
    }
    in_copy init
    in_copy add .
    in_copy commit -m first
    run_script --quick
    expect_built_commit "$(git -C "$copy" rev-parse HEAD)"
    : >"$copy/cluster.json"
    run_script --quick
    expect_built_commit "$(git -C "$copy" rev-parse HEAD)"
    printf '\n' >>"$copy/Cargo.toml"
    run_script --quick
    expect_built_commit "$(git -C "$copy" rev-parse HEAD)-dirty"
    in_copy checkout Cargo.toml
    mv -- "$copy" "$work_folder/elsewhere"
    mkdir -p "$copy/vendored"
    mv -- "$work_folder/elsewhere/.git" "$copy/"
    mv -- "$work_folder/elsewhere" "$copy/vendored/quorate"
    performance_script=$copy/vendored/quorate/scripts/deploy/performance_local/raft_performance.sh
    run_script --quick
    expect_built_commit ''
fi
performance_script=$repository/scripts/deploy/performance_local/raft_performance.sh
claim 'a build is told its commit: the one of its own repository, -dirty after a change of a tracked file, or the one that is set'

SHIM_BUILD_FAILS=1 run_script
expect_status 1
expect_in stderr 'error: the build failed (exit status 101)'
expect_in stderr '| error[E0308]: mismatched types'
expect_not_in "$SHIM_RECORD" 'config new'
expect_no_leftovers
claim 'a failed build ends the run with the last lines of the build'

# A PATH with everything but the tool in question.
path_without() { # TOOL
    local folder name
    rm -rf -- "$work_folder/path"
    mkdir "$work_folder/path"
    local folders
    IFS=: read -ra folders <<<"$PATH"
    for folder in "${folders[@]}"; do
        for name in "$folder"/*; do
            [[ ${name##*/} == "$1" || -e $work_folder/path/${name##*/} ]] || ln -s -- "$name" "$work_folder/path/"
        done
    done
}

path_without cargo
PATH=$work_folder/path run_script
expect_status 1
expect_in stderr 'cargo is missing: install Rust 1.'
path_without cc
PATH=$work_folder/path run_script
expect_status 1
expect_in stderr 'a C compiler (cc) is missing: install one, on Debian and Ubuntu with: apt-get install gcc libc6-dev'
[[ ! -s $SHIM_RECORD ]] || not_so 'nothing may be built without a C compiler'
claim 'a missing cargo or C compiler is named with what to install'

status=0
(
    # shellcheck source=scripts/deploy/script/messages.sh
    source "$repository/scripts/deploy/script/messages.sh"
    # shellcheck source=scripts/deploy/script/prerequisites.sh
    source "$repository/scripts/deploy/script/prerequisites.sh"
    require_bash 4 4
    require_bash 99 0
) 2>"$work_folder/bash-version" || status=$?
expect_status 1
expect_in "$work_folder/bash-version" 'bash 99.0 or newer is needed'
claim 'a bash that is too old is named'
