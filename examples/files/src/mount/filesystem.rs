//! What the kernel asks. Each request is a task of its own, so a file that waits for a server that
//! is being restarted delays no other file.

use crate::file::{File, failed};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use m3ipc_files::client::{Files, NameEnd};
use m3ipc_files::protocol::Entry;
use rustix::fs::OFlags;
use rustix::process::{getgid, getuid};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The kernel keeps nothing: other clients change names too.
const KEPT: Duration = Duration::ZERO;
const BLOCK: u32 = 4_096;
/// The parent of the folder, in listings.
const PARENT: INodeNo = INodeNo(2);
/// Nothing depends on the handle of an open.
const HANDLE: FileHandle = FileHandle(0);

type Done<T> = Result<T, Errno>;

#[derive(Debug)]
struct Node {
    file: Arc<Mutex<File>>,
    opens: u64,
}

#[derive(Debug, Default)]
struct Table {
    nodes: HashMap<INodeNo, Node>,
    names: HashMap<String, INodeNo>,
    latest: u64,
}

/// The mounted service.
#[derive(Clone, Debug)]
pub struct Mounted {
    files: Files,
    table: Arc<StdMutex<Table>>,
    runtime: Handle,
}

impl Mounted {
    pub fn new(files: Files) -> Self {
        Self { files, table: Arc::default(), runtime: Handle::current() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, ino: INodeNo) -> Done<Arc<Mutex<File>>> {
        self.table().nodes.get(&ino).map(|node| Arc::clone(&node.file)).ok_or(Errno::ESTALE)
    }

    fn named(&self, name: &str) -> Option<(INodeNo, Arc<Mutex<File>>)> {
        let ino = *self.table().names.get(name)?;
        Some((ino, self.file(ino).ok()?))
    }

    /// The file of a name, which keeps the name until the lock is dropped. Renames alone hold two
    /// locks, and the kernel makes one change of the folder at a time: no task waits for itself.
    async fn locked(&self, name: &str) -> Option<(INodeNo, OwnedMutexGuard<File>)> {
        loop {
            let (ino, file) = self.named(name)?;
            let file = file.lock_owned().await;
            // A rename may have held the lock.
            if file.name.as_deref() == Some(name) {
                return Some((ino, file));
            }
        }
    }

    /// The node of a name, or a new one. Numbers of nodes rise.
    fn add(&self, name: &str, entry: Entry, opens: u64) -> INodeNo {
        let mut table = self.table();
        if let Some(ino) = table.names.get(name) {
            return *ino;
        }
        table.latest += 1;
        let ino = INodeNo(PARENT.0 + table.latest);
        let file = Arc::new(Mutex::new(File::new(name, entry)));
        table.nodes.insert(ino, Node { file, opens });
        table.names.insert(name.to_owned(), ino);
        ino
    }

    /// The file has no name any more. Programs that have it open keep it.
    fn detach(&self, ino: INodeNo, file: &mut File) {
        let mut table = self.table();
        if let Some(name) = file.name.take().filter(|it| table.names.get(it) == Some(&ino)) {
            table.names.remove(&name);
        }
        if table.nodes.get(&ino).is_some_and(|node| node.opens == 0) {
            table.nodes.remove(&ino);
        }
    }

    async fn look_up(&self, name: &OsStr) -> Done<FileAttr> {
        let name = text(name)?;
        if let Some((ino, mut file)) = self.locked(name).await {
            // With the lock: no flush gives the name another file meanwhile.
            let entry = self.files.find(name).await.map_err(failed)?;
            if file.has_failed() || entry.is_some_and(|entry| file.is(entry)) {
                return Ok(attributes(ino, Some(file.bytes())));
            }
            // Another client has replaced or removed it.
            self.detach(ino, &mut file);
        }
        let entry = self.files.find(name).await.map_err(failed)?.ok_or(Errno::ENOENT)?;
        self.attributes(self.add(name, entry, 0)).await
    }

    async fn attributes(&self, ino: INodeNo) -> Done<FileAttr> {
        if ino == INodeNo::ROOT {
            return Ok(attributes(ino, None));
        }
        let bytes = self.file(ino)?.lock().await.bytes();
        Ok(attributes(ino, Some(bytes)))
    }

    async fn create(&self, name: &OsStr, flags: i32) -> Done<FileAttr> {
        let name = text(name)?;
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        // The kernel has looked, and another client may have come since.
        let entry = loop {
            if let Some(entry) = self.files.create(name).await.map_err(failed)? {
                break entry;
            }
            if flags.contains(OFlags::EXCL) {
                return Err(Errno::EEXIST);
            }
            match self.open_name(name, flags.contains(OFlags::TRUNC)).await {
                // Removed meanwhile.
                Err(error) if error.code() == Errno::ENOENT.code() => {}
                opened => return opened,
            }
        };
        if let Some((ino, mut file)) = self.locked(name).await {
            self.detach(ino, &mut file);
        }
        let ino = self.add(name, entry, 1);
        self.file(ino)?.lock().await.load(&self.files).await?;
        Ok(attributes(ino, Some(0)))
    }

    /// Opens the file that another client has put under a name.
    async fn open_name(&self, name: &str, truncates: bool) -> Done<FileAttr> {
        let ino = self.look_up(name.as_ref()).await?.ino;
        self.open(ino).await?;
        let opened = match truncates {
            true => self.set(ino, None, Some(0)).await,
            false => self.attributes(ino).await,
        };
        if opened.is_err() {
            self.close(ino).await?;
        }
        opened
    }

    async fn open(&self, ino: INodeNo) -> Done<()> {
        self.table().nodes.get_mut(&ino).ok_or(Errno::ESTALE)?.opens += 1;
        let end = self.file(ino)?.lock().await.load(&self.files).await.map(|_| ());
        if end.is_err() {
            self.close(ino).await?;
        }
        end
    }

    async fn close(&self, ino: INodeNo) -> Done<()> {
        let file = self.file(ino)?;
        let mut file = file.lock().await;
        let is_open = |change: u64| -> Done<bool> {
            let mut table = self.table();
            let node = table.nodes.get_mut(&ino).ok_or(Errno::ESTALE)?;
            node.opens = node.opens.saturating_sub(change);
            Ok(node.opens > 0)
        };
        if is_open(1)? {
            return Ok(());
        }
        // A mapping writes after the last flush of the kernel. After an error the content stays,
        // for the next open.
        file.flush(&self.files).await?;
        if !is_open(0)? {
            file.unload();
            if file.name.is_none() {
                self.table().nodes.remove(&ino);
            }
        }
        Ok(())
    }

    async fn remove(&self, name: &OsStr) -> Done<()> {
        let name = text(name)?;
        // With the lock: no flush gives the name back to the removed file.
        let removed = self.locked(name).await;
        self.files.remove(name).await.map_err(failed)?;
        if let Some((ino, mut file)) = removed {
            self.detach(ino, &mut file);
        }
        Ok(())
    }

    async fn rename(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> Done<()> {
        let (from, to) = (text(from)?, text(to)?);
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return Err(Errno::EINVAL);
        }
        if from == to {
            return Ok(());
        }
        let (ino, mut file) = self.locked(from).await.ok_or(Errno::ENOENT)?;
        // With its lock: no flush gives the name back to the replaced file.
        let replaced = self.locked(to).await;
        file.flush(&self.files).await?;
        // The kernel has looked whether the new name is free, and another client may have come.
        let renamed = match flags.contains(RenameFlags::RENAME_NOREPLACE) {
            true => self.files.rename_new(from, to).await,
            false => self.files.rename(from, to).await,
        };
        match renamed.map_err(failed)? {
            NameEnd::Changed => {}
            NameEnd::Missing => return Err(Errno::ENOENT),
            NameEnd::Taken => return Err(Errno::EEXIST),
        }
        if let Some((ino, mut file)) = replaced {
            self.detach(ino, &mut file);
        }
        file.name = Some(to.to_owned());
        let mut table = self.table();
        table.names.remove(from);
        table.names.insert(to.to_owned(), ino);
        Ok(())
    }

    /// Sets a length. Times are not kept; another owner or mode is an error.
    async fn set(&self, ino: INodeNo, owner: Option<u32>, bytes: Option<u64>) -> Done<FileAttr> {
        if owner.is_some() {
            return Err(Errno::EPERM);
        }
        let Some(bytes) = bytes else { return self.attributes(ino).await };
        let file = self.file(ino)?;
        let mut file = file.lock().await;
        file.set_length(&self.files, bytes).await?;
        if self.table().nodes.get(&ino).is_some_and(|node| node.opens == 0) {
            file.flush(&self.files).await?;
            file.unload();
        }
        Ok(attributes(ino, Some(bytes)))
    }

    async fn read(&self, ino: INodeNo, at: u64, bytes: u32) -> Done<Vec<u8>> {
        self.file(ino)?.lock().await.read(&self.files, at, bytes).await
    }

    async fn write(&self, ino: INodeNo, at: u64, bytes: &[u8]) -> Done<u32> {
        self.file(ino)?.lock().await.write(&self.files, at, bytes).await
    }

    async fn flush(&self, ino: INodeNo) -> Done<()> {
        self.file(ino)?.lock().await.flush(&self.files).await
    }

    /// Puts what no flush of the kernel has put: it does not wait for the last close.
    pub async fn flush_all(&self) -> Done<()> {
        let all: Vec<_> = self.table().nodes.values().map(|node| Arc::clone(&node.file)).collect();
        let mut end = Ok(());
        for file in all {
            end = end.and(file.lock().await.flush(&self.files).await);
        }
        end
    }

    /// Blocks of the disk, and those that are free.
    async fn space(&self) -> Done<(u64, u64)> {
        let (all, free) = self.files.space().await.map_err(failed)?;
        Ok((all / u64::from(BLOCK), free / u64::from(BLOCK)))
    }

    /// Lists the names by their nodes, so that no name comes twice or is left out by a change.
    async fn read_folder(&self, after: u64, mut reply: ReplyDirectory) {
        let all = match self.files.list().await {
            Ok(all) => all.into_iter().filter(|(name, _)| !name.contains('/')),
            Err(fault) => return reply.error(failed(fault)),
        };
        let mut listed = vec![(INodeNo::ROOT, ".".to_owned()), (PARENT, "..".to_owned())];
        listed.extend(all.map(|(name, entry)| (self.add(&name, entry, 0), name)));
        listed.sort_unstable();
        for (ino, name) in listed.into_iter().filter(|(ino, _)| ino.0 > after) {
            let is_file = ino > PARENT;
            let kind = if is_file { FileType::RegularFile } else { FileType::Directory };
            if reply.add(ino, ino.0, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

fn text(name: &OsStr) -> Done<&str> {
    name.to_str().ok_or(Errno::EILSEQ)
}

/// Those of a file of this length, or of the folder. The service keeps neither times nor modes.
fn attributes(ino: INodeNo, bytes: Option<u64>) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino,
        size: bytes.unwrap_or(0),
        blocks: bytes.unwrap_or(0).div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: bytes.map_or(FileType::Directory, |_| FileType::RegularFile),
        perm: bytes.map_or(0o755, |_| 0o644),
        nlink: 1,
        uid: getuid().as_raw(),
        gid: getgid().as_raw(),
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

/// A table of requests. Each is a task, which makes a call of [`Mounted`] and answers.
macro_rules! requests {
    ($($name:ident($($arg:ident: $type:ty),*) -> $reply:ty:
        $call:ident($($given:expr),*), $done:pat => $answer:ident($($with:expr),*);)*) => {
        impl Filesystem for Mounted {
            $(fn $name(&self, _: &Request, $($arg: $type,)* reply: $reply) {
                $(let $arg = $arg.to_owned();)*
                let it = self.clone();
                self.runtime.spawn(async move {
                    match it.$call($($given),*).await {
                        Ok($done) => reply.$answer($($with),*),
                        Err(error) => reply.error(error),
                    }
                });
            })*

            fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, at: u64, to: ReplyDirectory) {
                let it = self.clone();
                self.runtime.spawn(async move { it.read_folder(at, to).await });
            }
        }
    };
}

requests! {
    lookup(_in: INodeNo, name: &OsStr) -> ReplyEntry:
        look_up(&name), found => entry(&KEPT, &found, Generation(0));
    getattr(ino: INodeNo, _h: Option<FileHandle>) -> ReplyAttr:
        attributes(ino), found => attr(&KEPT, &found);
    setattr(ino: INodeNo, mode: Option<u32>, user: Option<u32>, group: Option<u32>,
        bytes: Option<u64>, _a: Option<TimeOrNow>, _m: Option<TimeOrNow>, _c: Option<SystemTime>,
        _h: Option<FileHandle>, _t: Option<SystemTime>, _u: Option<SystemTime>,
        _v: Option<SystemTime>, _f: Option<BsdFileFlags>) -> ReplyAttr:
        set(ino, mode.or(user).or(group), bytes), found => attr(&KEPT, &found);
    create(_in: INodeNo, name: &OsStr, _m: u32, _u: u32, flags: i32) -> ReplyCreate:
        create(&name, flags),
        new => created(&KEPT, &new, Generation(0), HANDLE, FopenFlags::empty());
    open(ino: INodeNo, _f: OpenFlags) -> ReplyOpen:
        open(ino), () => opened(HANDLE, FopenFlags::empty());
    read(ino: INodeNo, _h: FileHandle, at: u64, bytes: u32, _f: OpenFlags,
        _o: Option<LockOwner>) -> ReplyData:
        read(ino, at, bytes), found => data(&found);
    write(ino: INodeNo, _h: FileHandle, at: u64, bytes: &[u8], _w: WriteFlags, _f: OpenFlags,
        _o: Option<LockOwner>) -> ReplyWrite:
        write(ino, at, &bytes), count => written(count);
    flush(ino: INodeNo, _h: FileHandle, _o: LockOwner) -> ReplyEmpty:
        flush(ino), () => ok();
    fsync(ino: INodeNo, _h: FileHandle, _d: bool) -> ReplyEmpty:
        flush(ino), () => ok();
    release(ino: INodeNo, _h: FileHandle, _f: OpenFlags, _o: Option<LockOwner>,
        _s: bool) -> ReplyEmpty:
        close(ino), () => ok();
    unlink(_in: INodeNo, name: &OsStr) -> ReplyEmpty:
        remove(&name), () => ok();
    rename(_in: INodeNo, from: &OsStr, _to: INodeNo, to: &OsStr, flags: RenameFlags) -> ReplyEmpty:
        rename(&from, &to, flags), () => ok();
    statfs(_in: INodeNo) -> ReplyStatfs:
        space(), (all, free) => statfs(all, free, free, 0, 0, BLOCK, 255, BLOCK);
}
