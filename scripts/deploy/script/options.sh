# shellcheck shell=bash
# The command line of a performance script. Wants checks.sh.

usage() { # PROTOCOL
    cat <<END
Usage: $1_performance.sh [machines.conf] [template.config] [options] [-- perf load options]

Builds quorate, starts a cluster on this machine, puts it under load, prints the result,
collects everything in a fresh run folder (its path is the last line) and stops what it started.

  machines.conf     iplist=( ... ) and client_num=N; the last N addresses are clients
                    (default: scripts/deploy/config/kv_performance_server_local.conf)
  template.config   JSON template of the cluster file
                    (default: scripts/deploy/config/$1_durable.config; the published settings, which keep
                    everything in memory, are scripts/deploy/config/$1.config)

  --duration S      measure for S seconds, 1 to 86400 (default 10; with --quick 3)
  --repeat N        N runs with a fresh cluster each, 1 to 100; prints median and min-max (default 1)
  --quick           a short run: 3 s after a warm-up of 1 s
  --out DIR         where run folders are made (default: results/ in the repository)
  --base-port P     first port of the replicas, with the HTTP ports above it (default 17000)
  --free-ports      take the first free block of ports whatever else is given
  --help            this text

Without machines.conf, template.config and --base-port the first free block of ports is taken;
with any of them a busy port is an error.

What follows -- goes to 'quorate perf load' unchanged, for example:  -- --window 64 --value-size 256
--window and --rate are totals: they are split over the clients.

Exit codes: 0 valid result, 1 failed, 2 bad input, 3 the result failed its own validity checks.
END
}

# Sets machines_file, template_file, duration_s, repeat, quick, free_ports, out_folder, base_port and load_options.
parse_options() { # PROTOCOL ARGUMENT...
    local protocol=$1 option value taken seen=' '
    shift
    local files=()
    machines_file='' template_file='' duration_s='' repeat=1 quick=0 free_ports=0 out_folder='' base_port='' load_options=()
    while (($# > 0)); do
        case $1 in
            --) shift; load_options=("$@"); break ;;
            --help | -h) usage "$protocol"; exit 0 ;;
            --quick) quick=1; shift; continue ;;
            --free-ports) free_ports=1; shift; continue ;;
            -*)
                take_option '--duration --repeat --out --base-port' '; perf load options go after --' "$@"
                shift "$taken"
                set_option "$option" "$value" ;;
            *) files+=("$1"); shift ;;
        esac
    done
    ((${#files[@]} <= 2)) || bad_input "unexpected argument '${files[2]}': only machines.conf and template.config are taken"
    choose_files "$protocol" "${files[@]}"
    check_load_options
    [[ -n $duration_s ]] || duration_s=$((quick ? 3 : 10))
    : "${out_folder:=$repository/results}"
}

set_option() { # OPTION VALUE
    case $1 in
        --duration) require_whole_number "$1" "$2" 1 86400; duration_s=$whole_number ;;
        --repeat) require_whole_number "$1" "$2" 1 100; repeat=$whole_number ;;
        --base-port) require_whole_number "$1" "$2" 1024 60000; base_port=$whole_number ;;
        --out) require_folder_name "$1" "$2"; out_folder=$2 ;;
    esac
}

# ports is "free" when nothing on the command line speaks of ports, or it is asked for.
choose_files() { # PROTOCOL [machines.conf [template.config]]
    ports=base
    (($# > 1)) || [[ -n $base_port ]] || ports=free
    if ((free_ports)); then
        [[ -z $base_port ]] || bad_input "--base-port '$base_port': --free-ports is given too"
        ports=free
    fi
    machines_file=${2:-$deploy_folder/config/kv_performance_server_local.conf}
    template_file=${3:-$deploy_folder/config/$1_durable.config}
    require_regular_file machines.conf "$machines_file"
    require_regular_file template.config "$template_file"
}

# The script itself says where the results go and how long a run takes.
check_load_options() {
    local option
    for option in ${load_options[@]+"${load_options[@]}"}; do
        case ${option%%=*} in
            --cluster | --json | --output) bad_input "${option%%=*} after --: the script sets it itself" ;;
            --duration) bad_input "--duration after --: give it before --" ;;
        esac
    done
}
