#!/bin/sh
# Keeps the programs and libraries of a build as they are now, whatever cargo builds later: later
# tests of the same profile replace them by programs with other features.
#
#   tests/programs.sh FROM TO      both are folders below target on one file system
set -eu
rm -rf "$2"
mkdir -p "$2"
for file in "$1"/*; do
    case $file in
    *.d) ;;
    *) [ ! -f "$file" ] || cp -l "$file" "$2/" ;;
    esac
done
echo "$(ls "$2" | wc -l) files in $2"
