//! The mounted file service.
#![allow(clippy::unwrap_used)]

use crate::service::Service;
use m3ipc_test_fixture::until;
use std::path::{Path, PathBuf};
use std::process::Child;

/// A mount in a folder of the service.
pub struct Mount {
    pub process: Child,
    pub folder: PathBuf,
}

impl Mount {
    pub fn start(service: &Service) -> Self {
        Self::start_at(service, "mount")
    }

    pub fn start_at(service: &Service, folder: &str) -> Self {
        let folder = service.folder.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = service.command_of(env!("CARGO_BIN_EXE_m3-files-mount"));
        let mut mount = Self { process: command.arg(&folder).spawn().unwrap(), folder };
        until("the folder is a mount", || {
            assert_eq!(mount.process.try_wait().unwrap(), None, "the mount has ended");
            mount.is_there()
        });
        mount
    }

    pub fn is_there(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let folder = self.folder.to_str().unwrap();
        mounts.lines().any(|line| line.split(' ').nth(4) == Some(folder))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.kill();
        until("the mount leaves nothing", || !self.is_there());
    }
}

/// Whether this machine can mount. A test that skips says so.
pub fn is_possible(test: &str) -> bool {
    let is_possible = Path::new("/dev/fuse").exists() && m3ipc_sys::user_id() == 0;
    if !is_possible {
        println!("SKIP {test}: a mount needs root and /dev/fuse");
    }
    is_possible
}
