//! Ordinary programs use the mount while servers are killed. Needs root and /dev/fuse.
//!
//! `M3_FILES_SECONDS` says how long, `M3_FILES_SEED` with which kills.
#![allow(clippy::unwrap_used)]

#[path = "service/mount.rs"]
mod mounting;
mod service;

use m3ipc_files::client::Files;
use m3ipc_test_fixture::{until, watchdog};
use mounting::{Mount, is_possible};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use service::{SERVERS, Service, connect, kill};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs a program, and returns its output.
fn run(words: &[&str]) -> Vec<u8> {
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn listed(folder: &Path) -> Vec<String> {
    let output = run(&["ls", folder.to_str().unwrap()]);
    String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn programs_see_their_bytes_while_servers_are_killed() {
    if !is_possible("programs_see_their_bytes_while_servers_are_killed") {
        return;
    }
    watchdog(600);
    let seconds = std::env::var("M3_FILES_SECONDS").map_or(3, |it| it.parse().unwrap());
    let seed = std::env::var("M3_FILES_SEED").map_or(seconds, |seed| seed.parse().unwrap());
    let mut service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(connect(&service));
    let mount = Mount::start(&service);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (kills, (rounds, content)) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill(&service, end, seed));
        let used = use_programs(&service, &mount, end, seed);
        (killer.join().unwrap(), used)
    });
    println!("seed {seed}: {rounds} rounds of programs, killed: {kills:?}");
    assert!(rounds > 0 && kills.len() == SERVERS.len(), "{kills:?}: {}", service.log());
    // A file that was synced is on the disk: new processes find it.
    drop(mount);
    service.kill_supervisor();
    service.supervise();
    let found = runtime.block_on(Files::of(client).get("renamed")).unwrap();
    assert!(found == Some(content), "the synced file is lost");
}

/// Uses ordinary programs until the end. Returns the rounds and the content of the file "renamed".
fn use_programs(service: &Service, mount: &Mount, end: Instant, seed: u64) -> (u32, Vec<u8>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let own = service.folder.join("own");
    let paths = [own.clone(), mount.path("copied"), mount.path("synced"), mount.path("renamed")];
    let [own_path, copied, synced, renamed] = paths.each_ref().map(|path| path.to_str().unwrap());
    let (mut rounds, mut content) = (0, Vec::new());
    while rounds == 0 || Instant::now() < end {
        content.resize(random.usize(0..300_000), 0);
        random.fill(&mut content);
        std::fs::write(&own, &content).unwrap();
        let sum = |path| run(&["sha256sum", path])[..64].to_vec();
        run(&["cp", own_path, copied]);
        let blocks = format!("bs={}", random.usize(1_000..70_000));
        run(&[
            "dd",
            &format!("if={own_path}"),
            &format!("of={synced}"),
            &blocks,
            "conv=fsync",
            "status=none",
        ]);
        assert!(run(&["cat", copied]) == content, "cat after cp");
        assert_eq!(sum(synced), sum(own_path), "sha256sum after dd");
        assert_eq!(run(&["stat", "-c", "%s", synced]), format!("{}\n", content.len()).as_bytes());
        run(&["mv", synced, renamed]);
        assert_eq!(listed(&mount.folder), ["copied", "renamed"]);
        assert_eq!(sum(renamed), sum(own_path), "sha256sum after mv");
        run(&["rm", copied]);
        assert_eq!(listed(&mount.folder), ["renamed"]);
        rounds += 1;
    }
    (rounds, content)
}

#[test]
fn a_killed_mount_leaves_nothing_and_what_was_synced_is_on_the_disk() {
    if !is_possible("a_killed_mount_leaves_nothing_and_what_was_synced_is_on_the_disk") {
        return;
    }
    watchdog(600);
    let mut service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let files = Files::of(runtime.block_on(connect(&service)));
    let mut mount = Mount::start(&service);
    let mut file = File::create(mount.path("log")).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    file.write_all(b", and more that is in memory alone").unwrap();
    mount.kill();
    until("the mount leaves nothing", || !mount.is_there());
    assert_eq!(std::fs::read_dir(&mount.folder).unwrap().count(), 0, "the folder is as before");
    drop(file);
    service.kill_supervisor();
    service.supervise();
    let found = runtime.block_on(files.get("log")).unwrap();
    assert_eq!(found.as_deref(), Some(&b"synced"[..]));
    // Another process mounts it in the same place, and ends with the mount.
    let mut mount = Mount::start(&service);
    assert_eq!(std::fs::read(mount.path("log")).unwrap(), b"synced");
    let mut file = OpenOptions::new().append(true).open(mount.path("log")).unwrap();
    file.write_all(b", and closed").unwrap();
    drop(file);
    run(&["umount", mount.folder.to_str().unwrap()]);
    assert!(mount.process.wait().unwrap().success());
    let found = runtime.block_on(files.get("log")).unwrap();
    assert_eq!(found.as_deref(), Some(&b"synced, and closed"[..]));
}

/// The same random steps in the mount and in an ordinary folder.
#[test]
fn files_of_the_mount_are_as_those_of_an_ordinary_folder() {
    if !is_possible("files_of_the_mount_are_as_those_of_an_ordinary_folder") {
        return;
    }
    watchdog(600);
    let seed = std::env::var("M3_FILES_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _client = runtime.block_on(connect(&service));
    let mount = Mount::start(&service);
    let plain = service.folder.join("plain");
    std::fs::create_dir_all(&plain).unwrap();
    let folders = [mount.folder.clone(), plain];
    let mut random = fastrand::Rng::with_seed(seed);
    let names = ["a", "b", "c"];
    // An open file of each folder, which may have lost its name.
    let mut open: Option<[File; 2]> = None;
    for step in 0..300 {
        let name = names[random.usize(0..names.len())];
        let to = names[random.usize(0..names.len())];
        let (at, length) = (random.u64(0..200_000), random.usize(1..100_000));
        let (byte, action) = (random.u8(..), random.u8(0..8));
        let both = |step: &dyn Fn(&Path) -> String| folders.each_ref().map(|it| step(it));
        let [ours, theirs] = match action {
            0 => both(&|it| text(std::fs::write(it.join(name), vec![byte; length]))),
            1 => both(&|it| text(std::fs::remove_file(it.join(name)))),
            2 => both(&|it| text(std::fs::rename(it.join(name), it.join(to)))),
            3 => both(&|it| text(std::fs::metadata(it.join(name)).map(|it| it.len()))),
            4 => {
                let options = OpenOptions::new().read(true).write(true).create(true).clone();
                open = Some(folders.each_ref().map(|it| options.open(it.join(name)).unwrap()));
                continue;
            }
            _ => {
                let Some(files) = &open else { continue };
                let act = |it: &File| match action {
                    5 => text(it.write_all_at(&vec![byte; length], at)),
                    6 => text(it.set_len(at)),
                    _ => text(it.sync_all()),
                };
                files.each_ref().map(act)
            }
        };
        assert_eq!(ours, theirs, "step {step}: {action} {name} {to} {at} {length}");
        if let Some([ours, theirs]) = &open {
            assert!(content(ours) == content(theirs), "step {step}: the open file");
        }
        for name in names {
            let [ours, theirs] = both(&|it| format!("{:?}", std::fs::read(it.join(name)).ok()));
            assert!(ours == theirs, "step {step}: {name}");
        }
        assert_eq!(listed(&folders[0]), listed(&folders[1]), "step {step}");
    }
}

/// Two steps at the same time. The second is repeated until the first ends.
fn at_once<T>(first: impl FnOnce() -> T, again: impl Fn() + Sync) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                again();
            }
        });
        let end = first();
        is_done.store(true, Ordering::Release);
        end
    })
}

#[test]
fn changes_of_names_hold_beside_looks_and_flushes() {
    if !is_possible("changes_of_names_hold_beside_looks_and_flushes") {
        return;
    }
    watchdog(600);
    let service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let files = Files::of(runtime.block_on(connect(&service)));
    let get = |name| runtime.block_on(files.get(name)).unwrap();
    let mount = Mount::start(&service);
    let [log, kept, new] = ["log", "log.1", "new"].map(|name| mount.path(name));
    for round in 0..30 {
        // A look at the former name takes nothing from the open file.
        let mut file = File::create(&log).unwrap();
        file.write_all(b"before").unwrap();
        at_once(|| std::fs::rename(&log, &kept).unwrap(), || drop(std::fs::metadata(&log)));
        file.write_all(b", after").unwrap();
        file.sync_all().unwrap();
        assert_eq!(get("log.1").as_deref(), Some(&b"before, after"[..]), "round {round}");
        // A flush of a replaced or removed file gives it no name. The kernel orders an fsync and a
        // change of the name, and the flush of a close not.
        std::fs::write(&new, b"new").unwrap();
        let flush = |file: &File| {
            file.write_all_at(b"old", 0).unwrap();
            drop(file.try_clone().unwrap());
        };
        at_once(|| std::fs::rename(&new, &kept).unwrap(), || flush(&file));
        assert_eq!(get("log.1").as_deref(), Some(&b"new"[..]), "round {round}");
        let file = OpenOptions::new().write(true).open(&kept).unwrap();
        at_once(|| std::fs::remove_file(&kept).unwrap(), || flush(&file));
        assert_eq!(get("log.1"), None, "round {round}");
    }
}

#[test]
fn of_two_mounts_one_creates_a_file_and_neither_truncates_it() {
    if !is_possible("of_two_mounts_one_creates_a_file_and_neither_truncates_it") {
        return;
    }
    watchdog(600);
    let service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let files = Files::of(runtime.block_on(connect(&service)));
    let mounts = ["one", "two"].map(|name| Mount::start_at(&service, name));
    for round in 0..60 {
        let name = format!("new.{round}");
        let paths = mounts.each_ref().map(|mount| mount.path(&name));
        let start = std::sync::Barrier::new(2);
        let create = |path: &Path| {
            start.wait();
            OpenOptions::new().write(true).create_new(true).open(path).is_ok()
        };
        let created = std::thread::scope(|scope| {
            paths.each_ref().map(|path| scope.spawn(|| create(path))).map(|it| it.join().unwrap())
        });
        assert_ne!(created[0], created[1], "round {round}");
        // A name that another client binds meanwhile.
        let name = format!("old.{round}");
        let path = mounts[0].path(&name);
        let open = || {
            start.wait();
            OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(open);
            start.wait();
            runtime.block_on(files.put(&name, b"of another client")).unwrap();
        });
        let found = runtime.block_on(files.get(&name)).unwrap();
        assert_eq!(found.as_deref(), Some(&b"of another client"[..]), "round {round}");
    }
}

#[test]
fn a_mapping_that_outlives_the_descriptor_is_on_the_disk_at_its_end() {
    if !is_possible("a_mapping_that_outlives_the_descriptor_is_on_the_disk_at_its_end") {
        return;
    }
    watchdog(600);
    let service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let files = Files::of(runtime.block_on(connect(&service)));
    let mount = Mount::start(&service);
    std::fs::write(mount.path("mapped"), [b'.'; 5_000]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(mount.path("mapped")).unwrap();
    store_after_close(file, 4_321, b'x');
    let mut expected = vec![b'.'; 5_000];
    expected[4_321] = b'x';
    assert!(std::fs::read(mount.path("mapped")).unwrap() == expected, "in the mount");
    // The kernel tells the mount of the end later.
    until("the bytes are on the disk", || {
        runtime.block_on(files.get("mapped")).unwrap().as_ref() == Some(&expected)
    });
}

/// Maps a file, closes it, stores a byte, and ends the mapping.
#[allow(unsafe_code)]
fn store_after_close(file: File, at: usize, byte: u8) {
    let (protection, length) = (ProtFlags::READ | ProtFlags::WRITE, at + 1);
    // SAFETY: The kernel chooses a free place.
    let mapped = unsafe {
        mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &file, 0).unwrap()
    };
    drop(file);
    // SAFETY: The byte is in the mapping, which nothing uses after this.
    unsafe {
        mapped.cast::<u8>().add(at).write_volatile(byte);
        munmap(mapped, length).unwrap();
    }
}

fn text<T: std::fmt::Debug>(result: std::io::Result<T>) -> String {
    format!("{result:?}")
}

fn content(file: &File) -> Vec<u8> {
    let mut content = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut content, 0).unwrap();
    content
}
