//! A VFS with one file that has no name, which notes the pages that are read.
//!
//! Only the database is there: journals are off, and temporary tables are in memory.

use super::PAGE_BYTES;
use crate::registered::{self, Registered, Store};
use platter_bench::dsw::Read;
use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the functions of the VFS use.
struct Disk {
    file: File,
    log: Mutex<Log>,
}

/// What was read since [`Vfs::begin`].
#[derive(Default)]
struct Log {
    is_on: bool,
    reads: Vec<Read>,
    /// Processor time of the thread when the read before returned.
    since_ns: u64,
}

impl Disk {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a read of a whole page; SQLite reads a part of the first page to see whether it changed.
    fn note(&self, at: u64, bytes: usize, began_ns: u64) {
        let mut log = self.log();
        if log.is_on && bytes == PAGE_BYTES as usize {
            let compute_ns = began_ns.saturating_sub(log.since_ns);
            log.reads.push(Read { page: at / u64::from(PAGE_BYTES), compute_ns });
            log.since_ns = thread_cpu_ns();
        }
    }
}

/// Processor time of this thread.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// A file as SQLite holds it; SQLite knows the first field only. Closing frees nothing: the VFS owns the disk.
#[repr(C)]
struct OpenFile {
    base: sqlite3_file,
    disk: *const Disk,
}

/// The VFS, registered as long as this value lives.
pub(super) struct Vfs(Registered<Disk>);

impl Vfs {
    pub(super) fn new(file: File) -> Vfs {
        let functions = sqlite3_vfs {
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xCurrentTime: Some(current_time),
            ..registered::table::<OpenFile>(1, 64)
        };
        Vfs(Registered::new("dsw", functions, Disk { file, log: Mutex::default() }))
    }

    /// Opens the database. One connection at a time: there are no locks.
    pub(super) fn open(&self) -> rusqlite::Result<Store<'_>> {
        let store = self.0.open("dsw")?;
        store.execute_batch(&format!("pragma page_size = {PAGE_BYTES}; pragma journal_mode = off;"))?;
        Ok(store)
    }

    /// Begins to note reads.
    pub(super) fn begin(&self) {
        *self.0.state().log() = Log { is_on: true, reads: Vec::new(), since_ns: thread_cpu_ns() };
    }

    /// Stops, and returns the reads since [`Vfs::begin`].
    pub(super) fn end(&self) -> Vec<Read> {
        std::mem::take(&mut *self.0.state().log()).reads
    }

    /// Pages of the database.
    pub(super) fn pages(&self) -> std::io::Result<u64> {
        Ok(self.0.state().file.metadata()?.len().div_ceil(PAGE_BYTES.into()))
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: None,
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The disk of an open file.
///
/// # Safety
/// `file` was opened by [`open`], and the reference is not used after the call that SQLite makes.
unsafe fn disk<'a>(file: *mut sqlite3_file) -> &'a Disk {
    // SAFETY: `open` has put an `OpenFile` there whose disk lives as long as the VFS, which outlives connections.
    unsafe { &*(*file.cast::<OpenFile>()).disk }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    _name: *const c_char,
    into: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    if flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
        // SAFETY: `into` has room for an `OpenFile`. Without methods it is not closed.
        unsafe { (*into).pMethods = ptr::null() };
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `into` has room for an `OpenFile`, as `szOsFile` says; the state is the disk of `Vfs::new`; and
    // `out_flags` is null or valid.
    unsafe {
        let disk = ptr::from_ref(registered::state::<Disk>(vfs));
        into.cast::<OpenFile>().write(OpenFile { base: sqlite3_file { pMethods: &METHODS }, disk });
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(_file: *mut sqlite3_file) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    bytes: c_int,
    at: sqlite3_int64,
) -> c_int {
    let began_ns = thread_cpu_ns();
    let (Ok(len), Ok(at)) = (usize::try_from(bytes), u64::try_from(at)) else {
        return ffi::SQLITE_IOERR_READ;
    };
    // SAFETY: `into` has room for `len` bytes, which SQLite has written before or will not read unless this succeeds; the
    // file is one of `open`.
    let (disk, into) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, len);
        (disk(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), len))
    };
    match disk.file.read_exact_at(into, at) {
        Ok(()) => {
            disk.note(at, len, began_ns);
            ffi::SQLITE_OK
        }
        // The rest must be zero, which it is.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: sqlite3_int64,
) -> c_int {
    let (Ok(len), Ok(at)) = (usize::try_from(bytes), u64::try_from(at)) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    // SAFETY: `from` has `len` bytes; the file is one of `open`.
    let (disk, from) = unsafe { (disk(file), std::slice::from_raw_parts(from.cast::<u8>(), len)) };
    match disk.file.write_all_at(from, at) {
        Ok(()) => ffi::SQLITE_OK,
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => ffi::SQLITE_FULL,
        Err(_) => ffi::SQLITE_IOERR_WRITE,
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: the file is one of `open`.
    let disk = unsafe { disk(file) };
    match disk.file.set_len(u64::try_from(size).unwrap_or(0)) {
        Ok(()) => ffi::SQLITE_OK,
        Err(_) => ffi::SQLITE_IOERR_TRUNCATE,
    }
}

/// Nothing outlives the process.
unsafe extern "C" fn sync(_file: *mut sqlite3_file, _flags: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: the file is one of `open`.
    let size = unsafe { disk(file) }.file.metadata().map(|metadata| metadata.len());
    let Some(size) = size.ok().and_then(|size| sqlite3_int64::try_from(size).ok()) else {
        return ffi::SQLITE_IOERR_FSTAT;
    };
    // SAFETY: `out` is valid.
    unsafe { *out = size };
    ffi::SQLITE_OK
}

/// There is one connection at a time.
unsafe extern "C" fn lock(_file: *mut sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: `out` is valid.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_file: *mut sqlite3_file, _op: c_int, _arg: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn device_characteristics(_file: *mut sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn delete(_vfs: *mut sqlite3_vfs, _name: *const c_char, _sync: c_int) -> c_int {
    ffi::SQLITE_IOERR_DELETE_NOENT
}

/// There is no file beside the database, such as a journal.
unsafe extern "C" fn access(
    _vfs: *mut sqlite3_vfs,
    _name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: `out` is valid.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

/// The same time always, in days of the Julian calendar; the queries do not ask for it.
unsafe extern "C" fn current_time(_vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: `out` is valid.
    unsafe { *out = 2_460_000.5 };
    ffi::SQLITE_OK
}
