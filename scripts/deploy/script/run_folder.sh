# shellcheck shell=bash
# One fresh folder for each run; an old one is never used again.

# Sets run_folder to a new folder OUT/<UTC time>-<protocol>, with an absolute path.
make_run_folder() { # OUT PROTOCOL
    local name candidate attempt
    mkdir -p -- "$1" 2>/dev/null || bad_input "--out '$1': the folder can not be made"
    [[ -w $1 ]] || bad_input "--out '$1': the folder can not be written to"
    name=$(cd -- "$1" && pwd)/$(date -u +%Y%m%dT%H%M%SZ)-$2
    for ((attempt = 1; attempt <= 100; attempt++)); do
        candidate=$name
        ((attempt == 1)) || candidate+="-$attempt"
        if mkdir -- "$candidate" 2>/dev/null; then
            run_folder=$candidate
            return
        fi
    done
    fail "no run folder could be made in $1"
}

# What a reader needs to do the run again.
record_settings() { # FOLDER SCRIPT ARGUMENT...
    local folder=$1
    shift
    cp -- "$machines_file" "$folder/machines.conf"
    cp -- "$template_file" "$folder/template.config"
    printf '%q ' "$@" >"$folder/command.txt"
    printf '\n' >>"$folder/command.txt"
    {
        printf 'system: %s\n' "$(uname -srm)"
        printf 'processors: %s\n' "$(getconf _NPROCESSORS_ONLN)"
        printf 'cargo: %s\n' "$(cargo --version)"
        printf 'commit: %s\n' "$commit"
    } >"$folder/environment.txt"
}
