#!/usr/bin/env bash
# What is needed for the build, and a build that fails.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

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
