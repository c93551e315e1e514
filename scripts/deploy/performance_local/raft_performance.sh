#!/usr/bin/env bash
# Runs ResilientDB's Raft performance experiment on this machine; --help tells the options.
set -Eeuo pipefail

deploy_folder=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")

# shellcheck source=scripts/deploy/script/messages.sh
source "$deploy_folder/script/messages.sh"
# shellcheck source=scripts/deploy/script/prerequisites.sh
source "$deploy_folder/script/prerequisites.sh"
require_bash 4 4
# shellcheck source=scripts/deploy/script/local_performance.sh
source "$deploy_folder/script/local_performance.sh"

local_performance raft "$@"
