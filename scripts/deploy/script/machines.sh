# shellcheck shell=bash
# ResilientDB's machines file: iplist=( addresses ) and client_num=N, read as data and never run as a script.

# Sets machines (all addresses), replica_hosts and client_num.
read_machines() { # FILE
    local file=$1 line lines rest number=0 inside=0 seen_list=0
    machines=() client_num=''
    mapfile -t lines <"$file"
    for line in ${lines[@]+"${lines[@]}"}; do
        number=$((number + 1))
        line=${line%$'\r'}
        line=${line%%#*}
        if ((inside)); then
            read_addresses "$file" "$number" "$line"
        elif [[ $line =~ ^[[:space:]]*iplist=\((.*)$ ]]; then
            rest=${BASH_REMATCH[1]}
            ((seen_list == 0)) || bad_input "$file:$number: iplist is given twice"
            seen_list=1 inside=1
            read_addresses "$file" "$number" "$rest"
        elif [[ $line =~ ^[[:space:]]*client_num=(.*)$ ]]; then
            rest=${BASH_REMATCH[1]}
            [[ -z $client_num ]] || bad_input "$file:$number: client_num is given twice"
            rest=${rest%"${rest##*[![:space:]]}"}
            require_whole_number "$file:$number: client_num" "$rest" 1 1000
            client_num=$whole_number
        elif [[ $line =~ [^[:space:]] ]]; then
            bad_input "$file:$number: only iplist=( ... ), client_num=N and comments are understood, not '$line'"
        fi
    done
    ((inside == 0)) || bad_input "$file: iplist=( is not closed by )"
    ((seen_list)) || bad_input "$file: iplist=( ... ) is missing"
    [[ -n $client_num ]] || bad_input "$file: client_num=N is missing"
    split_machines "$file"
}

# Reads addresses up to the closing bracket; shares machines and inside with read_machines.
read_addresses() { # FILE LINE_NUMBER TEXT
    local text=${3%%')'*} word words
    read -ra words <<<"$text"
    for word in ${words[@]+"${words[@]}"}; do
        if [[ $word =~ ^\"([^\"]*)\"$ || $word =~ ^\'([^\']*)\'$ ]]; then
            word=${BASH_REMATCH[1]}
        fi
        [[ $word =~ ^[A-Za-z0-9._:-]+$ ]] || bad_input "$1:$2: '$word' is not an address"
        machines+=("$word")
    done
    if [[ $3 == *')'* ]]; then
        [[ ${3#*')'} =~ ^[[:space:]]*$ ]] || bad_input "$1:$2: unexpected '${3#*')'}' after iplist=( ... )"
        inside=0
    fi
}

split_machines() { # FILE
    local count=${#machines[@]}
    ((count > 0)) || bad_input "$1: iplist holds no address"
    if ((client_num >= count)); then
        bad_input "$1: client_num '$client_num': iplist holds $count addresses, so no replica is left"
    fi
    replica_hosts=("${machines[@]:0:count-client_num}")
}

require_loopback() { # FILE
    local address
    for address in "${machines[@]}"; do
        case $address in
            localhost | ::1) ;;
            *)
                [[ $address =~ ^127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$ ]] ||
                    bad_input "$1: '$address' is not an address of this machine (127.0.0.1, localhost): this script runs everything here; the script for remote machines does not exist yet" ;;
        esac
    done
}
