#!/usr/bin/env bash
# A DRVS of three nodes on this machine, two VMs over different subsets, parameters from LDAP.
#
#     north        east        south
#     [--- shop (3) ---]
#                  [--- bank (4) ---]
#
# Usage: run.sh [FOLDER OF THE PROGRAMS]. Without slapd, the file gives the parameters.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "${1:-target/debug}" && pwd)
work=$(mktemp -d)
export M3_DAEMON=$bin/m3
children=()

finish() {
    local code=$?
    for node in north east south; do
        "$bin/m3" down --runtime-dir "$work/$node" >/dev/null 2>&1 || true
    done
    for pid in "${children[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    if ((code)); then
        for log in "$work"/*.log; do
            echo "--- $log"
            cat "$log"
        done
    fi
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT

start() { # LOG COMMAND...: in the background
    local log=$work/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null &
    children+=($!)
}

try() { # COMMAND...: until it succeeds, for a minute
    local until=$((SECONDS + 60))
    while ! "$@" >"$work/try.log" 2>&1; do
        ((SECONDS < until)) || { cat "$work/try.log" >&2; return 1; }
        sleep 0.1
    done
}

say() { printf '%-9s %s\n' "$1" "${*:2}"; }

# Three free ports of loopback, below those that the kernel gives to connections of other programs.
ports=$(python3 -c '
import random, socket
all = []
for port in random.sample(range(10000, 32000), 1000):
    it = socket.socket()
    try: it.bind(("127.0.0.1", port))
    except OSError: continue
    all.append(it)
    if len(all) == 3: break
print(*(it.getsockname()[1] for it in all))')
read -r north east south <<<"$ports"
sed "s/@NORTH@/$north/; s/@EAST@/$east/; s/@SOUTH@/$south/" "$here/nodes.toml" >"$work/nodes.toml"
"$bin/m3-proxy" keys --dir "$work/keys" north east south >/dev/null
say keys "a CA and a certificate for each node"

slapd=$(PATH=$PATH:/usr/sbin command -v slapd || true)
if [[ $slapd ]]; then
    # slapd of the user of this shell, on a socket in this folder.
    mkdir "$work/db"
    "$bin/m3-registry" ldap schema >"$work/m3ipc.schema"
    cat >"$work/slapd.conf" <<END
include $work/m3ipc.schema
database ldif
suffix "cn=lab"
directory $work/db
rootdn "cn=admin,cn=lab"
rootpw secret
access to * by * read
END
    printf secret >"$work/password"
    socket=ldapi://${work//\//%2F}%2Fldapi
    start slapd "$slapd" -f "$work/slapd.conf" -d 0 -h "$socket"
    directory=${children[-1]}
    export M3_LDAP_URL=$socket/cn=lab
    try "$bin/m3-registry" ldap import --bind-dn cn=admin,cn=lab \
        --password-file "$work/password" "$work/nodes.toml"
    say ldap "$(grep -c '' "$work/try.log") entries in slapd"
    source=$M3_LDAP_URL
else
    say SKIP "ldap: no slapd here (apt-get install slapd); the static file gives the parameters"
    source=$work/nodes.toml
fi
parameters="program:$bin/m3-registry get --source $source vm {}"

node() { # NAME VM...: its daemon with these VMs, and its proxy
    local name=$1
    for vm in "${@:2}"; do
        "$bin/m3" vm create "$vm" --from "$parameters" --runtime-dir "$work/$name" |
            while read -r line; do say "$name" "$line"; done
    done
    cat >"$work/$name.toml" <<END
node = "$name"
keys = "keys"
runtime_dir = "$work/$name"
[registry]
program = "$bin/m3-registry"
arguments = ["serve", "--source", "$source", "--node", "$name"]
END
    start "proxy-$name" "$bin/m3-proxy" run --config "$work/$name.toml"
}
node north shop
node east shop bank
node south bank

call() { # NODE TARGET TEXT
    "$bin/m3" call "$2" "str:$3" --wait --timeout 60000 --runtime-dir "$work/$1"
}
start shop-server "$bin/m3" echo shop --as 10 --runtime-dir "$work/east"
start bank-server "$bin/m3" echo bank --as 10 --runtime-dir "$work/south"
try call north shop/10 hello
say call "north calls shop/10 on east: $(grep -o 'str:.*' "$work/try.log")"
try call east bank/10 hello
say call "east calls bank/10 on south: $(grep -o 'str:.*' "$work/try.log")"

# A node knows nothing of a VM that does not cover it; a VM knows no endpoint of the other one.
if call north bank/10 hello >"$work/foreign.log" 2>&1; then
    say error "north reached the bank" && exit 1
fi
say apart "north has no VM bank: $(head -n 1 "$work/foreign.log")"
if "$bin/m3" ps shop --runtime-dir "$work/east" | grep -q bank; then
    say error "shop lists endpoints of the bank" && exit 1
fi
say apart "on east, shop and bank both have an endpoint 10, and none sees the other"

if [[ $slapd ]]; then
    kill -9 "$directory"
    wait "$directory" 2>/dev/null || true
    call north shop/10 again >"$work/again.log"
    say loss "slapd was killed, and calls go on: $(grep -o 'str:.*' "$work/again.log")"
fi
say end "all is well"
