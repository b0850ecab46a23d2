//! System calls that trace other processes, which have no safe wrapper.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr::{null_mut, without_provenance_mut};

/// A program for the kernel's filter of system calls.
pub(crate) type Filter = Vec<libc::sock_filter>;

/// Why a thread has stopped, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is about to make a call that the filter chose.
    Call,
    /// It has made the call at whose beginning it was told to stop again.
    Returned,
    /// It has executed another program; the number that it had before.
    Exec(i32),
    /// It has started a thread or process, or something else that needs no answer.
    Other,
    /// A signal is about to be delivered.
    Signal(i32),
    /// It is gone: exit status or signal.
    Gone(Ending),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It called `exit`, with this status.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
}

/// A system call as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) arch: u32,
    pub(crate) number: i64,
    pub(crate) args: [u64; 6],
}

/// `struct ptrace_syscall_info` of the kernel, in words.
type Info = [u64; 16];
/// `PTRACE_GET_SYSCALL_INFO`, Linux 5.3.
const GET_SYSCALL_INFO: u32 = 0x420e;
/// The stops that it describes.
const OP_EXIT: u64 = 2;
const OP_SECCOMP: u64 = 3;

const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL;

/// Starts a program under the filter, with this thread as its tracer. It has stopped before its first instruction.
pub(crate) fn start(command: &mut Command, filter: Filter) -> io::Result<Child> {
    // SAFETY: the closure makes system calls only, which may be made after a fork; it allocates nothing. The filter lives
    // in the closure, and its pointer is used only during the call.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
            check(libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()))?;
            let mode = libc::SECCOMP_MODE_FILTER;
            check(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program).into())
        });
    }
    let child = command.spawn()?;
    let pid = child.id() as i32;
    match wait(pid)? {
        (_, Event::Signal(libc::SIGTRAP)) => {}
        _ => return Err(io::Error::other("it ended before its first instruction")),
    }
    request(libc::PTRACE_SETOPTIONS, pid, OPTIONS as usize)?;
    Ok(child)
}

fn check(result: i64) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A request whose last argument is a number.
fn request(what: u32, thread: i32, data: usize) -> io::Result<()> {
    // SAFETY: these requests take a number; the kernel writes to no memory of this process.
    check(unsafe { libc::ptrace(what, thread, null_mut::<u8>(), without_provenance_mut::<u8>(data)) })
}

/// Lets a stopped thread run, with a signal to deliver or 0.
pub(crate) fn resume(thread: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, thread, signal as usize)
}

/// Lets a thread run that has stopped at the beginning of a call; it stops again at the end of it.
pub(crate) fn until_return(thread: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, thread, 0)
}

fn info(thread: i32) -> io::Result<Info> {
    let mut info: Info = [0; 16];
    let size = without_provenance_mut::<u8>(size_of::<Info>());
    // SAFETY: the kernel writes at most the given number of bytes, which are there.
    check(unsafe { libc::ptrace(GET_SYSCALL_INFO, thread, size, info.as_mut_ptr()) })?;
    Ok(info)
}

/// The call that a thread is about to make.
pub(crate) fn entry(thread: i32) -> io::Result<Entry> {
    let info = info(thread)?;
    if info[0] & 0xff != OP_SECCOMP {
        return Err(io::Error::other("the kernel does not describe a system call as it begins"));
    }
    let mut args = [0; 6];
    args.copy_from_slice(&info[4..10]);
    Ok(Entry { arch: (info[0] >> 32) as u32, number: info[3] as i64, args })
}

/// What the call has returned that a thread has made: `None` for an error.
pub(crate) fn returned(thread: i32) -> io::Result<Option<u64>> {
    let info = info(thread)?;
    if info[0] & 0xff != OP_EXIT {
        return Err(io::Error::other("the kernel does not describe the end of a system call"));
    }
    Ok((info[4] & 0xff == 0).then_some(info[3]))
}

/// Waits for a thread to stop or end: for any of those that this thread traces with -1.
///
/// # Errors
/// `ECHILD`: none is left.
pub(crate) fn wait(which: i32) -> io::Result<(i32, Event)> {
    let mut status = 0;
    let thread = loop {
        // SAFETY: the status is written to a variable of this function.
        let thread = unsafe { libc::waitpid(which, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if thread != -1 {
            break thread;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    Ok((thread, event(thread, status)))
}

fn event(thread: i32, status: i32) -> Event {
    if libc::WIFEXITED(status) {
        return Event::Gone(Ending::Exit(libc::WEXITSTATUS(status)));
    }
    if libc::WIFSIGNALED(status) {
        return Event::Gone(Ending::Signal(libc::WTERMSIG(status)));
    }
    match (libc::WSTOPSIG(status), status >> 16) {
        (_, libc::PTRACE_EVENT_SECCOMP) => Event::Call,
        (_, libc::PTRACE_EVENT_EXEC) => Event::Exec(message(thread)),
        (signal, 0) if signal == libc::SIGTRAP | 0x80 => Event::Returned,
        (signal, 0) => Event::Signal(signal),
        _ => Event::Other,
    }
}

/// The number that belongs to an event.
fn message(thread: i32) -> i32 {
    let mut number: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word, to a variable of this function.
    unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, thread, null_mut::<u8>(), &raw mut number) };
    number as i32
}

/// Kills a process.
pub(crate) fn kill(process: i32) {
    signal(process, libc::SIGKILL);
}

/// Sends a signal to a process, which may be gone.
pub(crate) fn signal(process: i32, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(process, signal) };
}
