#!/usr/bin/env bash
# Bad input: one line that names option and value, exit status 2, and nothing is built.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

for value in ten -1 0 1e9 5s 1.5 '' ' ' /tmp 99999999999999999999; do
    refused_in_one_line "--duration '$value'" --duration "$value"
    refused_in_one_line "--duration '$value'" "--duration=$value"
    refused_in_one_line "--repeat '$value'" --repeat "$value"
    refused_in_one_line "--base-port '$value'" --base-port "$value"
done
claim 'a number that is letters, negative, zero, too great, fractional, empty or a path is refused by option and value'

refused_in_one_line "unknown option '--durration'" --durration 5
refused_in_one_line '--duration needs a value' --duration
refused_in_one_line '--repeat '"'3'"': the option is given twice' --repeat 2 --repeat 3
refused_in_one_line "unexpected argument 'c'" a b c
refused_in_one_line "--base-port '17000': --free-ports is given too" --free-ports --base-port 17000
claim 'an unknown option, a missing value, an option twice, a third file and options against each other are refused'

refused_in_one_line "machines.conf '/no/such.conf': no such file" /no/such.conf
refused_in_one_line "machines.conf '$work_folder': not a regular file" "$work_folder"
printf 'iplist=(127.0.0.1 127.0.0.1)\nclient_num=1\n' >"$work_folder/two.conf"
refused_in_one_line "template.config 'missing.config': no such file" "$work_folder/two.conf" missing.config
claim 'a file that is missing or a folder is refused by name'

refused_in_one_line '--json after --' -- --json x
refused_in_one_line '--duration after --' -- --duration 5
refused_in_one_line "--window '0'" -- --window 0
refused_in_one_line "--rate 'fast'" -- --rate=fast
refused_in_one_line '--window after -- needs a value' -- --window
claim 'load options that the script sets itself, or that can not be split, are refused'

: >"$work_folder/file"
refused_in_one_line "--out '$work_folder/file'" --out "$work_folder/file"
claim 'an --out that is a file is refused before the build'
