//! Threads and processes that are elsewhere while their I/O is in flight: they block in the kernel, exit or fork.

use platter_block::bio::{Bio, Flags};
use platter_disk::device::Device;
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::future::Io;
use platter_disk::open::DiskOptions;
use platter_disk::sys::Direct;
use std::ffi::CString;
use std::future::Future;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// Longer than any of these tests takes on a slow machine. Only a failing test waits this long.
const FOR_EVER: Duration = Duration::from_secs(60);

const SIZE: u64 = 16 << 20;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A future that was polled once, or its result if it completed. A panic would leave threads behind that other
/// threads wait for, so every failure is a value.
type Started = Result<Io<Vec<u8>>, Result<(), String>>;

fn polled(io: &mut Io<Vec<u8>>, waker: &Waker) -> Option<Result<(), String>> {
    match Pin::new(io).poll(&mut Context::from_waker(waker)) {
        Poll::Ready((result, _)) => Some(result.map_err(|error| error.to_string())),
        Poll::Pending => None,
    }
}

fn start(mut io: Io<Vec<u8>>) -> Started {
    polled(&mut io, Waker::noop()).map_or(Ok(io), Err)
}

/// Waits for a future to complete.
fn end(io: Started) -> Result<(), String> {
    let mut io = match io {
        Ok(io) => io,
        Err(ended) => return ended,
    };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let begun = std::time::Instant::now();
    while begun.elapsed() < FOR_EVER {
        if let Some(ended) = polled(&mut io, &waker) {
            return ended;
        }
        std::thread::park_timeout(FOR_EVER);
    }
    Err("it hangs".to_owned())
}

fn end_all(all: Vec<Started>) -> Result<(), String> {
    all.into_iter().map(end).fold(Ok(()), Result::and)
}

/// Runs a test on a file of each available driver, bypassing the page cache and through it.
fn on_files(allocate: bool, test: impl Fn(&str, &Device, &Path)) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for driver in FileDriver::ALL {
        for direct in [Direct::Prefer, Direct::Off] {
            let name = format!("{driver} {direct:?}");
            let path = dir.path().join(&name);
            let file = std::fs::File::create(&path).unwrap();
            file.set_len(SIZE).unwrap();
            if allocate {
                std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
            }
            let mut options = DiskOptions::read_write();
            options.file.driver = Choice::Only(driver);
            options.open.direct = direct;
            match Device::open(&path, options) {
                Ok(device) => test(&name, &device, dir.path()),
                Err(error) => eprintln!("skipped {name}: {error}"),
            }
        }
    }
}

/// Starts a process in a way that keeps the calling thread in the kernel, where only fatal signals reach it, until
/// the process has opened `fifo`, that is, until another thread opens its other end.
#[allow(unsafe_code)]
fn spawn_blocked(fifo: &Path) {
    let path = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    let program = c"/bin/true";
    let arguments = [program.as_ptr().cast_mut(), std::ptr::null_mut()];
    // SAFETY: initialised before it is used, and destroyed once; names and lists live until the calls return. The
    // child only opens a file and executes a program.
    unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        assert_eq!(libc::posix_spawn_file_actions_init(&raw mut actions), 0);
        let opened =
            libc::posix_spawn_file_actions_addopen(&raw mut actions, 0, path.as_ptr(), libc::O_RDONLY, 0);
        assert_eq!(opened, 0);
        let mut pid = 0;
        let environment = [std::ptr::null_mut()];
        let (actions_at, none) = (&raw const actions, std::ptr::null());
        let spawned = libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            actions_at,
            none,
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        assert_eq!(spawned, 0);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
    }
}

/// The kernel delivers completions of a ring through the thread that submitted. On lanes that other threads wait on
/// too, a blocked thread must not hold them up.
#[test]
fn futures_complete_while_the_thread_that_started_them_is_blocked_in_the_kernel() {
    on_files(true, |name, device, dir| {
        let fifo = dir.join(format!("{name} fifo"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let (give, take) = mpsc::channel::<Vec<Started>>();
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                let read = |at: u64| start(device.read(at << 20, vec![0u8; 1 << 20]));
                give.send((0..12).map(read).collect()).unwrap();
                spawn_blocked(&fifo);
            });
            let all = take.recv().unwrap();
            let done = end_all(all);
            std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
            done
        });
        assert_eq!(done, Ok(()), "{name}");
    });
}

/// Requests that the kernel carries out in its own threads for a thread that submitted to a ring are cancelled when
/// that thread exits.
#[test]
fn requests_of_threads_that_exit_are_carried_out() {
    const PIECE: u64 = 1 << 20;
    on_files(false, |name, device, _| {
        for round in 0..24u8 {
            let threads: Vec<_> = (0..4u64)
                .map(|thread| {
                    let device = device.clone();
                    std::thread::spawn(move || {
                        let write = |at: u64| {
                            device.write((thread * 4 + at) * PIECE, vec![round + 1; PIECE as usize])
                        };
                        let mut all: Vec<Io<Vec<u8>>> = (0..4).map(write).collect();
                        all.push(device.submit(Bio::flush()));
                        // One poll submits all of them.
                        let first = start(all.remove(0));
                        std::iter::once(first).chain(all.into_iter().map(Ok)).collect::<Vec<Started>>()
                    })
                })
                .collect();
            for thread in threads {
                assert_eq!(end_all(thread.join().unwrap()), Ok(()), "{name}");
            }
            let mut back = vec![0; 4096];
            for piece in 0..16u64 {
                device.read_at(&mut back, (piece + 1) * PIECE - 4096).unwrap();
                assert!(back.iter().all(|byte| *byte == round + 1), "{name}");
            }
        }
    });
}

/// Forks a child that does nothing, and ends when `parent` is closed.
#[allow(unsafe_code)]
fn fork_idle() -> (libc::pid_t, OwnedFd) {
    let (child, parent) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (reads, writes) = (child.as_raw_fd(), parent.as_raw_fd());
    // SAFETY: the child makes only system calls that are safe after a fork of one thread of several.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above; a byte on this stack.
        unsafe {
            libc::close(writes);
            let mut byte = 0u8;
            libc::read(reads, (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
    }
    assert!(pid > 0);
    (pid, parent)
}

#[allow(unsafe_code)]
fn wait_for(pid: libc::pid_t) {
    // SAFETY: takes no memory.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// A child process has copies of the parent's descriptors, so what the parent closes stays open. Nothing in the
/// parent may wait for the child.
#[test]
fn dropping_what_is_in_flight_does_not_wait_for_a_child_process() {
    on_files(true, |name, device, _| {
        let (device, told) = (device.clone(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            let mut channel = device.channel(32).unwrap();
            for at in 0..16u64 {
                let mut bio = Bio::read(at << 20, vec![0u8; 65536]).unwrap();
                bio.add_flags(Flags::NOMERGE);
                channel.submit(bio).unwrap();
            }
            let future = start(device.read(0, vec![0u8; 1 << 20]));
            channel.flush();
            let (pid, parent) = fork_idle();
            told.0.send(None).unwrap();
            drop(channel);
            drop(future);
            drop(device);
            told.0.send(Some((pid, parent))).unwrap();
        });
        assert!(told.1.recv().unwrap().is_none());
        let (pid, parent) =
            told.1.recv_timeout(FOR_EVER).unwrap_or_else(|_| panic!("{name}: hangs")).unwrap();
        drop(parent);
        wait_for(pid);
        thread.join().unwrap();
    });
}
