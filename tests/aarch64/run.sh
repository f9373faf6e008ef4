#!/bin/bash
# tests/aarch64/run.sh [4|16] [PACKAGE[:TEST[:CASE]]...]: runs suites in an emulated machine; see
# README.md
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD target=aarch64-unknown-linux-gnu profile=${PROFILE:-gate}
pages=${1:-4}
shift $(($# > 0))
[ $# -gt 0 ] || set -- m3ipc-{abi,sys,shm,area,link,wire,sockets,shim}:lib m3ipc \
    m3ipc-{daemon,cli,conformance,hostile,crash}

missing=
for need in qemu-system-aarch64/qemu-system-arm cpio/cpio xzcat/xz-utils python3/python3; do
    command -v "${need%/*}" >/dev/null || missing+=" ${need#*/}"
done
[ -z "$missing" ] || { echo "missing: apt-get install$missing" >&2; exit 2; }

# The C compiler as on the page of cross builds.
cc=${CC_aarch64_unknown_linux_gnu:-aarch64-linux-gnu-gcc}
export CC_aarch64_unknown_linux_gnu=$cc CARGO_INCREMENTAL=0
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cc

built=$(cargo metadata --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
work=$built/guest programs=$built/$target/$profile
mkdir -p "$work"

# Packages of arm64: a kernel, and what Debian has at least. They are unpacked, not installed.
fetch() {
    local dir=$work/apt source key=/usr/share/keyrings/debian-archive-keyring.gpg
    # The newest of the parts below stands for all.
    [ -d "$work/kernel$pages" ] && [ -e "$work"/base/lib/*/libcap-ng.so.0 ] && return
    rm -rf "$work/debs"
    mkdir -p "$dir"/{lists,archives}/partial "$work/debs"
    : >"$dir/status"
    for source in bookworm bookworm-backports; do
        echo "deb [signed-by=$key] ${MIRROR:-http://deb.debian.org/debian} $source main"
    done >"$dir/sources.list"
    cat >"$dir/conf" <<C
APT::Architecture "arm64"; APT::Architectures { "arm64"; }; APT::Sandbox::User "root";
Dir::State "$dir"; Dir::State::status "$dir/status"; Dir::Cache "$dir";
Dir::Etc::sourcelist "$dir/sources.list"; Dir::Etc::sourceparts "-";
C
    export APT_CONFIG=$dir/conf
    apt-get -q update
    local kernel=linux-image-arm64
    [ "$pages" = 4 ] || kernel=linux-image-arm64-${pages}k
    kernel=$(apt-cache depends "$kernel" | awk '/Depends: linux-image/ {print $2; exit}')
    # The programs that suites start, beside those of BusyBox, and their libraries.
    local parts=(busybox-static dash coreutils util-linux strace libc6 libgcc-s1 libacl1 libattr1
        libgmp10 libselinux1 libpcre2-8-0 libsmartcols1 libcap-ng0 libunwind8 liblzma5)
    (cd "$work/debs" && apt-get -q download "$kernel" "${parts[@]}")
    mkdir -p "$work/base"
    for part in "${parts[@]}"; do dpkg-deb -x "$work"/debs/"$part"_*.deb "$work/base"; done
    dpkg-deb -x "$work"/debs/"$kernel"_*.deb "$work/kernel$pages"
    unset APT_CONFIG
}
fetch

# The programs that suites start, then the suites; cargo names each of them.
nice cargo build --profile "$profile" --target $target -p m3ipc-test-fixture -p m3ipc-daemon
: >"$work/tests"
for suite; do
    IFS=: read -r package tests cases <<<"$suite"
    case $tests in
    "") kind=(--tests) ;;
    lib | bins) kind=("--$tests") ;;
    *) kind=(--test "$tests") ;;
    esac
    nice cargo test --no-run --profile "$profile" --target $target -p "$package" "${kind[@]}" \
        --message-format json-render-diagnostics | python3 -c '
import json, os, sys
for line in sys.stdin:
    part = json.loads(line)
    if part.get("executable") and part["profile"]["test"]:
        print(os.path.dirname(part["manifest_path"]), part["executable"], *sys.argv[1:])' \
        $cases >>"$work/tests"
done

# The whole machine lies in its memory: no disk, and none of the modules for one.
machine=$work/machine
rm -rf "$machine"
mkdir -p "$machine"/{bin,proc,sys,dev,tmp,run,root,etc,modules} "$machine$programs/deps" \
    "$machine$root"
cp -a "$work/base/." "$machine/"
git ls-files -z | xargs -0 cp --parents -t "$machine$root/"
for file in "$programs"/m3* $(awk '{print $2}' "$work/tests"); do
    if [ -f "$file" ] && [ -x "$file" ]; then aarch64-linux-gnu-strip -o "$machine$file" "$file"; fi
done
for module in inet_diag tcp_diag unix_diag; do
    find "$work/kernel$pages" -name "$module.ko" -exec cp {} "$machine/modules/" \;
    find "$work/kernel$pages" -name "$module.ko.xz" -exec sh -c 'xzcat $1 >$2' _ {} \
        "$machine/modules/$module.ko" \;
done
cp "$work/tests" "$machine/tests"
echo root:x:0:0:root:/root:/bin/sh >"$machine/etc/passwd"
echo root:x:0: >"$machine/etc/group"
cp tests/aarch64/init "$machine/init"
(cd "$machine" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/machine.gz"

# Its clock takes two nanoseconds for an instruction and jumps over sleeps: a busy host changes no
# result.
nice qemu-system-aarch64 -M virt -cpu cortex-a76 -smp 2 -m 4G -nodefaults \
    -accel tcg,thread=single -icount shift=1,sleep=off -display none -no-reboot -serial stdio \
    -kernel "$work/kernel$pages"/boot/vmlinuz-* -initrd "$work/machine.gz" \
    -append "console=ttyAMA0 quiet panic=-1 slow=${M3_TESTS_SLOW:-20}" \
    </dev/null | stdbuf -oL tr -d '\r' | tee "$work/log" |
    grep --line-buffered -aE '^(machine|suite|minute|SKIP|test .*(FAILED|SKIP))|panicked' || true
# Each suite said that it is well.
[ "$(grep -ac '^suite .* code 0' "$work/log")" = "$(wc -l <"$work/tests")" ]
