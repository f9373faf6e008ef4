#![allow(clippy::unwrap_used)]
use super::*;
use crate::kernel::{process, socket};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring file as the library makes it, in a directory of its own.
struct Fixture {
    home: PathBuf,
    file: File,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

impl Fixture {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let home =
            std::env::temp_dir().join(format!("m3-inspection-{}-{number}", std::process::id()));
        std::fs::create_dir(&home).unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path(Some(&home), process::user()).unwrap())
            .unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        Self { home, file }
    }

    fn set(&self, offset: usize, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), offset as u64).unwrap();
    }

    fn pair(&self, number: usize, ends: [(u64, SocketAddress); 2]) {
        self.set(STATES + 8 * number, 2 | LIVE);
        let base = pair_offset(number);
        for (side, (cookie, address)) in ends.iter().enumerate() {
            self.set(base + pair::COOKIES[side], *cookie);
            for (at, part) in address.encode().into_iter().enumerate() {
                self.set(base + pair::ADDRESSES[side] + 8 * at, part);
            }
        }
    }

    fn read(&self) -> Vec<Connection> {
        connections(Some(&self.home), process::user()).unwrap()
    }
}

fn known(fd: &impl AsRawFd, family: i32) -> (u64, SocketAddress) {
    (socket::cookie(fd.as_raw_fd()).unwrap(), SocketAddress::of(fd.as_raw_fd(), family).unwrap())
}

#[test]
fn a_connection_is_read_with_its_ends() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    fixture.pair(7, [known(&one, libc::AF_INET), known(&other, libc::AF_INET)]);
    let base = pair_offset(7);
    fixture.set(base + pair::PROCESSES[0], u64::from(std::process::id()));
    fixture.set(base + pair::JOINED[0], 1);
    let words = [
        (half::RING_BYTES, 4096),
        (half::SWITCHES, 3),
        (half::ATTACHED, 1),
        (half::TAIL, 5000),
        (half::HEAD, 4990),
        (half::KERNEL, 77),
        (half::WAKEUPS, 4),
        (half::SPARED, 9),
        (half::OVERFLOWS, 2),
    ];
    for (offset, value) in words {
        fixture.set(base + pair::HALVES[0] + offset, value);
    }
    fixture.set(base + pair::HALVES[1] + half::PINNED, 1);
    fixture.set(base + pair::HALVES[1] + half::REASON, PinReason::Stdio as u64);

    let all = fixture.read();
    assert_eq!(all.len(), 1);
    let [sends, answers] = all[0].directions;
    let wanted = Direction {
        route: Route::Ring,
        ring_size_bytes: Some(4096),
        ring_bytes: 5000,
        kernel_bytes: 77,
        waiting_bytes: Some(10),
        wakeup_bytes: 4,
        wakeup_bytes_spared: 9,
        overflows: 2,
    };
    assert_eq!(sends, wanted);
    assert_eq!(answers.route, Route::Pinned(Some(PinReason::Stdio)));
    let [near, far] = all[0].ends;
    assert_eq!(near.address, Some(EndAddress::Tcp(one.local_addr().unwrap())));
    assert_eq!(far.address, Some(EndAddress::Tcp(other.local_addr().unwrap())));
    assert_eq!((near.pid, near.is_joined), (Some(std::process::id()), true));
    assert_eq!((far.pid, far.is_joined), (None, false));
    assert_eq!([near.state, far.state], [Some(1); 2], "established");
    assert!(all[0].is_open());
    drop((one, other));
    // A socket in TIME_WAIT has another cookie, or another state than before.
    assert!(fixture.read()[0].ends.iter().all(|end| end.state != Some(1)));
}

#[test]
fn an_end_that_stopped_receiving_is_shown_with_its_reason() {
    let fixture = Fixture::new();
    let (one, other) = UnixStream::pair().unwrap();
    fixture.pair(0, [known(&one, libc::AF_UNIX), known(&other, libc::AF_UNIX)]);
    let base = pair_offset(0);
    fixture.set(base + pair::HALVES[0] + half::ATTACHED, 2);
    fixture.set(base + pair::HALVES[1] + half::PINNED, 1);
    fixture.set(base + pair::HALVES[1] + half::REASON, PinReason::Passed as u64);
    let found = fixture.read()[0];
    assert_eq!(found.directions.map(|one| one.route), [Route::Pinned(Some(PinReason::Passed)); 2]);
    assert!(matches!(found.ends[0].address, Some(EndAddress::Unix(inode)) if inode != 0));
    assert!(found.is_open());
    drop(other);
    drop(one);
    assert!(!fixture.read()[0].is_open());
}

#[test]
fn garbage_is_shown_as_unknown() {
    let fixture = Fixture::new();
    let mut rng = fastrand::Rng::with_seed(88_172_645_463_325_252);
    for number in 0..32 {
        fixture.set(STATES + 8 * number, rng.u64(..) | LIVE);
        for at in 0..PAIR_WORDS {
            let value = rng.u64(..);
            fixture.set(
                pair_offset(number) + 8 * at,
                if value.is_multiple_of(3) { u64::MAX } else { value },
            );
        }
    }
    let found = fixture.read();
    assert_eq!(found.len(), 32);
    assert!(found.iter().all(|one| !one.is_open()));
    let mut directions = found.iter().flat_map(|one| one.directions);
    let is_possible = |bytes| bytes <= RING_BYTES_MAX as u64;
    assert!(directions.all(|one| one.waiting_bytes.is_none_or(is_possible)));
}

#[test]
fn a_file_that_other_users_can_write_is_refused() {
    let fixture = Fixture::new();
    let user = process::user();
    let kind = || connections(Some(&fixture.home), user).unwrap_err().kind();
    assert_eq!(
        connections(Some(&fixture.home), user.wrapping_add(1)).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    fixture.file.set_permissions(PermissionsExt::from_mode(0o622)).unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidData);
    fixture.file.set_permissions(PermissionsExt::from_mode(0o600)).unwrap();
    fixture.file.set_len(100).unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidData);
    assert_eq!(users(Some(&fixture.home), 64).unwrap(), [user]);
    let path = path(Some(&fixture.home), user).unwrap();
    std::fs::rename(&path, fixture.home.join("else")).unwrap();
    std::os::unix::fs::symlink(fixture.home.join("else"), &path).unwrap();
    assert!(connections(Some(&fixture.home), user).is_err(), "the reader follows a link");
}
