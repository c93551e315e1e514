#!/usr/bin/env bash
# Puts known faults back, one at a time, into a copy of the tree, and shows which oracle of the simulator catches each, at which seed.
#
#   tests/simulation/mutants/run.sh [--seeds N] [--target-dir DIR] [MUTANT ...]
#
# A mutant is a patch beside this script. Its first lines say what it breaks. The tree itself is never touched. Exits 0 if every
# mutant was caught, the canary among them; 1 if one survived; 2 if one does not apply or build.
set -Eeuo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
root=$(cd "$here/../../.." && pwd -P)
seeds=2000
target_dir=
mutants=()
while (($#)); do
    case $1 in
    --seeds) seeds=${2:?--seeds needs a number}; shift 2 ;;
    --target-dir) target_dir=${2:?--target-dir needs a folder}; shift 2 ;;
    --help) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) echo "mutants: unknown option $1; see --help" >&2; exit 2 ;;
    *) mutants+=("$1"); shift ;;
    esac
done
if ! [[ $seeds =~ ^[1-9][0-9]*$ ]]; then
    echo "mutants: --seeds $seeds is not a number above 0" >&2
    exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/tree
mkdir "$copy"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - 2>/dev/null) | tar xf - -C "$copy"
export CARGO_TARGET_DIR=${target_dir:-$work/target}

if ((${#mutants[@]} == 0)); then
    for patch in "$here"/*.patch; do
        mutants+=("$(basename "$patch" .patch)")
    done
fi

survived=0
broken=0
for mutant in "${mutants[@]}"; do
    patch=$here/$mutant.patch
    if ! (cd "$copy" && patch --quiet --strip 1 <"$patch" >/dev/null); then
        echo "BROKEN    $mutant: the patch does not apply"
        broken=1
        continue
    fi
    if ! (cd "$copy" && cargo build --quiet --release --locked -p quorate-simulation --example simulate) 2>"$work/build.log"; then
        echo "BROKEN    $mutant: does not build"
        tail -n 5 "$work/build.log"
        broken=1
    elif "$CARGO_TARGET_DIR/release/examples/simulate" 0 "$seeds" >"$work/run.log" 2>&1; then
        echo "SURVIVED  $mutant: $seeds seeds"
        survived=1
    else
        echo "caught    $mutant: $(grep -m 1 -E '^VIOLATION|panicked' "$work/run.log" | cut -c 1-200)"
    fi
    (cd "$copy" && patch --quiet --strip 1 --reverse <"$patch" >/dev/null)
done
if ((broken)); then exit 2; fi
exit "$survived"
