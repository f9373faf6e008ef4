#!/bin/sh
# Keeps the programs and libraries of a build as they are now, whatever cargo builds later: later
# tests of the same profile replace them by programs with other features.
#
# Cargo leaves the file of a program that the workspace no longer has. Such files are not kept: a
# test that needs one would pass here, and fail in a new clone.
#
#   tests/programs.sh FROM TO      both are folders below target on one file system
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
from=$(cd "$1" && pwd)
rm -rf "$2"
mkdir -p "$2"
to=$(cd "$2" && pwd)

# Each target of the workspace has a line: its types of crate, and its name.
targets=$(cd "$root" && cargo metadata --no-deps --offline --format-version 1 | tr '{' '\n' |
    sed -n 's/^"kind":\[[^]]*\],"crate_types":\[\([^]]*\)\],"name":"\([^"]*\)".*/\1 \2/p')
made=$(echo "$targets" | while read -r types name; do
    library=lib$(echo "$name" | tr - _)
    case $types in *\"bin\"*) echo "$name" ;; esac
    case $types in *\"lib\"* | *\"rlib\"*) echo "$library.rlib" ;; esac
    case $types in *\"cdylib\"* | *\"proc-macro\"*) echo "$library.so" ;; esac
    case $types in *\"staticlib\"*) echo "$library.a" ;; esac
done)
if [ -z "$made" ]; then
    echo "error: cargo metadata names no target of $root" >&2
    exit 1
fi

for file in "$from"/*; do
    name=${file##*/}
    case $name in
    *.d) ;;
    *)
        if [ ! -f "$file" ]; then
            continue
        elif echo "$made" | grep -qxF -- "$name"; then
            cp -l "$file" "$to/"
        else
            echo "left out: no target makes $name any more"
        fi
        ;;
    esac
done
echo "$(ls "$to" | wc -l) files in $2"
