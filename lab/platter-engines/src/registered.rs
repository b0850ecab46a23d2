//! A VFS of SQLite that is registered as long as a value lives, and the functions that are the same in each.

use rusqlite::ffi::{self, sqlite3_vfs};
use rusqlite::{Connection, OpenFlags};
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A VFS whose functions use a `T`.
pub(crate) struct Registered<T> {
    /// Points to what `Registered::new` has put into boxes.
    raw: *mut sqlite3_vfs,
    state: *mut T,
    name: CString,
}

/// A connection over a [`Registered`], which must be closed first.
pub(crate) struct Store<'a> {
    connection: Connection,
    vfs: PhantomData<&'a ()>,
}

impl Store<'_> {
    pub(crate) fn close(self) -> rusqlite::Result<()> {
        self.connection.close().map_err(|(_, error)| error)
    }
}

impl Deref for Store<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Names of VFSs must differ within a process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A table of functions without those that each VFS must provide itself. `F` is an open file; names of files have `longest_name` bytes
/// at most.
pub(crate) fn table<F>(version: c_int, longest_name: c_int) -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: version,
        szOsFile: size_of::<F>() as c_int,
        mxPathname: longest_name,
        pNext: ptr::null_mut(),
        zName: ptr::null(),
        pAppData: ptr::null_mut(),
        xOpen: None,
        xDelete: None,
        xAccess: None,
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: None,
        xGetLastError: None,
        xCurrentTimeInt64: None,
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

impl<T> Registered<T> {
    /// Registers a VFS with the functions of a table, under a name of its own.
    pub(crate) fn new(prefix: &str, table: sqlite3_vfs, state: T) -> Registered<T> {
        let text = format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(text).unwrap_or_default();
        let state = Box::into_raw(Box::new(state));
        let raw = sqlite3_vfs { zName: name.as_ptr(), pAppData: state.cast(), ..table };
        let raw = Box::into_raw(Box::new(raw));
        // SAFETY: `raw` and what it points to are valid until `drop` has unregistered it.
        unsafe { ffi::sqlite3_vfs_register(raw, 0) };
        Registered { raw, state, name }
    }

    /// What the functions use.
    pub(crate) fn state(&self) -> &T {
        // SAFETY: it comes from a box that `drop` frees, and it is only shared, never changed.
        unsafe { &*self.state }
    }

    /// Opens a database, and creates it if there is none.
    pub(crate) fn open(&self, name: &str) -> rusqlite::Result<Store<'_>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = Connection::open_with_flags_and_vfs(name, flags, self.name.as_c_str())?;
        Ok(Store { connection, vfs: PhantomData })
    }
}

impl<T> Drop for Registered<T> {
    fn drop(&mut self) {
        // SAFETY: both come from boxes made in `new`. No connection uses them any longer: each is in a `Store`,
        // which borrows this value, and rusqlite closes a connection when it is dropped.
        unsafe {
            ffi::sqlite3_vfs_unregister(self.raw);
            drop(Box::from_raw(self.raw));
            drop(Box::from_raw(self.state));
        }
    }
}

/// What the functions of a VFS use.
///
/// # Safety
/// `vfs` is one that [`Registered::new`] has registered with a `T`, and the reference is not used after the call that SQLite
/// makes.
pub(crate) unsafe fn state<'a, T>(vfs: *mut sqlite3_vfs) -> &'a T {
    // SAFETY: `pAppData` points to the state as long as the VFS is registered; it is only shared, never changed.
    unsafe { &*(*vfs).pAppData.cast::<T>() }
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: `name` is a string. There are no folders, so it is complete.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if bytes.len() > usize::try_from(room).unwrap_or(0) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `out` has room for `room` bytes, which was checked.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len()) };
    ffi::SQLITE_OK
}

/// The same numbers always; SQLite asks for those that its own generator is seeded with.
unsafe extern "C" fn randomness(_vfs: *mut sqlite3_vfs, count: c_int, out: *mut c_char) -> c_int {
    // SAFETY: `out` has room for `count` bytes.
    unsafe { ptr::write_bytes(out, 0x5a, usize::try_from(count).unwrap_or(0)) };
    count
}

/// Does not sleep: there is one thread, so what is waited for cannot happen meanwhile.
unsafe extern "C" fn sleep(_vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}
