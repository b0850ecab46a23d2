//! A VFS of SQLite over the kit's files.

use super::file;
use super::locks::Shared;
use crate::registered::{self, Registered, Store};
use platter_kit::files::Files;
use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_vfs};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// What SQLite is told of the disk: flags `SQLITE_IOCAP_…`, see
/// [xDeviceCharacteristics](https://www.sqlite.org/c3ref/c_iocap_atomic.html).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claims {
    /// What is true of the kit's files: a sector of 512 bytes is written wholly or not, and a write changes
    /// no byte beside those written, even when power fails.
    #[default]
    Honest,
    /// Also that writes reach the disk in the order in which they are issued, which is not true. SQLite then
    /// leaves syncs out.
    Sequential,
}

impl Claims {
    pub(super) fn flags(self) -> c_int {
        let honest = ffi::SQLITE_IOCAP_ATOMIC512 | ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
        match self {
            Claims::Honest => honest,
            Claims::Sequential => honest | ffi::SQLITE_IOCAP_SEQUENTIAL,
        }
    }
}

/// What the functions of a VFS use.
pub(super) struct Disk {
    pub(super) files: Files,
    pub(super) claims: Claims,
    shared: Mutex<HashMap<String, Shared>>,
}

impl Disk {
    /// What the connections to the database of this name share.
    pub(super) fn shared(&self, name: &str) -> Shared {
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_default().clone()
    }
}

/// The VFS, registered as long as this value lives.
pub(super) struct Vfs(Registered<Disk>);

/// Longest name of a file, in bytes.
const LONGEST_NAME: c_int = 200;

impl Vfs {
    pub(super) fn new(files: Files, claims: Claims) -> Vfs {
        let functions = sqlite3_vfs {
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xCurrentTimeInt64: Some(current_time),
            ..registered::table::<file::OpenFile>(2, LONGEST_NAME)
        };
        Vfs(Registered::new("kit", functions, Disk { files, claims, shared: Mutex::default() }))
    }

    /// Opens a database, and creates it if there is none.
    pub(super) fn open(&self, name: &str) -> rusqlite::Result<Store<'_>> {
        self.0.open(name)
    }
}

/// The disk of a VFS.
///
/// # Safety
/// `vfs` is one that [`Vfs::new`] has registered, and the reference is not used after the call that SQLite makes.
unsafe fn disk<'a>(vfs: *mut sqlite3_vfs) -> &'a Disk {
    // SAFETY: as this function demands.
    unsafe { registered::state(vfs) }
}

/// The name of a file. `None`: a temporary file without a name, or one that is no UTF-8.
///
/// # Safety
/// `name` is null, or a string that ends with a zero and lives as long as the call that SQLite makes.
unsafe fn name_of<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as this function demands.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    into: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with the VFS that was registered and a name that is null or a string.
    let (disk, name) = unsafe { (disk(vfs), name_of(name)) };
    let is_new = name.is_some_and(|name| !disk.files.exists(name));
    let opened = match name {
        Some(name) if flags & ffi::SQLITE_OPEN_CREATE != 0 => disk.files.create(name).ok(),
        Some(name) => disk.files.open(name),
        None => None,
    };
    let (Some(file), Some(name)) = (opened, name) else {
        // SAFETY: `into` has room for an `OpenFile`, as `szOsFile` says. Without methods it is not closed.
        unsafe { (*into).pMethods = ptr::null() };
        return ffi::SQLITE_CANTOPEN;
    };
    // SAFETY: `into` has room for an `OpenFile`, and `out_flags` is null or valid.
    unsafe {
        file::OpenFile::place(into, file, name, disk, flags, is_new);
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: as in `open`.
    let (disk, name) = unsafe { (disk(vfs), name_of(name)) };
    let Some(name) = name.filter(|name| disk.files.exists(name)) else {
        return ffi::SQLITE_IOERR_DELETE_NOENT;
    };
    if disk.files.delete(name).is_err() {
        return ffi::SQLITE_IOERR_DELETE;
    }
    match sync == 0 || disk.files.sync_directory().is_ok() {
        true => ffi::SQLITE_OK,
        false => ffi::SQLITE_IOERR_DIR_FSYNC,
    }
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: as in `open`; `out` is valid. Files that exist can be read and written.
    unsafe { *out = name_of(name).is_some_and(|name| disk(vfs).files.exists(name)).into() };
    ffi::SQLITE_OK
}

/// The same time always, in milliseconds of the Julian calendar: some time in 2023.
unsafe extern "C" fn current_time(_vfs: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: `out` is valid.
    unsafe { *out = 212_545_728_000_000 };
    ffi::SQLITE_OK
}
