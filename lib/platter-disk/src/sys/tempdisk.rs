//! Temporary files for measurements: full of incompressible data, on a real file system, deleted afterwards.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{Access, Advice, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::buffer::AlignedBuf;
use super::pattern::Pattern;
use super::{OpenOptions, OpenedDisk, SysError, probe, space};

/// Bytes written at a time, between checks of the cancel flag.
const CHUNK: u64 = 4 << 20;

/// Makes names unique within the process.
static NAMES: AtomicU64 = AtomicU64::new(0);

const OP: &str = "make temporary files in";

/// Describes the temporary files to make.
#[derive(Debug, Clone, Copy)]
pub struct TempSpec<'a> {
    /// Directory; `None` for the current directory or, if that is unsuitable, `$TMPDIR`.
    pub dir: Option<&'a Path>,
    /// Number of files.
    pub count: usize,
    /// Size of each file in bytes.
    pub size: u64,
    /// Seed of their contents: file `i` holds [`Pattern::new(seed, i)`](Pattern::new).
    pub seed: u64,
    /// Stops the work when it becomes true.
    pub cancel: Option<&'a AtomicBool>,
}

/// Progress of the filling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written, in all files.
    pub done: u64,
    /// Bytes to write, in all files.
    pub total: u64,
}

/// How a file is prevented from outliving the process, the most reliable way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// It never has a name (`O_TMPFILE`).
    Nameless,
    /// Its name is removed at once.
    Unlinked,
    /// It has a name, removed on drop, because without one it could not be opened again.
    Named,
}

#[derive(Debug)]
struct TempFile {
    fd: OwnedFd,
    /// Its name, if it has one.
    name: Option<PathBuf>,
}

impl TempFile {
    fn path(&self) -> PathBuf {
        self.name.clone().unwrap_or_else(|| format!("/proc/self/fd/{}", self.fd.as_raw_fd()).into())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // There is nothing to report if the file is gone already.
            let _ = fs::remove_file(name);
        }
    }
}

/// Temporary files, deleted when this is dropped or the process ends, even by `SIGKILL`.
///
/// They have no name, and are opened again by a path under `/proc/self/fd`. If that does not work (no
/// `/proc`) they are named `.platter-PID-N`, and a killed process leaves them behind.
#[derive(Debug)]
pub struct TempFiles {
    dir: PathBuf,
    filesystem: String,
    files: Vec<TempFile>,
}

impl TempFiles {
    /// Makes and fills the files, writes them to the disk and drops them from the page cache. `progress` is
    /// called after each 4 MiB.
    ///
    /// # Errors
    /// No directory is suitable (missing, not writable, in memory as on tmpfs, too little space), with the
    /// reason for each; writing failed; `ECANCELED` if cancelled. No file is left behind.
    pub fn create(spec: &TempSpec<'_>, progress: &mut dyn FnMut(Progress)) -> Result<TempFiles, SysError> {
        let dirs = match spec.dir {
            Some(dir) => vec![dir.to_path_buf()],
            None => default_dirs(),
        };
        let total = u64::try_from(spec.count).ok().and_then(|n| n.checked_mul(spec.size));
        let total = total.filter(|total| *total > 0).ok_or_else(|| {
            let message = format!("{} files of {} bytes are nothing, or too much", spec.count, spec.size);
            SysError::new(
                OP,
                dirs.first().map_or(Path::new("."), |d| d),
                message,
                "request at least one byte",
            )
        })?;
        let (dir, filesystem) = choose(&dirs, total)?;
        let mut files = TempFiles { dir, filesystem, files: Vec::with_capacity(spec.count) };
        let mut done = 0;
        for index in 0..spec.count {
            let file = make(&files.dir)?;
            let pattern = Pattern::new(spec.seed, index as u64);
            let mut step = |bytes| {
                done += bytes;
                progress(Progress { done, total });
                match spec.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                    true => Err(Errno::CANCELED),
                    false => Ok(()),
                }
            };
            let filled = fill(&file, spec.size, pattern, &mut step);
            // The path of a descriptor means nothing to users: name the directory instead.
            filled.map_err(|e| SysError { op: OP, path: files.dir.clone(), ..e })?;
            files.files.push(file);
        }
        Ok(files)
    }

    /// Paths for opening the files in this process only.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(TempFile::path).collect()
    }

    /// Paths that other processes of the same user can open while this process lives.
    pub fn paths_for_others(&self) -> Vec<PathBuf> {
        let path = |fd: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()).into();
        self.files.iter().map(|file| file.name.clone().unwrap_or_else(|| path(&file.fd))).collect()
    }

    /// The directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of the file system they are on.
    pub fn filesystem(&self) -> &str {
        &self.filesystem
    }

    /// Whether none of them has a name, so that even a killed process leaves no file behind.
    pub fn is_nameless(&self) -> bool {
        self.files.iter().all(|file| file.name.is_none())
    }
}

impl fmt::Display for TempFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} temporary files in {} ({})", self.files.len(), self.dir.display(), self.filesystem)
    }
}

fn default_dirs() -> Vec<PathBuf> {
    let here = std::env::current_dir().ok();
    here.into_iter().chain(std::env::var_os("TMPDIR").map(PathBuf::from)).collect()
}

/// The first suitable directory and its file system; or why none is suitable.
fn choose(dirs: &[PathBuf], total: u64) -> Result<(PathBuf, String), SysError> {
    let mut errors = Vec::new();
    for dir in dirs {
        match suits(dir, total) {
            Ok(fs) => return Ok((dir.clone(), fs)),
            Err(e) => errors.push(e),
        }
    }
    let rest: Vec<String> = errors.iter().skip(1).map(SysError::to_string).collect();
    let Some(mut first) = errors.into_iter().next() else {
        return Err(SysError::new(OP, ".", "the current directory is gone", "name a directory"));
    };
    if !rest.is_empty() {
        first.help = format!("{}; nor elsewhere: {}", first.help, rest.join("; "));
    }
    Err(first)
}

fn suits(dir: &Path, total: u64) -> Result<String, SysError> {
    let fail = |e: Errno| SysError::from_errno(OP, dir, e.raw_os_error());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(fail)?;
    let fs = probe::filesystem_of(fd.as_fd());
    let name = fs.as_ref().map_or("unknown", |fs| fs.name.as_str()).to_owned();
    if fs.is_some_and(|fs| fs.is_memory()) {
        let message = format!("it is on {name}, whose files are in memory: that would measure no disk");
        return Err(SysError::new(OP, dir, message, "name a directory on a disk"));
    }
    rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).map_err(fail)?;
    space::check(OP, dir, &fd, total)?;
    Ok(name)
}

/// Makes an empty file, in the most reliable way that the system allows.
fn make(dir: &Path) -> Result<TempFile, SysError> {
    let fail = |e: Errno| SysError::from_errno(OP, dir, e.raw_os_error());
    if let Some(file) = make_as(dir, Naming::Nameless).map_err(fail)? {
        return Ok(file);
    }
    if let Some(file) = make_as(dir, Naming::Unlinked).map_err(fail)? {
        return Ok(file);
    }
    let named = make_as(dir, Naming::Named).map_err(fail)?;
    named.ok_or_else(|| fail(Errno::OPNOTSUPP))
}

/// `None` if this way does not work here.
fn make_as(dir: &Path, naming: Naming) -> Result<Option<TempFile>, Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    if naming == Naming::Nameless {
        return match rustix::fs::open(dir, flags | OFlags::TMPFILE, mode) {
            Ok(fd) => Ok(Some(TempFile { fd, name: None }).filter(can_reopen)),
            // Errors of file systems and kernels without support for it.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        };
    }
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    let name = dir.join(format!(".platter-{}-{number}", std::process::id()));
    let fd = rustix::fs::open(&name, flags | OFlags::CREATE, mode)?;
    let mut file = TempFile { fd, name: Some(name.clone()) };
    if naming == Naming::Unlinked {
        rustix::fs::unlink(&name)?;
        file.name = None;
        return Ok(Some(file).filter(can_reopen));
    }
    Ok(Some(file))
}

fn can_reopen(file: &TempFile) -> bool {
    rustix::fs::open(file.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// Gives a file its size and contents, and takes it out of the page cache.
fn fill(
    file: &TempFile,
    size: u64,
    pattern: Pattern,
    step: &mut dyn FnMut(u64) -> Result<(), Errno>,
) -> Result<(), SysError> {
    let fail = |e: Errno| SysError::from_errno(OP, "", e.raw_os_error());
    rustix::fs::ftruncate(&file.fd, size).map_err(fail)?;
    match rustix::fs::fallocate(&file.fd, FallocateFlags::empty(), 0, size) {
        // Only to find a lack of space early, and to lay the file out in one piece.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(e) => return Err(fail(e)),
    }
    let disk = OpenOptions::read_write().open(file.path())?;
    write_all(&disk, pattern, step).map_err(fail)?;
    rustix::fs::fdatasync(&disk).map_err(fail)?;
    rustix::fs::fadvise(&disk, 0, None, Advice::DontNeed).map_err(fail)
}

fn write_all(
    disk: &OpenedDisk,
    pattern: Pattern,
    step: &mut dyn FnMut(u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let size = disk.probe.size_bytes;
    let align = if disk.direct { u64::from(disk.probe.dio_offset_align) } else { 1 };
    let mut buf = AlignedBuf::new(CHUNK as usize, disk.probe.dio_mem_align.max(4096) as usize);
    let mut at = 0;
    while at < size {
        // The rest beyond the last aligned byte goes through the buffered descriptor.
        let aligned = size / align * align;
        let (fd, end, unit) = match &disk.buffered {
            Some(tail) if at >= aligned => (tail, size, 1),
            _ => (&disk.fd, aligned, align as usize),
        };
        let len = CHUNK.min(end - at);
        let part = &mut buf.as_mut()[..len as usize];
        pattern.fill(at, part);
        write_part(fd, part, at, unit)?;
        at += len;
        step(len)?;
    }
    Ok(())
}

/// Writes all of `part`; after a short write, continues from the last multiple of `unit`.
fn write_part(fd: &OwnedFd, part: &[u8], at: u64, unit: usize) -> Result<(), Errno> {
    let mut done = 0;
    while done < part.len() {
        match rustix::io::pwrite(fd, &part[done..], at + done as u64) {
            Ok(n) if n < unit => return Err(Errno::IO),
            Ok(n) => done += n / unit * unit,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
