#![allow(clippy::unwrap_used)]
use super::*;
use crate::kernel::{process, socket};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// A user's directory as the library makes it, in a directory of its own.
struct Fixture {
    home: PathBuf,
}

/// The file of a pair, under the cookie of its first end.
struct Pair(File);

impl Pair {
    fn set(&self, offset: usize, value: u64) {
        self.0.write_all_at(&value.to_ne_bytes(), offset as u64).unwrap();
    }
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
        let fixture = Self { home };
        std::fs::create_dir(fixture.directory()).unwrap();
        std::fs::set_permissions(fixture.directory(), PermissionsExt::from_mode(0o700)).unwrap();
        fixture
    }

    fn directory(&self) -> PathBuf {
        path(Some(&self.home), process::user()).unwrap()
    }

    fn file(&self, cookie: u64) -> Pair {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.directory().join(format!("{cookie:016x}")))
            .unwrap();
        file.set_len(PAIR_BYTES as u64).unwrap();
        Pair(file)
    }

    fn pair(&self, ends: [(u64, SocketAddress); 2]) -> Pair {
        let pair = self.file(ends[0].0);
        for (side, (cookie, address)) in ends.iter().enumerate() {
            pair.set(pair::COOKIES[side], *cookie);
            for (at, part) in address.encode().into_iter().enumerate() {
                pair.set(pair::ADDRESSES[side] + 8 * at, part);
            }
        }
        let second = self.directory().join(format!("{:016x}", ends[1].0));
        std::fs::hard_link(self.directory().join(format!("{:016x}", ends[0].0)), second).unwrap();
        pair
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
    let pair = fixture.pair([known(&one, libc::AF_INET), known(&other, libc::AF_INET)]);
    pair.set(pair::PROCESSES[0], u64::from(std::process::id()));
    pair.set(pair::JOINED[0], 1);
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
        pair.set(pair::HALVES[0] + offset, value);
    }
    pair.set(pair::HALVES[1] + half::PINNED, 1);
    pair.set(pair::HALVES[1] + half::REASON, PinReason::Stdio as u64);

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
    let pair = fixture.pair([known(&one, libc::AF_UNIX), known(&other, libc::AF_UNIX)]);
    pair.set(pair::HALVES[0] + half::ATTACHED, 2);
    pair.set(pair::HALVES[1] + half::PINNED, 1);
    pair.set(pair::HALVES[1] + half::REASON, PinReason::Passed as u64);
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
    for number in 1..=32 {
        let pair = fixture.file(number);
        for at in 0..PAIR_WORDS_BYTES / 8 {
            let value = rng.u64(..);
            pair.set(8 * at, if value.is_multiple_of(3) { u64::MAX } else { value });
        }
        pair.set(pair::COOKIES[0], number);
    }
    let found = fixture.read();
    assert_eq!(found.len(), 32);
    assert!(found.iter().all(|one| !one.is_open()));
    let mut directions = found.iter().flat_map(|one| one.directions);
    let is_possible = |bytes| bytes <= RING_BYTES_MAX as u64;
    assert!(directions.all(|one| one.waiting_bytes.is_none_or(is_possible)));
}

#[test]
fn a_directory_or_a_file_that_other_users_can_write_is_refused() {
    let fixture = Fixture::new();
    let user = process::user();
    let kind = || connections(Some(&fixture.home), user).unwrap_err().kind();
    assert_eq!(
        connections(Some(&fixture.home), user.wrapping_add(1)).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    let pair = fixture.file(5);
    pair.set(pair::COOKIES[0], 5);
    assert_eq!(fixture.read().len(), 1);
    pair.0.set_permissions(PermissionsExt::from_mode(0o622)).unwrap();
    assert_eq!(fixture.read().len(), 0);
    pair.0.set_permissions(PermissionsExt::from_mode(0o600)).unwrap();
    pair.0.set_len(100).unwrap();
    assert_eq!(fixture.read().len(), 0);
    let directory = fixture.directory();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o722)).unwrap();
    assert_eq!(kind(), io::ErrorKind::InvalidData);
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(users(Some(&fixture.home), 64).unwrap(), [user]);
    std::fs::rename(&directory, fixture.home.join("else")).unwrap();
    std::os::unix::fs::symlink(fixture.home.join("else"), &directory).unwrap();
    assert!(connections(Some(&fixture.home), user).is_err(), "the reader follows a link");
}
