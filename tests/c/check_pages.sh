#!/bin/sh
# Compares the headers of libm3ipc with libm3ipc.map and with the pages of docs/man/man3.
#
# Each function of a header has a symbol in the map, and a page whose SYNOPSIS equals its
# declaration. The script prints each difference and fails if there is one.
#
#   check_pages.sh [root of the tree]
set -eu
LC_ALL=C
export LC_ALL

root=${1:-$(dirname "$0")/../..}
include=$root/crates/capi/include
map=$root/crates/capi/libm3ipc.map
man=$root/docs/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAIL $*"
    failed=1
}

headers="$include/m3ipc.h"
for name in node endpoint ipc copy area remote ica sock; do
    headers="$headers $include/m3ipc/$name.h"
done
for file in $headers "$map" "$man/man7/m3ipc.7"; do
    [ -s "$file" ] || { echo "FAIL $file is missing"; exit 1; }
done

# The declarations of the headers, one a line. A declaration begins with its type in column 1.
for file in $headers; do
    awk '
        /^(int|long|ssize_t|void|const char) .*\(/ { text = "" ; open = 1 }
        open { sub(/^ +/, " "); text = text $0 }
        open && /;$/ { print text; open = 0 }
    ' "$file"
done | sort >"$work/declared"

# The declarations of the pages, in the same form.
awk '
    function bare(line) { sub(/^\.[A-Z][a-z] /, "", line); gsub(/"/, "", line); return line }
    /^\.Ft / { type = bare($0) }
    /^\.Fo / { text = type (type ~ /\*$/ ? "" : " ") bare($0) "("; first = 1 }
    /^\.Fa / && text != "" { text = text (first ? "" : ", ") bare($0); first = 0 }
    /^\.Fc/ { print text ");"; text = "" }
' "$man"/man3/*.3 | sort >"$work/shown"

sed 's/.*[ *]\([a-z][A-Za-z0-9_]*\)(.*/\1/' "$work/declared" | sort >"$work/header"
sed -n -e 's/^ *\([a-z][A-Za-z0-9_]*\);$/\1/p' "$map" | sort >"$work/map"
for page in "$man"/man3/*.3; do basename "$page" .3; done | sort >"$work/pages"

[ -s "$work/header" ] || fail "the headers declare no function"
for list in header map; do
    uniq -d "$work/$list" >"$work/twice"
    while read -r name; do fail "$name is twice in the $list"; done <"$work/twice"
    sort -u -o "$work/$list" "$work/$list"
done

# $1 and $2: lists; $3: the meaning of a line that only the first list has.
compare() {
    comm -23 "$work/$1" "$work/$2" >"$work/only"
    while read -r line; do fail "$line $3"; done <"$work/only"
}
compare header map "is in a header and not in libm3ipc.map"
compare map header "is in libm3ipc.map and in no header"
compare header pages "has no page in docs/man/man3"
compare pages header "has a page and is in no header"
compare declared shown "is declared, and no SYNOPSIS shows it"
compare shown declared "is in a SYNOPSIS, and no header declares it"

# Each page names its function and shows its declaration, or leads to a page that does.
while read -r name; do
    page=$man/man3/$name.3
    [ -e "$page" ] || continue
    target=$(sed -n '1s/^\.so  *//p' "$page")
    if [ -n "$target" ]; then
        [ -s "$man/$target" ] || { fail "$page leads to $target, which is missing"; continue; }
        page=$man/$target
    fi
    grep -q "^\.Nm $name\( ,\)\{0,1\}\$" "$page" || fail "$page does not name $name"
    grep -q "^\.Fo $name\$" "$page" || fail "$page does not show the declaration of $name"
done <"$work/header"

# Each reference to a page of ours has a page.
sed -n -e 's/^\.Xr \(m[a-z0-9]*_[A-Za-z0-9_]*\) 3.*/\1/p' -e 's/^\.Xr \([a-z]*ica\) 3.*/\1/p' \
    "$man"/man3/*.3 "$man"/man7/m3ipc.7 | sort -u >"$work/references"
compare references pages "is referred to and has no page"

[ "$failed" -eq 0 ] || exit 1
echo "ok: $(wc -l <"$work/header" | tr -d ' ') functions, each with a symbol and a page"
