//! The cable between two proxies: a relay of TCP connections that a test can cut or hold.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pause of a thread that has nothing to do.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Shared {
    /// Whether bytes stand still: neither side hears of an end.
    is_held: AtomicBool,
    is_over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }
}

/// A cable. It is whole at first.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    port: u16,
}

impl Relay {
    /// A cable to this address.
    ///
    /// # Panics
    /// If loopback has no port.
    #[must_use]
    pub fn to(address: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it listens").port();
        listener.set_nonblocking(true).expect("a socket");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, address, &accepting));
        Self { shared, port }
    }

    /// The port at this end.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Breaks all connections. New ones are made at once.
    pub fn cut(&self) {
        for socket in self.shared.open().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Lets nothing through, and tells neither side.
    pub fn hold(&self) {
        self.shared.is_held.store(true, Ordering::Relaxed);
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.shared.is_held.store(false, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.cut();
    }
}

fn accept(listener: &TcpListener, address: SocketAddr, shared: &Arc<Shared>) {
    while !shared.is_over() {
        std::thread::sleep(PAUSE);
        if shared.is_held() {
            continue;
        }
        let Ok((near, _)) = listener.accept() else { continue };
        let _ = near.set_nonblocking(false);
        // The proxy may not run.
        let Ok(far) = TcpStream::connect(address) else { continue };
        for socket in [&near, &far] {
            let _ = socket.set_nodelay(true);
            let _ = socket.set_read_timeout(Some(Duration::from_millis(20)));
        }
        let clones = [&near, &far, &near, &far].map(|socket| socket.try_clone());
        let [Ok(near_kept), Ok(far_kept), Ok(near_end), Ok(far_end)] = clones else { continue };
        shared.open().extend([near_kept, far_kept]);
        for (from, to) in [(near, far_end), (far, near_end)] {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || carry(from, to, &shared));
        }
    }
}

/// Carries bytes one way until an end.
fn carry(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut bytes = [0; 16 << 10];
    while !shared.is_over() {
        if shared.is_held() {
            std::thread::sleep(PAUSE);
            continue;
        }
        let read = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        while shared.is_held() && !shared.is_over() {
            std::thread::sleep(PAUSE);
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
