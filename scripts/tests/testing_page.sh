#!/usr/bin/env bash
# docs/TESTING.md names tests and files; each of them exists.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"

page=$repository/docs/TESTING.md
# shellcheck disable=SC2016 # the backticks are those of the page
mapfile -t names < <(grep -oE '`[a-z0-9_]+(_[a-z0-9]+){3,}`' "$page" | tr -d '`' | sort -u)
((${#names[@]} > 60)) || not_so "only ${#names[@]} names of tests were found"
grep -rhoE --include='*.rs' --exclude-dir=target 'fn [a-z0-9_]+' "$repository"/{config,consensus,recovery,executor,communicator,platform,tests} |
    sed 's/^fn //' | sort -u >"$work_folder/functions"
missing=$(printf '%s\n' "${names[@]}" | grep -vxFf "$work_folder/functions" || true)
[[ -z $missing ]] || not_so "docs/TESTING.md names what does not exist: $missing"
claim 'every test that docs/TESTING.md names exists'

# shellcheck disable=SC2016
mapfile -t files < <(grep -oE '`[A-Za-z0-9_./-]+/[A-Za-z0-9_.-]+`' "$page" | tr -d '`' | sort -u)
((${#files[@]} > 15)) || not_so "only ${#files[@]} names of files were found"
for file in "${files[@]}"; do
    [[ -e $repository/$file || $file == /status ]] || not_so "docs/TESTING.md names the file $file, which does not exist"
done
# shellcheck disable=SC2016
while read -r mutant; do
    [[ -e $repository/tests/simulation/mutants/$mutant.patch ]] || not_so "docs/TESTING.md names the mutant $mutant, which does not exist"
done < <(sed -n 's/.*mutants\{0,1\} `\([a-z0-9-]*\)`.*/\1/p; s/.*| `\([a-z]*-[a-z0-9-]*\)` |$/\1/p' "$page")
claim 'every file and mutant that docs/TESTING.md names exists'
