//! The system calls that are looked at, and the filter that chooses them.

use crate::ptrace::Filter;

/// What a call does, whatever its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Path at an argument, flags at another, relative to a descriptor at the first one or to the working directory.
    Open {
        dir: bool,
        path: usize,
        flags: Flags,
    },
    /// Bytes to a descriptor.
    Write {
        vector: bool,
        offset: Option<usize>,
        flags: Option<usize>,
    },
    /// Bytes that the kernel moves to the descriptor at this argument; a pointer to a position at the other one.
    Move {
        to: usize,
        offset: Option<usize>,
    },
    /// A length, by path or descriptor.
    Truncate {
        path: bool,
    },
    Allocate,
    /// `fsync`, `fdatasync`.
    Sync,
    /// `sync`, `syncfs`.
    SyncAll {
        all: bool,
    },
    Map,
    /// `msync`, `munmap` and what else ends a mapping.
    MapSync,
    Rename {
        dirs: bool,
        flags: bool,
    },
    Link {
        dirs: bool,
    },
    Symlink {
        dir: bool,
    },
    Remove {
        dir: bool,
    },
    MakeDir {
        dir: bool,
    },
    /// Permissions, by path (relative to a descriptor or not) or descriptor.
    Mode(ModeOf),
    /// The end of a process, before which its mappings are looked at.
    Exit,
    /// `ioctl` with a request that clones.
    Clone,
}

/// Where a call has its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flags {
    /// In this argument.
    Argument(usize),
    /// In the first word that this argument points to.
    Behind(usize),
    /// It has none: it creates and truncates.
    Create,
}

/// What the permissions belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeOf {
    Descriptor,
    Path,
    PathAt,
}

/// Stop only if this argument has one of these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits(usize, u32);

/// One system call.
#[derive(Debug)]
pub(crate) struct Call {
    number: i64,
    pub(crate) name: &'static str,
    pub(crate) act: Act,
    only: Option<Bits>,
}

const fn call(number: i64, name: &'static str, act: Act) -> Call {
    Call { number, name, act, only: None }
}

const fn only(number: i64, name: &'static str, act: Act, argument: usize, bits: i32) -> Call {
    Call { number, name, act, only: Some(Bits(argument, bits as u32)) }
}

/// Flags of `open` that may change something at once.
const CHANGING: i32 = libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);
/// `FICLONE` and `FICLONERANGE`.
const CLONES: [u64; 2] = [0x4004_9409, 0x4020_940d];

const fn write(vector: bool, offset: Option<usize>, flags: Option<usize>) -> Act {
    Act::Write { vector, offset, flags }
}

/// The calls of all architectures.
const COMMON: &[Call] = &[
    only(
        libc::SYS_openat,
        "openat",
        Act::Open { dir: true, path: 1, flags: Flags::Argument(2) },
        2,
        CHANGING,
    ),
    call(libc::SYS_openat2, "openat2", Act::Open { dir: true, path: 1, flags: Flags::Behind(2) }),
    call(libc::SYS_write, "write", write(false, None, None)),
    call(libc::SYS_writev, "writev", write(true, None, None)),
    call(libc::SYS_pwrite64, "pwrite", write(false, Some(3), None)),
    call(libc::SYS_pwritev, "pwritev", write(true, Some(3), None)),
    call(libc::SYS_pwritev2, "pwritev2", write(true, Some(3), Some(5))),
    call(libc::SYS_sendfile, "sendfile", Act::Move { to: 0, offset: None }),
    call(libc::SYS_splice, "splice", Act::Move { to: 2, offset: Some(3) }),
    call(libc::SYS_copy_file_range, "copy_file_range", Act::Move { to: 2, offset: Some(3) }),
    call(libc::SYS_truncate, "truncate", Act::Truncate { path: true }),
    call(libc::SYS_ftruncate, "ftruncate", Act::Truncate { path: false }),
    call(libc::SYS_fallocate, "fallocate", Act::Allocate),
    call(libc::SYS_fsync, "fsync", Act::Sync),
    call(libc::SYS_fdatasync, "fdatasync", Act::Sync),
    call(libc::SYS_sync, "sync", Act::SyncAll { all: true }),
    call(libc::SYS_syncfs, "syncfs", Act::SyncAll { all: false }),
    only(libc::SYS_mmap, "mmap", Act::Map, 3, libc::MAP_SHARED),
    call(libc::SYS_msync, "msync", Act::MapSync),
    call(libc::SYS_munmap, "munmap", Act::MapSync),
    call(libc::SYS_mremap, "mremap", Act::MapSync),
    call(libc::SYS_exit_group, "exit", Act::Exit),
    call(libc::SYS_renameat2, "renameat2", Act::Rename { dirs: true, flags: true }),
    call(libc::SYS_linkat, "linkat", Act::Link { dirs: true }),
    call(libc::SYS_symlinkat, "symlinkat", Act::Symlink { dir: true }),
    call(libc::SYS_unlinkat, "unlinkat", Act::Remove { dir: true }),
    call(libc::SYS_mkdirat, "mkdirat", Act::MakeDir { dir: true }),
    call(libc::SYS_fchmod, "fchmod", Act::Mode(ModeOf::Descriptor)),
    call(libc::SYS_fchmodat, "fchmodat", Act::Mode(ModeOf::PathAt)),
    call(libc::SYS_ioctl, "ioctl", Act::Clone),
];

/// The calls of x86-64 that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Call] = &[
    only(libc::SYS_open, "open", Act::Open { dir: false, path: 0, flags: Flags::Argument(1) }, 1, CHANGING),
    call(libc::SYS_creat, "creat", Act::Open { dir: false, path: 0, flags: Flags::Create }),
    call(libc::SYS_rename, "rename", Act::Rename { dirs: false, flags: false }),
    call(libc::SYS_renameat, "renameat", Act::Rename { dirs: true, flags: false }),
    call(libc::SYS_link, "link", Act::Link { dirs: false }),
    call(libc::SYS_symlink, "symlink", Act::Symlink { dir: false }),
    call(libc::SYS_unlink, "unlink", Act::Remove { dir: false }),
    call(libc::SYS_rmdir, "rmdir", Act::Remove { dir: false }),
    call(libc::SYS_mkdir, "mkdir", Act::MakeDir { dir: false }),
    call(libc::SYS_chmod, "chmod", Act::Mode(ModeOf::Path)),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Call] = &[call(libc::SYS_renameat, "renameat", Act::Rename { dirs: true, flags: false })];

/// Calls that fail, with this error, as on a kernel that does not have them: what they do is not done in calls.
const REFUSED: &[(i64, i32)] =
    &[(libc::SYS_io_uring_setup, libc::ENOSYS), (libc::SYS_io_setup, libc::ENOSYS)];

/// The architecture of programs, as the kernel numbers it.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCH: u32 = 0xc000_00b7;

/// Bit of calls of the x32 interface.
const X32: u32 = 0x4000_0000;

/// The call of this number.
pub(crate) fn by_number(number: i64) -> Option<&'static Call> {
    COMMON.iter().chain(OLDER).find(|call| call.number == number)
}

const fn instruction(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

const fn load(offset: usize) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32)
}

const fn jump(how: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | how | libc::BPF_K, yes, no, k)
}

const fn answer(what: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, what)
}

/// Offsets in `struct seccomp_data`: number, architecture, then the arguments (their low halves, on little-endian machines).
const NUMBER: usize = 0;
const ARCHITECTURE: usize = 4;
const ARGUMENTS: usize = 16;

/// The filter: lets most calls pass at full speed, and stops at those of the table.
pub(crate) fn filter() -> Filter {
    let trace = answer(libc::SECCOMP_RET_TRACE);
    let mut filter = vec![load(ARCHITECTURE), jump(libc::BPF_JEQ, ARCH, 1, 0), trace, load(NUMBER)];
    // A call of another interface is reported, and then refused as not seen.
    filter.extend([jump(libc::BPF_JGE, X32, 0, 1), trace]);
    for (number, error) in REFUSED {
        let refuse = answer(libc::SECCOMP_RET_ERRNO | *error as u32);
        filter.extend([jump(libc::BPF_JEQ, *number as u32, 0, 1), refuse]);
    }
    for call in COMMON.iter().chain(OLDER) {
        let number = call.number as u32;
        match (call.act, call.only) {
            (Act::Clone, _) => {
                let [one, other] = CLONES.map(|request| request as u32);
                filter.extend([jump(libc::BPF_JEQ, number, 0, 5), load(ARGUMENTS + 8)]);
                filter.extend([jump(libc::BPF_JEQ, one, 1, 0), jump(libc::BPF_JEQ, other, 0, 1), trace]);
                filter.push(answer(libc::SECCOMP_RET_ALLOW));
            }
            (_, Some(Bits(argument, bits))) => {
                filter.extend([jump(libc::BPF_JEQ, number, 0, 4), load(ARGUMENTS + 8 * argument)]);
                filter.extend([jump(libc::BPF_JSET, bits, 0, 1), trace, answer(libc::SECCOMP_RET_ALLOW)]);
            }
            (_, None) => filter.extend([jump(libc::BPF_JEQ, number, 0, 1), trace]),
        }
    }
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    filter
}
