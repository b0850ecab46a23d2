//! The library libiscsi, loaded when the first disk needs it, so that programs start where it is not installed.
//!
//! Functions and structures are those of its headers `iscsi.h` and `scsi-lowlevel.h`, version 1.19. The headers promise no
//! layout for later versions, so [`Library::load`] checks by the library's own functions that what is read here lies where it
//! is looked for.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::OnceLock;

/// Names of the library, as systems install it: each incompatible version has another number.
const NAMES: [&str; 5] =
    ["libiscsi.so.7", "libiscsi.so.8", "libiscsi.so.9", "libiscsi.so.10", "libiscsi.so.11"];

/// `enum scsi_status`, above the values of a target.
pub(super) mod status {
    use std::ffi::c_int;
    pub(crate) const GOOD: c_int = 0;
    pub(crate) const CHECK_CONDITION: c_int = 2;
    pub(crate) const BUSY: c_int = 8;
    pub(crate) const RESERVATION_CONFLICT: c_int = 0x18;
    pub(crate) const TASK_SET_FULL: c_int = 0x28;
    pub(crate) const REDIRECT: c_int = 0x101;
    pub(crate) const CANCELLED: c_int = 0x0f00_0000;
    pub(crate) const ERROR: c_int = 0x0f00_0001;
}

/// `struct iscsi_context`.
#[repr(C)]
pub(super) struct Context {
    _private: [u8; 0],
}

/// `struct scsi_iovector`.
#[repr(C)]
pub(super) struct IoVector {
    list: *mut libc::iovec,
    count: c_int,
    allocated: c_int,
    offset: usize,
    consumed: c_int,
}

/// `struct scsi_task`.
#[repr(C)]
pub(super) struct Task {
    status: c_int,
    cdb_size: c_int,
    direction: c_int,
    expected: c_int,
    cdb: [u8; 16],
    /// `enum scsi_residual`: 1 is underflow, 2 is overflow.
    pub(super) residual_status: c_int,
    pub(super) residual: usize,
    sense: [u32; 4],
    /// With CHECK CONDITION the sense data behind its length, of two bytes.
    pub(super) data_size: c_int,
    pub(super) data: *mut u8,
    memory: *mut c_void,
    private: *mut c_void,
    /// The initiator task tag.
    pub(super) tag: u32,
    pub(super) command_number: u32,
    unit: u32,
    data_in: IoVector,
    data_out: IoVector,
}

/// `struct iscsi_target_portal`.
#[repr(C)]
pub(super) struct Portal {
    pub(super) next: *mut Portal,
    pub(super) address: *const c_char,
}

/// `struct iscsi_discovery_address`.
#[repr(C)]
pub(super) struct Discovered {
    pub(super) next: *mut Discovered,
    pub(super) name: *const c_char,
    pub(super) portals: *mut Portal,
}

/// `iscsi_command_cb`.
pub(super) type Callback = unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut c_void);

macro_rules! library {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library that are used. Their arguments are those of its headers.
        pub(super) struct Library {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn find(library: &libloading::Library) -> Result<Library, libloading::Error> {
                Ok(Library {
                    $(
                        // SAFETY: the type is that of the function in the header `iscsi.h` or `scsi-lowlevel.h`.
                        $field: unsafe {
                            *library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(concat!($name, "\0").as_bytes())?
                        },
                    )*
                })
            }
        }
    };
}

library! {
    create_context = "iscsi_create_context": fn(*const c_char) -> *mut Context;
    destroy_context = "iscsi_destroy_context": fn(*mut Context) -> c_int;
    set_target = "iscsi_set_targetname": fn(*mut Context, *const c_char) -> c_int;
    set_session_type = "iscsi_set_session_type": fn(*mut Context, c_int) -> c_int;
    set_header_digest = "iscsi_set_header_digest": fn(*mut Context, c_int) -> c_int;
    set_user = "iscsi_set_initiator_username_pwd": fn(*mut Context, *const c_char, *const c_char) -> c_int;
    set_target_user = "iscsi_set_target_username_pwd": fn(*mut Context, *const c_char, *const c_char) -> c_int;
    set_isid = "iscsi_set_isid_random": fn(*mut Context, u32, u32) -> c_int;
    set_no_reconnect = "iscsi_set_noautoreconnect": fn(*mut Context, c_int);
    set_user_timeout = "iscsi_set_tcp_user_timeout": fn(*mut Context, c_int);
    set_keep_idle = "iscsi_set_tcp_keepidle": fn(*mut Context, c_int);
    set_keep_count = "iscsi_set_tcp_keepcnt": fn(*mut Context, c_int);
    set_keep_interval = "iscsi_set_tcp_keepintvl": fn(*mut Context, c_int);
    error = "iscsi_get_error": fn(*mut Context) -> *const c_char;
    target_address = "iscsi_get_target_address": fn(*mut Context) -> *const c_char;
    connect = "iscsi_connect_async": fn(*mut Context, *const c_char, Callback, *mut c_void) -> c_int;
    login = "iscsi_login_async": fn(*mut Context, Callback, *mut c_void) -> c_int;
    logout = "iscsi_logout_async": fn(*mut Context, Callback, *mut c_void) -> c_int;
    discover = "iscsi_discovery_async": fn(*mut Context, Callback, *mut c_void) -> c_int;
    descriptor = "iscsi_get_fd": fn(*mut Context) -> c_int;
    events = "iscsi_which_events": fn(*mut Context) -> c_int;
    service = "iscsi_service": fn(*mut Context, c_int) -> c_int;
    unsent = "iscsi_out_queue_length": fn(*mut Context) -> c_int;
    command = "iscsi_scsi_command_async": fn(*mut Context, c_int, *mut Task, Callback, *mut c_void, *mut c_void) -> c_int;
    cancel = "iscsi_scsi_cancel_task": fn(*mut Context, *mut Task) -> c_int;
    manage = "iscsi_task_mgmt_async": fn(*mut Context, c_int, c_int, u32, u32, Callback, *mut c_void) -> c_int;
    create_task = "scsi_create_task": fn(c_int, *mut u8, c_int, c_int) -> *mut Task;
    free_task = "scsi_free_scsi_task": fn(*mut Task);
    set_private = "scsi_set_task_private_ptr": fn(*mut Task, *mut c_void);
    set_memory_in = "scsi_task_set_iov_in": fn(*mut Task, *mut libc::iovec, c_int);
    set_memory_out = "scsi_task_set_iov_out": fn(*mut Task, *mut libc::iovec, c_int);
}

/// `enum scsi_xfer_dir`.
pub(super) mod direction {
    use std::ffi::c_int;
    pub(crate) const NONE: c_int = 0;
    pub(crate) const READ: c_int = 1;
    pub(crate) const WRITE: c_int = 2;
}

/// The library, loaded by the first call.
///
/// # Errors
/// It is not installed, or not as it is known here: a sentence that says what to do.
pub(super) fn library() -> Result<&'static Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(Library::load).as_ref().map_err(String::clone)
}

impl Library {
    fn load() -> Result<Library, String> {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: loading runs the initialisation of the system's own library, which has none but that of the C library.
            match unsafe { libloading::Library::new(name) } {
                Ok(found) => return Library::check(name, found),
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(format!(
            "the library libiscsi is not installed ({why}); install the package libiscsi7 (Debian, Ubuntu) or libiscsi (Fedora, Arch, \
             SUSE), which has {}",
            NAMES[0]
        ))
    }

    fn check(name: &str, found: libloading::Library) -> Result<Library, String> {
        let library =
            Library::find(&found).map_err(|error| format!("the library {name} lacks a function: {error}"))?;
        // Its functions are kept for as long as the process lives.
        std::mem::forget(found);
        match library.has_known_layout() {
            true => Ok(library),
            false => Err(format!(
                "the library {name} has structures of another layout than libiscsi 1.19; install that version"
            )),
        }
    }

    /// Whether a task has its fields where [`Task`] has them. The vectors lie behind all fields that are read.
    fn has_known_layout(&self) -> bool {
        const BYTES: c_int = 0x1234;
        let mut cdb = [0x5a, 1, 2, 3, 4, 6];
        let mut memory = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2];
        let list = memory.as_mut_ptr();
        // SAFETY: the functions take a command of 6 bytes, and lists that they keep and do not look into. The task is freed
        // before the list ends; it is at least as large as is read, because the check begins with the fields in front and
        // each that follows is read only if the one before it is where it should be.
        unsafe {
            let task = (self.create_task)(6, cdb.as_mut_ptr(), direction::READ, BYTES);
            if task.is_null() {
                return false;
            }
            (self.set_private)(task, list.cast());
            (self.set_memory_in)(task, list, 2);
            (self.set_memory_out)(task, list, 1);
            let is_known = (*task).cdb_size == 6
                && (*task).direction == direction::READ
                && (*task).expected == BYTES
                && (&raw const (*task).cdb).cast::<[u8; 6]>().read() == cdb
                && (*task).private == list.cast()
                && (*task).data_in.list == list
                && (*task).data_in.count == 2
                && (*task).data_out.list == list
                && (*task).data_out.count == 1;
            (self.free_task)(task);
            is_known
        }
    }
}

// The layout of libiscsi 1.19 where pointers have 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(offset_of!(Task, residual_status) == 32 && offset_of!(Task, residual) == 40);
    assert!(offset_of!(Task, data_size) == 64 && offset_of!(Task, data) == 72);
    assert!(
        offset_of!(Task, tag) == 96 && offset_of!(Task, data_in) == 112 && offset_of!(Task, data_out) == 144
    );
};
