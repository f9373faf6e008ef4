#!/bin/sh
# Compares three lists that must be one: the functions of m3ipc.h, m3ipc/ica.h and m3ipc/sock.h, the
# symbols of libm3ipc.map, and the pages of docs/man/man3. Says each difference, and fails on any.
#
#   check_pages.sh [root of the tree]
set -eu
LC_ALL=C
export LC_ALL

root=${1:-$(dirname "$0")/../..}
header=$root/crates/capi/include/m3ipc.h
ica=$root/crates/capi/include/m3ipc/ica.h
sock=$root/crates/capi/include/m3ipc/sock.h
map=$root/crates/capi/libm3ipc.map
man=$root/docs/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAIL $*"
    failed=1
}

for file in "$header" "$ica" "$sock" "$map" "$man/man7/m3ipc.7"; do
    [ -s "$file" ] || { echo "FAIL $file is not there"; exit 1; }
done

# A function of the header: a line that begins with its type.
sed -n -e 's/^int  *\(m[a-z0-9]*_[A-Za-z0-9_]*\)(.*/\1/p' \
       -e 's/^long  *\(m[a-z0-9]*_[A-Za-z0-9_]*\)(.*/\1/p' \
       -e 's/^const char \*\(m[a-z0-9]*_[A-Za-z0-9_]*\)(.*/\1/p' "$header" >"$work/unsorted"
sed -n -e 's/^int  *\([a-z]*\)(.*/\1/p' -e 's/^void \*\([a-z]*\)(.*/\1/p' "$ica" >>"$work/unsorted"
sed -n -e 's/^int  *\(m3_[a-z0-9_]*\)(.*/\1/p' -e 's/^ssize_t  *\(m3_[a-z0-9_]*\)(.*/\1/p' "$sock" >>"$work/unsorted"
sort "$work/unsorted" >"$work/header"
sed -n -e 's/^ *\([a-z][A-Za-z0-9_]*\);$/\1/p' "$map" | sort >"$work/map"
for page in "$man"/man3/*.3; do basename "$page" .3; done | sort >"$work/pages"

[ -s "$work/header" ] || fail "$header declares no function"
for list in header map; do
    uniq -d "$work/$list" >"$work/twice"
    while read -r name; do fail "$name is twice in the $list"; done <"$work/twice"
    sort -u -o "$work/$list" "$work/$list"
done

# $1 and $2: lists; $3: what it means to be in the first and not in the second.
compare() {
    comm -23 "$work/$1" "$work/$2" >"$work/only"
    while read -r name; do fail "$name $3"; done <"$work/only"
}
compare header map "is in a header and not in libm3ipc.map"
compare map header "is in libm3ipc.map and in no header"
compare header pages "has no page in docs/man/man3"
compare pages header "has a page and is in no header"

# Each page names its function and shows it, or leads to one that does.
while read -r name; do
    page=$man/man3/$name.3
    [ -e "$page" ] || continue
    target=$(sed -n '1s/^\.so  *//p' "$page")
    if [ -n "$target" ]; then
        [ -s "$man/$target" ] || { fail "$page leads to $target, which is not there"; continue; }
        page=$man/$target
    fi
    grep -q "^\.Nm $name\( ,\)\{0,1\}\$" "$page" || fail "$page does not name $name"
    grep -q "^\.Fo $name\$" "$page" || fail "$page does not show how $name is called"
done <"$work/header"

# Each reference to one of our pages leads somewhere.
sed -n -e 's/^\.Xr \(m[a-z0-9]*_[A-Za-z0-9_]*\) 3.*/\1/p' -e 's/^\.Xr \([a-z]*ica\) 3.*/\1/p' "$man"/man3/*.3 "$man"/man7/m3ipc.7 |
    sort -u >"$work/references"
compare references pages "is referred to and has no page"

[ "$failed" -eq 0 ] || exit 1
echo "ok: $(wc -l <"$work/header" | tr -d ' ') functions, each with a symbol and a page"
