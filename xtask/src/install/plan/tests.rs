//! Installs a small tree and reads the result.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::workspace::{Package, Target};

use super::*;

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("m3-xtask-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be made");
        Self(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("it can be made");
        fs::write(&path, text).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(PROGRAM))
            .expect("its mode can be set");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tree_with(folder: &Folder, shared: &str) -> Workspace {
    folder.write("target/dist/m3", "#!/bin/sh\ntest $2 != fish && echo completes $2\n");
    folder.write("target/dist/m3d", "daemon");
    folder.write("target/dist/m3-bench", "benchmark");
    folder.write("target/dist/m3-supervise", "supervisor");
    folder.write("target/dist/m3-proxy", "proxy");
    folder.write("target/dist/m3-registry", "registry");
    folder.write("target/dist/libm3ipc_c.so", shared);
    folder.write("target/dist/libm3ipc_c.a", "archive");
    folder.write("target/dist/libm3sock.so", "preload");
    folder.write("crates/capi/include/m3ipc/mnx.h", "int x;");
    folder.write("crates/capi/include/forwards.tsv", "m3ipc/old/ipc.h\tm3ipc/mnx.h\n");
    folder.write("crates/capi/m3ipc.pc.in", "prefix=@PREFIX@");
    folder.write("crates/capi/m3ipc-compat.pc.in", "compatdir=@INCLUDEDIR@/m3ipc/compat");
    folder.write("crates/capi/include/m3ipc/compat/README.md", "old paths");
    folder.write("dist/cmake/m3ipc-config.cmake.in", "@SOVERSION@");
    folder.write("dist/cmake/m3ipc-config-version.cmake.in", "@VERSION@");
    folder.write("dist/systemd/m3d.service", "ExecStart=/usr/local/bin/m3d --system");
    folder.write("dist/systemd/user/m3d.service", "ExecStart=/usr/local/bin/m3d");
    folder.write("dist/sysusers.d/m3.conf", "u m3");
    folder.write("dist/wireshark/m3ipc.lua", "dissector");
    folder.write("docs/man/m3.1", "page");
    folder.write("docs/man/man3/mnx_send.3", "page");
    let targets =
        vec![Target { name: "m3ipc_c".into(), kind: vec!["cdylib".into()], ..Target::default() }];
    let capi = Package {
        name: "m3ipc-capi".into(),
        version: "0.1.0".into(),
        targets,
        ..Package::default()
    };
    Workspace { root: folder.0.clone(), target_dir: folder.0.join("target"), packages: vec![capi] }
}

fn sources(workspace: &Workspace) -> Sources {
    let built = workspace.target_dir.join("dist");
    let (shared, m3) = (built.join("libm3ipc_c.so"), built.join("m3"));
    Sources { built, shared, m3, objcopy: "objcopy".into() }
}

#[test]
fn everything_lands_in_its_place() {
    let folder = Folder::new("plan");
    let workspace = tree_with(&folder, "ELF\0libm3ipc.so.0\0");
    let values = Values::new(Path::new("/usr"), Path::new("lib/multi"), "0.1.0");
    let mut placer = Placer::new(&folder.0.join("out"));
    install(&workspace, &sources(&workspace), &values, &mut placer)
        .expect("the small tree is whole");
    // A second time over the first must do as well.
    install(&workspace, &sources(&workspace), &values, &mut placer)
        .expect("it may be installed over");

    assert_eq!(folder.read("out/usr/bin/m3d"), "daemon");
    assert_eq!(folder.read("out/usr/lib/multi/libm3ipc.so"), "ELF\0libm3ipc.so.0\0");
    let link =
        |name: &str| fs::read_link(folder.0.join("out/usr/lib/multi").join(name)).expect("a link");
    assert_eq!(link("libm3ipc.so"), Path::new("libm3ipc.so.0"));
    assert_eq!(link("libm3ipc.so.0"), Path::new("libm3ipc.so.0.1.0"));
    assert_eq!(folder.read("out/usr/lib/multi/m3ipc/libm3sock.so"), "preload");
    assert_eq!(folder.read("out/usr/include/m3ipc/mnx.h"), "int x;");
    assert!(folder.read("out/usr/include/m3ipc/old/ipc.h").contains("\"../../m3ipc/mnx.h\""));
    assert_eq!(folder.read("out/usr/lib/multi/pkgconfig/m3ipc.pc"), "prefix=/usr");
    assert_eq!(folder.read("out/usr/lib/multi/cmake/m3ipc/m3ipc-config-version.cmake"), "0.1.0");
    assert_eq!(folder.read("out/usr/share/man/man3/mnx_send.3"), "page");
    assert_eq!(
        folder.read("out/usr/lib/systemd/system/m3d.service"),
        "ExecStart=/usr/bin/m3d --system"
    );
    assert_eq!(folder.read("out/usr/lib/systemd/user/m3d.service"), "ExecStart=/usr/bin/m3d");
    assert_eq!(folder.read("out/usr/share/zsh/site-functions/_m3"), "completes zsh\n");
    assert!(
        !folder.0.join("out/usr/share/fish").exists(),
        "a shell the program does not know is skipped"
    );
    assert_eq!(folder.read("out/usr/share/m3ipc/wireshark/m3ipc.lua"), "dissector");
    assert_eq!(
        folder.read("out/usr/lib/multi/pkgconfig/m3ipc-compat.pc"),
        "compatdir=/usr/include/m3ipc/compat"
    );
    assert_eq!(folder.read("out/usr/share/doc/m3ipc/compat.md"), "old paths");
    assert_eq!(placer.count(), 2 * 26);
}

#[test]
fn a_library_without_a_soname_is_refused() {
    let folder = Folder::new("soname");
    let workspace = tree_with(&folder, "ELF without a name");
    let values = Values::new(Path::new("/usr"), Path::new("lib"), "0.1.0");
    let error =
        install(&workspace, &sources(&workspace), &values, &mut Placer::new(&folder.0.join("out")))
            .expect_err("no SONAME");
    assert!(error.to_string().contains("SONAME"), "{error}");
}

/// The user of the daemon owns its socket and its journal.
#[test]
fn no_other_unit_has_the_user_of_the_daemon() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/systemd");
    let user_of = |path: &Path| {
        let unit = fs::read_to_string(path).expect("a unit");
        unit.lines().find_map(|line| line.strip_prefix("User=").map(str::to_owned))
    };
    let of_daemon = user_of(&units.join("m3d.service")).expect("a user");
    for unit in fs::read_dir(&units).expect("the units") {
        let path = unit.expect("a unit").path();
        if path.is_file() && !path.ends_with("m3d.service") {
            assert_ne!(user_of(&path).as_ref(), Some(&of_daemon), "{}", path.display());
        }
    }
}
