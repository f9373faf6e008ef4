#!/bin/sh
# Checks the pages (links, width, names, the site) and runs their code blocks.
#
#   tests/snippets/run.sh [PAGE...]      the last line is: N passed, N failed
#
# CARGOFLAGS is what `cargo build` gets (default --release). The rules for code blocks are at the
# top of blocks.py. Needs python3 and cc; mdbook only for the site, which is skipped without it.
# Leaves nothing behind, neither files nor processes.
set -u
LC_ALL=C.UTF-8
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
exec python3 "$here/main.py" "$@"
