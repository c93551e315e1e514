# shellcheck shell=bash
# Checks of what was given on a command line. Wants messages.sh.

# Sets whole_number to VALUE without leading zeros, or ends with one line that names the option.
require_whole_number() { # OPTION VALUE MINIMUM MAXIMUM
    if [[ ! $2 =~ ^[0-9]{1,9}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
        bad_input "$1 '$2': a whole number from $3 to $4 is needed"
    fi
    whole_number=$((10#$2))
}

# Takes the option with a value at the front of a command line, as "--name VALUE" or "--name=VALUE". Sets option, value and taken, the
# words it was, and adds it to seen: the caller's variables. Refuses what is none of NAMES, with HINT, and one given twice.
take_option() { # NAMES HINT WORD...
    local names=" $1 " hint=$2
    shift 2
    option=${1%%=*}
    [[ $option != *[[:space:]]* && $names == *" $option "* ]] || bad_input "unknown option '$1' (--help lists the options$hint)"
    if [[ $1 == *=* ]]; then
        # shellcheck disable=SC2034 # not every script that wants this file has options of this kind
        value=${1#*=} taken=1
    else
        (($# > 1)) || bad_input "$1 needs a value (--help tells which)"
        # shellcheck disable=SC2034
        value=$2 taken=2
    fi
    [[ $seen != *" $option "* ]] || bad_input "$option '$value': the option is given twice"
    seen+="$option "
}

require_folder_name() { # OPTION VALUE
    [[ -n $2 ]] || bad_input "$1 '': the name of a folder is needed"
}

# Sets executable to FILE with an absolute path.
require_executable() { # OPTION FILE
    require_regular_file "$1" "$2"
    [[ -x $2 ]] || bad_input "$1 '$2': not executable"
    # shellcheck disable=SC2034 # as above
    executable=$(readlink -f -- "$2")
}

require_regular_file() { # WHAT FILE
    [[ -e $2 ]] || bad_input "$1 '$2': no such file"
    [[ -f $2 ]] || bad_input "$1 '$2': not a regular file"
    [[ -r $2 ]] || bad_input "$1 '$2': the file can not be read"
}
