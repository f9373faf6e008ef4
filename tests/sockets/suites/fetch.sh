# Sources of suites: part of suites.sh.

store=${SUITES:-${CARGO_TARGET_DIR:-$root/target}/suites}

# The lists of Debian's source packages, in a place of their own: the system's stay as they are.
source_lists() {
    [ -f "$store/apt/done" ] && return
    command -v apt-get >/dev/null || return
    mkdir -p "$store/apt/parts" "$store/apt/lists/partial"
    for file in /etc/apt/sources.list.d/debian*.sources; do
        [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" \
            >"$store/apt/parts/$(basename "$file")"
    done
    sed -n 's/^deb \(.*debian\)/deb-src \1/p' /etc/apt/sources.list >"$store/apt/list" 2>/dev/null
    apt_source update >/dev/null 2>&1 && : >"$store/apt/done"
}

apt_source() {
    apt-get -qq -o "Dir::Etc::SourceList=$store/apt/list" \
        -o "Dir::Etc::SourceParts=$store/apt/parts" -o "Dir::State::Lists=$store/apt/lists" \
        -o APT::Sandbox::User=root "$@"
}

# The directory of an unpacked Debian source package: `source_of PACKAGE [MEMBER]`, or only of some
# members of its archive.
source_of() {
    if [ ! -f "$store/$1/done" ]; then
        source_lists
        rm -rf "${store:?}/$1"
        mkdir -p "$store/$1/unpacked"
        # Its patches may be missing, which the suites do not need.
        (cd "$store/$1" && apt_source source --download-only "$1" >/dev/null 2>&1)
        tar -C "$store/$1/unpacked" --strip-components=1 --wildcards \
            -xf "$(ls "$store/$1/$1"_*.orig.tar.*z 2>/dev/null | head -1)" ${2:+"$2"} \
            2>/dev/null || return
        : >"$store/$1/done"
    fi
    echo "$store/$1/unpacked"
}
