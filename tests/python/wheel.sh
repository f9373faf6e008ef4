#!/bin/sh
# Builds the wheel of the Python package, installs it into a clean environment and tests it there.
#
#   tests/python/wheel.sh               the last line is: N passed in S s
#   tests/python/wheel.sh --only-build  stops with the environment: target/python/venv
#
# Uses CARGO_TARGET_DIR (else target), PROFILE (else release), CARGO (else cargo) and PYTHON (else
# python3). M3_PROGRAMS names a directory with m3d, m3 and m3-proxy; without it, cargo builds them.
# The tools are in target/python/tools, which the first run makes. Without PyPI it says so and skips
# the tests.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
python=${PYTHON:-python3}
work=$target/python
tools="maturin>=1.7,<2 pytest>=8 numpy>=1.26 mypy>=1.11"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 CARGO_TARGET_DIR="$target"

# The tools stay; the environment of the tests is new for each wheel.
mkdir -p "$work"
if ! [ -f "$work/tools/$(echo "$tools" | cksum | cut -d' ' -f1)" ]; then
    rm -rf "$work/tools"
    "$python" -m venv "$work/tools"
    # shellcheck disable=SC2086 # each word is a package
    if ! "$work/tools/bin/pip" install $tools msgspec; then
        echo "skipped: pip cannot install $tools msgspec"
        exit 0
    fi
    : >"$work/tools/$(echo "$tools" | cksum | cut -d' ' -f1)"
fi

profile=${PROFILE:-release}
if [ -z "${M3_PROGRAMS-}" ]; then
    # The tests of two nodes need m3 and m3-proxy, which the wheel does not have.
    programs="-p m3ipc-cli -p m3ipc-proxy"
    [ "${1-}" != --only-build ] || programs=
    # shellcheck disable=SC2086 # each word is a package
    ${CARGO:-cargo} build --quiet --profile "$profile" --manifest-path "$root/Cargo.toml" \
        -p m3ipc-daemon $programs
    M3_PROGRAMS=$target/$profile
fi
place="$root/crates/python/python/m3ipc/bin"
mkdir -p "$place"
install -m 755 "$M3_PROGRAMS/m3d" "$place/m3d"
rm -rf "$work/wheels"
"$work/tools/bin/maturin" build --quiet --profile "$profile" --compatibility linux \
    --interpreter "$work/tools/bin/python" \
    --manifest-path "$root/crates/python/Cargo.toml" --out "$work/wheels"
wheel=$(ls "$work/wheels"/*.whl)
echo "wheel: $wheel"
rm -rf "$work/venv"
"$python" -m venv --without-pip "$work/venv"
"$work/tools/bin/pip" --python "$work/venv/bin/python" install "$wheel" numpy
[ "${1-}" != --only-build ] || exit 0

# The test tools are not installed beside the package: pytest runs from the other environment.
site=$("$work/tools/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cd "$root/tests/python/wheel"
exec env M3_TOOLS="$site" M3_PROGRAMS="$M3_PROGRAMS" PYTHONDONTWRITEBYTECODE=1 \
    "$work/venv/bin/python" run.py "$@"
