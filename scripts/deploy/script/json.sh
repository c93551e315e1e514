# shellcheck shell=bash
# Reads single figures from the JSON files that the binary writes (flat objects, one level of nesting).

# Sets json_value to the number, true, false or null at "KEY", or at "KEY": {"INNER"}; fails if there is none.
read_json() { # FILE KEY [INNER]
    local text scalar='(-?[0-9][0-9.eE+-]*|true|false|null)' pattern
    text=$(<"$1")
    if (($# > 2)); then
        pattern="\"$2\"[[:space:]]*:[[:space:]]*\{([^{}]*[,{[:space:]])?\"$3\"[[:space:]]*:[[:space:]]*$scalar"
    else
        pattern="\"$2\"[[:space:]]*:[[:space:]]*()$scalar"
    fi
    json_value=''
    [[ $text =~ $pattern ]] || return 1
    json_value=${BASH_REMATCH[2]}
}

# Sets replica_ids, replica_addresses and replica_ports (both "peer http" of each replica) from a cluster file.
read_replicas() { # CLUSTER_FILE
    local text rest object
    text=$(<"$1")
    rest=${text#*'"replicas"'}
    replica_ids=() replica_addresses=() replica_ports=()
    while [[ $rest =~ \{([^{}]*\"id\"[^{}]*)\} ]]; do
        object=${BASH_REMATCH[1]}
        rest=${rest#*"${BASH_REMATCH[0]}"}
        [[ $object =~ \"id\"[[:space:]]*:[[:space:]]*([0-9]+) ]] || fail "$1: a replica has no id"
        replica_ids+=("${BASH_REMATCH[1]}")
        [[ $object =~ \"host\"[[:space:]]*:[[:space:]]*\"([^\"]*)\" ]] || fail "$1: replica ${replica_ids[-1]} has no host"
        replica_addresses+=("${BASH_REMATCH[1]}")
        [[ $object =~ \"port\"[[:space:]]*:[[:space:]]*([0-9]+) ]] || fail "$1: replica ${replica_ids[-1]} has no port"
        replica_ports+=("${BASH_REMATCH[1]}")
        if [[ $object =~ \"http_port\"[[:space:]]*:[[:space:]]*([0-9]+) ]]; then
            replica_ports[-1]+=" ${BASH_REMATCH[1]}"
        fi
    done
    ((${#replica_ids[@]} > 0)) || fail "$1: no replicas in the cluster file"
}
