# shellcheck shell=bash
# Checks of what was given on a command line. Wants messages.sh.

# Sets whole_number to VALUE without leading zeros, or ends with one line that names the option.
require_whole_number() { # OPTION VALUE MINIMUM MAXIMUM
    if [[ ! $2 =~ ^[0-9]{1,9}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
        bad_input "$1 '$2': a whole number from $3 to $4 is needed"
    fi
    whole_number=$((10#$2))
}

require_regular_file() { # WHAT FILE
    [[ -e $2 ]] || bad_input "$1 '$2': no such file"
    [[ -f $2 ]] || bad_input "$1 '$2': not a regular file"
    [[ -r $2 ]] || bad_input "$1 '$2': the file can not be read"
}
