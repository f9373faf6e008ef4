#![allow(clippy::unwrap_used)]
use super::*;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file as the library makes it, in a directory of its own.
struct Field {
    home: PathBuf,
    file: File,
}

impl Drop for Field {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

impl Field {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("m3-sight-{}-{number}", std::process::id()));
        std::fs::create_dir(&home).unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path(Some(&home), super::super::raw::user()).unwrap())
            .unwrap();
        file.set_len(TOTAL as u64).unwrap();
        Self { home, file }
    }

    fn set(&self, offset: usize, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), offset as u64).unwrap();
    }

    fn pair(&self, number: usize, ends: [(u64, Address); 2]) {
        self.set(STATES + 8 * number, 2 | LIVE);
        let base = Arena::pair_offset(number);
        for (side, (cookie, address)) in ends.iter().enumerate() {
            self.set(base + pair::COOKIES[side], *cookie);
            for (at, part) in address.encode().into_iter().enumerate() {
                self.set(base + pair::ADDRESSES[side] + 8 * at, part);
            }
        }
    }

    fn look(&self) -> Vec<Connection> {
        connections(Some(&self.home), super::super::raw::user()).unwrap()
    }
}

fn known(fd: &impl AsRawFd, family: i32) -> (u64, Address) {
    (diag::cookie(fd.as_raw_fd()).unwrap(), Address::of(fd.as_raw_fd(), family).unwrap())
}

#[test]
fn words_of_a_connection_are_told_with_its_ends() {
    let field = Field::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    field.pair(7, [known(&one, libc::AF_INET), known(&other, libc::AF_INET)]);
    let base = Arena::pair_offset(7);
    field.set(base + pair::PROCESSES[0], u64::from(std::process::id()));
    field.set(base + pair::JOINED[0], 1);
    let words = [
        (way::RING_BYTES, 4096),
        (way::TURN, 3),
        (way::ATTACHED, 1),
        (way::TAIL, 5000),
        (way::HEAD, 4990),
        (way::KERNEL, 77),
        (way::TOKENS, 4),
        (way::SPARED, 9),
        (way::OVERFLOWS, 2),
    ];
    for (offset, value) in words {
        field.set(base + pair::WAYS[0] + offset, value);
    }
    field.set(base + pair::WAYS[1] + way::PINNED, 1);
    field.set(base + pair::WAYS[1] + way::REASON, Pin::Stdio as u64);

    let all = field.look();
    assert_eq!(all.len(), 1);
    let [sends, answers] = all[0].ways;
    let wanted = Way {
        course: Course::Ring,
        ring_size_bytes: Some(4096),
        ring_bytes: 5000,
        kernel_bytes: 77,
        waiting_bytes: Some(10),
        tokens: 4,
        spared: 9,
        overflows: 2,
    };
    assert_eq!(sends, wanted);
    assert_eq!(answers.course, Course::Pinned(Some(Pin::Stdio)));
    let [near, far] = all[0].ends;
    assert_eq!(near.place, Some(Place::Tcp(one.local_addr().unwrap())));
    assert_eq!(far.place, Some(Place::Tcp(other.local_addr().unwrap())));
    assert_eq!((near.pid, near.is_joined), (Some(std::process::id()), true));
    assert_eq!((far.pid, far.is_joined), (None, false));
    assert_eq!([near.state, far.state], [Some(1); 2], "established");
    assert!(all[0].is_open());
    drop((one, other));
    // What waits for stragglers is not known under its cookie, or in another state than before.
    assert!(field.look()[0].ends.iter().all(|end| end.state != Some(1)));
}

#[test]
fn who_receives_no_more_is_told_with_the_reason_of_that_end() {
    let field = Field::new();
    let (one, other) = UnixStream::pair().unwrap();
    field.pair(0, [known(&one, libc::AF_UNIX), known(&other, libc::AF_UNIX)]);
    let base = Arena::pair_offset(0);
    field.set(base + pair::WAYS[0] + way::ATTACHED, 2);
    field.set(base + pair::WAYS[1] + way::PINNED, 1);
    field.set(base + pair::WAYS[1] + way::REASON, Pin::Passed as u64);
    let found = field.look()[0];
    assert_eq!(found.ways.map(|way| way.course), [Course::Pinned(Some(Pin::Passed)); 2]);
    assert!(matches!(found.ends[0].place, Some(Place::Unix(inode)) if inode != 0));
    assert!(found.is_open());
    drop(other);
    drop(one);
    assert!(!field.look()[0].is_open());
}

#[test]
fn nonsense_is_shown_as_unknown_and_harms_nobody() {
    let field = Field::new();
    let mut seed = 88_172_645_463_325_252_u64;
    let mut dice = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for number in 0..32 {
        field.set(STATES + 8 * number, dice() | LIVE);
        for at in 0..WORDS {
            let value = dice();
            field.set(
                Arena::pair_offset(number) + 8 * at,
                if value % 3 == 0 { u64::MAX } else { value },
            );
        }
    }
    let found = field.look();
    assert_eq!(found.len(), 32);
    assert!(found.iter().all(|one| !one.is_open()));
    let mut ways = found.iter().flat_map(|one| one.ways);
    assert!(ways.all(|way| way.waiting_bytes.is_none_or(|bytes| bytes <= RING_MAX as u64)));
}

#[test]
fn a_file_that_is_not_the_users_own_is_refused() {
    let field = Field::new();
    let user = super::super::raw::user();
    let kind = || connections(Some(&field.home), user).unwrap_err().kind();
    assert_eq!(
        connections(Some(&field.home), user.wrapping_add(1)).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    field.file.set_permissions(PermissionsExt::from_mode(0o622)).unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidData);
    field.file.set_permissions(PermissionsExt::from_mode(0o600)).unwrap();
    field.file.set_len(100).unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidData);
    assert_eq!(users(Some(&field.home), 64), [user]);
    let path = path(Some(&field.home), user).unwrap();
    std::fs::rename(&path, field.home.join("else")).unwrap();
    std::os::unix::fs::symlink(field.home.join("else"), &path).unwrap();
    assert!(connections(Some(&field.home), user).is_err(), "a link is followed");
}
