//! Mounts the file service: `m3-files-mount FOLDER`. Needs root and /dev/fuse, and no libfuse.
//!
//! The mount ends with this process, or this process with the mount. A child waits for the end of a
//! pipe that this process alone holds, and then detaches a mount without a server. So a kill leaves
//! nothing.
#![forbid(unsafe_code)]

mod file;
mod filesystem;

use filesystem::Mounted;
use fuser::{Config, MountOption, Session};
use m3ipc_files::client::Files;
use m3ipc_files::peers::Failure;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let end = match words.as_slice() {
        [folder] => mount(folder.as_ref()).await,
        [word, folder] if word == "--detach-after" => detach_after(folder.as_ref()),
        _ => Err("usage: m3-files-mount FOLDER".into()),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3-files-mount: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn mount(folder: &Path) -> Result<(), Failure> {
    detach_dead(folder)?;
    let folder = folder.canonicalize()?;
    let mounted = Mounted::new(Files::connect().await?);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("m3-files".to_owned())];
    let _guard = guard(&folder)?;
    let session = Session::new(mounted.clone(), &folder, &config)?;
    // Ends after umount(8).
    let end = tokio::task::spawn_blocking(|| session.run()).await?;
    mounted.flush_all().await.map_err(|_| "not all is on the disk")?;
    Ok(end?)
}

/// Starts the process that detaches the mount when this one has ended.
fn guard(folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--detach-after").arg(folder).current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn detach_after(folder: &Path) -> Result<(), Failure> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    detach_dead(folder)
}

/// Detaches what a killed process has mounted here.
fn detach_dead(folder: &Path) -> Result<(), Failure> {
    while let Err(Errno::NOTCONN | Errno::CONNABORTED) = rustix::fs::stat(folder) {
        unmount(folder, UnmountFlags::DETACH)?;
    }
    Ok(())
}
