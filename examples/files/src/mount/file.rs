//! A file in use. All of it is in memory, and a flush puts all of it.

use fuser::Errno;
use m3ipc_calls::Fault;
use m3ipc_files::client::Files;
use m3ipc_files::protocol::Entry;

/// No file is longer: it is in memory.
const FILE_MAX_BYTES: usize = 64 << 20;

/// A file that the kernel knows.
#[derive(Debug)]
pub struct File {
    /// `None` if the file was removed or replaced. Programs that have it open still use it.
    pub name: Option<String>,
    /// What the service has.
    bound: Entry,
    /// What programs see, if one of them has the file open.
    content: Option<Vec<u8>>,
    is_changed: bool,
    /// The last flush failed: the name may stand for what it has put, or for `bound`.
    has_failed: bool,
}

impl File {
    pub fn new(name: &str, bound: Entry) -> Self {
        let name = Some(name.to_owned());
        Self { name, bound, content: None, is_changed: false, has_failed: false }
    }

    pub fn bytes(&self) -> u64 {
        self.content.as_ref().map_or(self.bound.bytes, |content| content.len() as u64)
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub fn is(&self, entry: Entry) -> bool {
        self.bound == entry
    }

    /// The content, which the first use reads.
    pub async fn load(&mut self, files: &Files) -> Result<&mut Vec<u8>, Errno> {
        if self.bound.bytes > FILE_MAX_BYTES as u64 {
            return Err(Errno::EFBIG);
        }
        if self.content.is_none() {
            let found = files.read(self.bound).await.map_err(failed)?;
            self.content = Some(found.ok_or(Errno::ESTALE)?);
        }
        Ok(self.content.get_or_insert_default())
    }

    /// The last program has closed the file, and all is on the disk.
    pub fn unload(&mut self) {
        (self.content, self.is_changed) = (None, false);
    }

    pub async fn read(&mut self, files: &Files, at: u64, bytes: u32) -> Result<Vec<u8>, Errno> {
        let content = self.load(files).await?;
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        let to = from.saturating_add(bytes as usize).min(content.len());
        Ok(content[from..to].to_vec())
    }

    pub async fn write(&mut self, files: &Files, at: u64, bytes: &[u8]) -> Result<u32, Errno> {
        let end = at.saturating_add(bytes.len() as u64);
        self.set_length(files, end.max(self.bytes())).await?;
        let end = usize::try_from(end).map_err(|_| Errno::EFBIG)?;
        self.load(files).await?[end - bytes.len()..end].copy_from_slice(bytes);
        u32::try_from(bytes.len()).map_err(|_| Errno::EINVAL)
    }

    pub async fn set_length(&mut self, files: &Files, bytes: u64) -> Result<(), Errno> {
        let bytes = usize::try_from(bytes).ok().filter(|it| *it <= FILE_MAX_BYTES);
        let bytes = bytes.ok_or(Errno::EFBIG)?;
        self.load(files).await?.resize(bytes, 0);
        self.is_changed = true;
        Ok(())
    }

    /// Returns when all is on the disk. After an error the next flush puts it again.
    pub async fn flush(&mut self, files: &Files) -> Result<(), Errno> {
        if let (Some(content), Some(name), true) = (&self.content, &self.name, self.is_changed) {
            self.has_failed = true;
            self.bound = files.put(name, content).await.map_err(failed)?;
            (self.is_changed, self.has_failed) = (false, false);
        }
        Ok(())
    }
}

/// The servers did not answer for a minute, or one of them cannot do it. A change may have been
/// made or not.
pub fn failed(fault: Fault) -> Errno {
    eprintln!("m3-files-mount: {fault}");
    Errno::EIO
}
