//! The methods of SQLite for a file that is open.

use super::locks::{Busy, Holder, NONE, RESERVED, SHARED};
use super::vfs::Disk;
use platter_kit::files::{File, Files};
use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

/// A file as SQLite holds it; SQLite knows the first field only.
#[repr(C)]
pub(super) struct OpenFile {
    base: sqlite3_file,
    /// From a box; freed by `close`.
    state: *mut State,
}

struct State {
    file: File,
    files: Files,
    name: String,
    delete_on_close: bool,
    /// It is a journal or a log that was created: the directory is synced with it the first time, as SQLite's own
    /// VFS for Unix does.
    syncs_directory: bool,
    characteristics: c_int,
    holder: Holder,
}

impl OpenFile {
    /// Makes an open file where SQLite has room for it.
    ///
    /// # Safety
    /// `into` is valid for writing an `OpenFile`. SQLite calls `xClose` before it frees that memory.
    pub(super) unsafe fn place(
        into: *mut sqlite3_file,
        file: File,
        name: &str,
        disk: &Disk,
        flags: c_int,
        is_new: bool,
    ) {
        let state = State {
            file,
            files: disk.files.clone(),
            name: name.to_owned(),
            delete_on_close: flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0,
            syncs_directory: is_new && flags & (ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL) != 0,
            characteristics: disk.claims.flags(),
            holder: disk.shared(name).holder(),
        };
        let state = Box::into_raw(Box::new(state));
        // SAFETY: as this function demands.
        unsafe {
            into.cast::<OpenFile>().write(OpenFile { base: sqlite3_file { pMethods: &METHODS }, state })
        };
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// What belongs to a file.
///
/// # Safety
/// `file` was made by [`OpenFile::place`] and is not closed; the reference is not used after the call that SQLite
/// makes. SQLite makes one call at a time for each file, so there is no other reference.
unsafe fn state<'a>(file: *mut sqlite3_file) -> &'a mut State {
    // SAFETY: as this function demands.
    unsafe { &mut *(*file.cast::<OpenFile>()).state }
}

fn result(done: io::Result<()>, otherwise: c_int) -> c_int {
    if done.is_ok() { ffi::SQLITE_OK } else { otherwise }
}

fn lock_result(taken: Result<(), Busy>) -> c_int {
    if taken.is_ok() { ffi::SQLITE_OK } else { ffi::SQLITE_BUSY }
}

/// A number of SQLite that is never negative.
fn unsigned(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let open = file.cast::<OpenFile>();
    // SAFETY: the state comes from a box that `place` made; SQLite closes a file once and does not use it after.
    let state = unsafe { Box::from_raw(ptr::replace(&raw mut (*open).state, ptr::null_mut())) };
    let deleted = if state.delete_on_close { state.files.delete(&state.name) } else { Ok(()) };
    result(deleted, ffi::SQLITE_IOERR_CLOSE)
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    count: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file, and memory for `count` bytes that nothing else uses during the call; all of
    // it is set first, so that it is no reference to uninitialised memory.
    let (state, buffer) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, unsigned(count) as usize);
        (state(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), unsigned(count) as usize))
    };
    match state.file.read_at(buffer, unsigned(at)) {
        Ok(read) if read == buffer.len() => ffi::SQLITE_OK,
        // The rest is zeroes, as SQLite demands.
        Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    count: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file, and `count` bytes that do not change during the call.
    let (state, data) =
        unsafe { (state(file), std::slice::from_raw_parts(from.cast::<u8>(), unsigned(count) as usize)) };
    result(state.file.write_at(data, unsigned(at)), ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes an open file.
    result(unsafe { state(file) }.file.set_len(unsigned(size)), ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let state = unsafe { state(file) };
    if state.file.sync().is_err() {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    if std::mem::take(&mut state.syncs_directory) && state.files.sync_directory().is_err() {
        return ffi::SQLITE_IOERR_DIR_FSYNC;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes an open file, and `out` is valid.
    match unsafe { state(file) }.file.len() {
        Ok(len) => {
            // SAFETY: as above.
            unsafe { *out = sqlite3_int64::try_from(len).unwrap_or(sqlite3_int64::MAX) };
            ffi::SQLITE_OK
        }
        Err(_) => ffi::SQLITE_IOERR_FSTAT,
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    lock_result(unsafe { state(file) }.holder.lock(level))
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe { state(file) }.holder.unlock(level.clamp(NONE, SHARED));
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    const { assert!(RESERVED > SHARED) };
    // SAFETY: SQLite passes an open file, and `out` is valid.
    unsafe { *out = state(file).holder.is_reserved().into() };
    ffi::SQLITE_OK
}

/// None of the optional requests is known.
unsafe extern "C" fn file_control(_file: *mut sqlite3_file, _what: c_int, _with: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

/// Bytes that a power cut leaves old or new together.
unsafe extern "C" fn sector_size(_file: *mut sqlite3_file) -> c_int {
    512
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe { state(file) }.characteristics
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    let holder = &mut unsafe { state(file) }.holder;
    let address = holder.region(unsigned(region) as usize, unsigned(size) as usize, extend != 0);
    // SAFETY: `out` is valid. The region stays until this connection has unmapped it.
    unsafe { *out = address.map_or(ptr::null_mut(), <*mut u64>::cast) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, first: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let holder = &mut unsafe { state(file) }.holder;
    let (first, count) = (unsigned(first) as usize, unsigned(count) as usize);
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        holder.shm_unlock(first, count);
        return ffi::SQLITE_OK;
    }
    lock_result(holder.shm_lock(first, count, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0))
}

unsafe extern "C" fn shm_barrier(_file: *mut sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe { state(file) }.holder.unmap();
    ffi::SQLITE_OK
}
