#!/usr/bin/env bash
# Bad input: one line that names option and value, exit status 2, and nothing is built.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    run_script "$@"
    expect_status 2
    expect_in stderr "$text"
    [[ $(wc -l <"$work_folder/stderr") == 1 ]] || not_so "one line expected for: $*"
    [[ ! -s $work_folder/stdout ]] || not_so "nothing on stdout expected for: $*"
    [[ ! -s $SHIM_RECORD ]] || not_so "nothing may be built for: $*"
}

for value in ten -1 0 1e9 5s 1.5 '' ' ' /tmp 99999999999999999999; do
    refused "--duration '$value'" --duration "$value"
    refused "--duration '$value'" "--duration=$value"
    refused "--repeat '$value'" --repeat "$value"
    refused "--base-port '$value'" --base-port "$value"
done
claim 'a number that is letters, negative, zero, too great, fractional, empty or a path is refused by option and value'

refused "unknown option '--durration'" --durration 5
refused '--duration needs a value' --duration
refused '--repeat '"'3'"': the option is given twice' --repeat 2 --repeat 3
refused "unexpected argument 'c'" a b c
refused "--base-port '17000': --free-ports is given too" --free-ports --base-port 17000
claim 'an unknown option, a missing value, an option twice, a third file and options against each other are refused'

refused "machines.conf '/no/such.conf': no such file" /no/such.conf
refused "machines.conf '$work_folder': not a regular file" "$work_folder"
printf 'iplist=(127.0.0.1 127.0.0.1)\nclient_num=1\n' >"$work_folder/two.conf"
refused "template.config 'missing.config': no such file" "$work_folder/two.conf" missing.config
claim 'a file that is missing or a folder is refused by name'

refused '--json after --' -- --json x
refused '--duration after --' -- --duration 5
refused "--window '0'" -- --window 0
refused "--rate 'fast'" -- --rate=fast
refused '--window after -- needs a value' -- --window
claim 'load options that the script sets itself, or that can not be split, are refused'

: >"$work_folder/file"
refused "--out '$work_folder/file'" --out "$work_folder/file"
claim 'an --out that is a file is refused before the build'
