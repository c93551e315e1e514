#!/usr/bin/env bash
# The machines file is data: two assignments and comments.
# shellcheck source=scripts/tests/lib/support.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/support.sh"
use_shims

refused() { # TEXT CONTENT
    printf '%b' "$2" >"$work_folder/machines.conf"
    run_script "$work_folder/machines.conf"
    expect_status 2
    expect_in stderr "$1"
    [[ ! -s $SHIM_RECORD ]] || not_so "nothing may be built for: $2"
}

refused "machines.conf:3: only iplist" "iplist=(127.0.0.1 127.0.0.1)\nclient_num=1\ntouch '$work_folder/ran'\n"
refused "machines.conf:1: '\$(touch' is not an address" "iplist=(\$(touch ran) 127.0.0.1)\nclient_num=1\n"
refused "machines.conf:2: client_num '\`touch" "iplist=(127.0.0.1 127.0.0.1)\nclient_num=\`touch ran\`\n"
refused "machines.conf:1: unexpected ' ; touch ran'" "iplist=(127.0.0.1 127.0.0.1) ; touch ran\nclient_num=1\n"
[[ ! -e $work_folder/ran && ! -e ran ]] || not_so 'a command in the machines file was run'
claim 'a command in the machines file is refused with its line number and not run'

refused "client_num '2': iplist holds 2 addresses, so no replica is left" 'iplist=(127.0.0.1 127.0.0.1)\nclient_num=2\n'
refused "client_num '9': iplist holds 2 addresses" 'iplist=(127.0.0.1 127.0.0.1)\nclient_num=9\n'
refused "machines.conf:1: client_num '0'" 'client_num=0\niplist=(127.0.0.1)\n'
refused 'client_num=N is missing' 'iplist=(127.0.0.1 127.0.0.1)\n'
refused 'iplist=( ... ) is missing' 'client_num=1\n'
refused 'iplist holds no address' 'iplist=()\nclient_num=1\n'
refused 'not closed' 'iplist=(\n127.0.0.1\n'
refused 'iplist is given twice' 'iplist=(127.0.0.1 127.0.0.1)\niplist=(127.0.0.1)\nclient_num=1\n'
claim 'a machines file without replicas, without an assignment or with one twice is refused'

refused "'10.0.0.7' is not an address of this machine" 'iplist=(\n127.0.0.1\n10.0.0.7\n127.0.0.1\n)\nclient_num=1\n'
refused "'127.0.0.1.example.org' is not an address of this machine" 'iplist=(127.0.0.1.example.org 127.0.0.1)\nclient_num=1\n'
expect_in stderr 'the script for remote machines does not exist yet'
claim 'an address of another machine is named, with the script it would need'

printf '# machines\r\n  iplist=( "127.0.0.1" localhost # two\r\n127.0.0.2\r\n)\r\n\r\nclient_num=01 \r\n' >"$work_folder/machines.conf"
run_script "$work_folder/machines.conf" --quick
expect_status 0
expect_in "$SHIM_RECORD" '--hosts 127.0.0.1,localhost --ports base'
claim 'comments, quotes, several addresses a line and DOS line ends are read'
