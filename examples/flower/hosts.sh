#!/usr/bin/env bash
# Hosts to rehearse on: a server and three sites on one Linux machine, each in a network namespace with its own address.
#   sudo examples/flower/hosts.sh up      then, for every command: sudo ip netns exec fedvls-server COMMAND
#   sudo examples/flower/hosts.sh cut 1   pulls the cable of site 1; `mend 1` plugs it in again
#   sudo examples/flower/hosts.sh down    ends what runs on the hosts and removes them
# The server is 10.77.0.5 and superlink.example.org, site N is fedvls-site-N and 10.77.0.1N. PREFIX is another name than
# fedvls, of at most 8 letters.
set -Eeuo pipefail
prefix=${PREFIX:-fedvls} network=10.77.0
declare -A addresses=([server]=5 [site-0]=10 [site-1]=11 [site-2]=12)

cable_of() { echo "$prefix-${1#site-}"; }

up() {
    if ip link show "$prefix" &>/dev/null; then
        echo "$prefix is there already: $0 down" >&2
        exit 1
    fi
    trap down ERR # all or nothing
    ip link add "$prefix" type bridge
    ip link set "$prefix" up
    for host in "${!addresses[@]}"; do
        local name=$prefix-$host
        ip netns add "$name"
        ip link add "$(cable_of "$host")" type veth peer name eth0 netns "$name"
        ip link set "$(cable_of "$host")" master "$prefix" up
        ip -n "$name" link set lo up
        ip -n "$name" address add "$network.${addresses[$host]}/24" dev eth0
        ip -n "$name" link set eth0 up
        mkdir -p "/etc/netns/$name"
        printf '127.0.0.1 localhost\n%s superlink.example.org\n' "$network.${addresses[server]}" >"/etc/netns/$name/hosts"
    done
}

down() {
    for host in "${!addresses[@]}"; do
        local name=$prefix-$host
        ip netns pids "$name" | xargs -r kill || true
        ip link delete "$(cable_of "$host")" || true
        ip netns delete "$name" || true
        rm -rf "/etc/netns/$name"
    done
    ip link delete "$prefix" || true
} 2>/dev/null

case "${1:-}" in
    up) up ;;
    down) down ;;
    cut) ip link set "$(cable_of "$2")" down ;;
    mend) ip link set "$(cable_of "$2")" up ;;
    *) sed -n '2,7s/^# //p' "$0"; exit 2 ;;
esac
