# For people and packages that expect make; `cargo xtask` does the work.
CARGO   ?= cargo
PREFIX  ?= /usr/local
LIBDIR  ?= lib
DESTDIR ?=

.PHONY: all install check clean

all:
	$(CARGO) build --workspace --release

# Builds with the profile dist. LIBDIR starts at PREFIX; Debian's own is lib/x86_64-linux-gnu.
install:
	$(CARGO) xtask install --prefix "$(PREFIX)" --libdir "$(LIBDIR)" \
		$(if $(DESTDIR),--destdir "$(DESTDIR)")

check:
	$(CARGO) xtask test
	$(CARGO) xtask check

clean:
	$(CARGO) clean
