//! Devices as files in a directory, by FUSE.
//!
//! The directory has one file for each device of the server. Several threads take requests of the kernel, each with a
//! descriptor of the FUSE driver and channels of its own, and have many requests in flight at once. Reads and writes
//! go through the kernel's page cache only if [`Options::kernel_cache`](crate::export::Options) is set, and then only
//! reads are cached: a write is with the device when it returns, and durable after `fsync`.

mod descriptor;
mod device_user;
mod device_users;
mod mount;
mod nodes;
mod post;
mod shared;
mod slow;
mod threads;
mod tries;
mod wire;
mod worker;

use crate::error::ServeError;
use crate::export::{Export, ExportType, Start};
use device_users::DeviceUsers;
use mount::Mount;
use nodes::Nodes;
use post::{MAX_TRANSFER, Post};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use shared::Shared;
use std::fmt::Display;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use threads::Threads;
use wire::KIND;
use wire::{Fields, Header, Init, ability, op};
use worker::Worker;

/// The row of the table.
pub const TYPE: ExportType = ExportType {
    name: KIND,
    summary: "each device as a file in a directory",
    address: "an empty directory",
    start,
};

/// Most threads of a mount.
const MAX_THREADS: usize = 4;

/// Least memory of a thread, in bytes: for the next request and for one read.
const LEAST_MEMORY: usize = 2 * MAX_TRANSFER;

/// How long the kernel may take to begin.
const BEGIN: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// How often to try to unmount while files are open; the kernel does not report that they are closed.
const RETRY: Duration = Duration::from_millis(20);

/// How long the threads have, at least, to answer what they have taken.
const GRACE: Duration = Duration::from_secs(1);

struct FuseExport {
    mount: Mount,
    threads: Threads,
}

fn start(start: &Start<'_>) -> Result<Box<dyn Export>, ServeError> {
    let nodes = Nodes::new(Arc::clone(&start.devices), start.options.allow_other);
    if let Some(served) = nodes.unfit() {
        let name = served.name();
        return Err(ServeError::usage(format!("the name {name:?} of a device cannot be the name of a file")));
    }
    if start.options.client_memory_bytes < LEAST_MEMORY {
        let (given, least) = (start.options.client_memory_bytes, LEAST_MEMORY);
        return Err(ServeError::usage(format!("{given} bytes of memory for requests: at least {least}")));
    }
    let (mount, fuse) = mount::mount(Path::new(start.address), start.options.allow_other)?;
    let refuse = |what: &str, error: &dyn Display| {
        ServeError::system(format!("cannot serve on {}: {what}: {error}", start.address))
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let most = (threads * start.options.depth).min(usize::from(u16::MAX)) as u16;
    begin(&fuse, most)
        .map_err(|why| ServeError::system(format!("cannot serve on {}: {why}", start.address)))?;
    let directory = mount.directory().display().to_string();
    let (devices, clients) = (Arc::clone(&start.devices), Arc::clone(&start.clients));
    let users = DeviceUsers::new(devices, clients, Arc::clone(&start.log), directory);
    let shared = Arc::new(Shared::new(nodes, start.options.clone(), Arc::clone(&start.log), users));
    let no_thread = |error: std::io::Error| ServeError::system(format!("no thread can be started: {error}"));
    let (sender, unaligned) = slow::start().map_err(no_thread)?;
    let running = Threads::new(Arc::clone(&shared), unaligned);
    let mut export = FuseExport { mount, threads: running };
    // Dropped before the export, which awaits the thread that receives from it.
    let slow = sender;
    let mut descriptors = Vec::new();
    for _ in 1..threads {
        descriptors.push(descriptor::clone(&fuse).map_err(|error| refuse("another descriptor", &error))?);
    }
    descriptors.push(fuse);
    for fuse in descriptors {
        let post = Post::new(fuse).map_err(|error| refuse("a descriptor to sleep on", &error))?;
        shared.users.bells.add(&post.bell);
        let (shared, slow) = (Arc::clone(&shared), slow.clone());
        let builder = thread::Builder::new().name("fuse".to_owned());
        let work = move || Worker::new(post, shared, slow).run();
        export.threads.add(builder.spawn(work).map_err(no_thread)?);
    }
    Ok(Box::new(export))
}

/// Answers the kernel's first request.
fn begin(fuse: &OwnedFd, most_requests: u16) -> Result<(), String> {
    let ready =
        poll(&mut [PollFd::new(fuse, PollFlags::IN)], Some(&BEGIN)).map_err(|error| error.to_string())?;
    if ready == 0 {
        return Err("the kernel does not begin".to_owned());
    }
    let mut request = vec![0; MAX_TRANSFER];
    let bytes =
        rustix::io::readv(fuse, &mut [IoSliceMut::new(&mut request)]).map_err(|error| error.to_string())?;
    let header = Header::parse(&request[..bytes]).filter(|header| header.opcode == op::INIT);
    let init = request.get(wire::IN_HEADER..bytes).and_then(Init::parse);
    let (Some(header), Some(init)) = (header, init) else {
        return Err("the kernel's first request is not INIT".to_owned());
    };
    if init.major != wire::MAJOR || init.minor < wire::OLDEST_MINOR {
        post::reply(fuse, header.unique, Err(Errno::PROTO));
        let (major, minor) = (init.major, init.minor);
        let oldest = wire::OLDEST_MINOR;
        return Err(format!(
            "the kernel has version {major}.{minor} of FUSE; 7.{oldest} is needed (Linux 5.4)"
        ));
    }
    let abilities = ability::ASYNC_READ
        | ability::BIG_WRITES
        | ability::AUTO_INVAL_DATA
        | ability::ASYNC_DIO
        | ability::PARALLEL_DIROPS
        | ability::MAX_PAGES;
    let fields = Fields::default().u32(wire::MAJOR).u32(wire::MINOR.min(init.minor));
    let fields = fields.u32(init.max_readahead).u32(init.flags & abilities);
    let fields = fields.u16(most_requests).u16(most_requests / 4 * 3).u32(MAX_TRANSFER as u32).u32(1);
    let reply = fields.u16((MAX_TRANSFER / 4096) as u16).zeroes(34).bytes();
    post::reply(fuse, header.unique, Ok(&reply));
    Ok(())
}

impl FuseExport {
    /// Unmounts it.
    ///
    /// # Errors
    /// Files are still open at `until`: a sentence that says so.
    fn unmount(&mut self, until: Instant) -> Result<(), String> {
        while !self.mount.try_unmount() {
            if Instant::now() >= until {
                let users = self.mount.users();
                let users = if users.is_empty() { "unknown processes".to_owned() } else { users.join(", ") };
                return Err(format!("files are open, and fail from now on; they are used by {users}"));
            }
            thread::sleep(RETRY);
        }
        Ok(())
    }

    /// Ends the threads; requests that they have taken are answered.
    ///
    /// # Errors
    /// Some are not answered at `until`, nor after a time of grace: a sentence that says so. The mount is aborted, and
    /// the threads end when the device has answered.
    fn end(&mut self, until: Instant) -> Result<(), String> {
        if self.threads.end(until.max(Instant::now() + GRACE)) {
            return Ok(());
        }
        let unanswered = self.threads.shared().users.unanswered();
        self.mount.abort();
        Err(format!("{unanswered} requests are not answered: their device does not answer"))
    }
}

impl Export for FuseExport {
    fn address(&self) -> String {
        self.mount.directory().display().to_string()
    }

    fn begin_stop(&mut self) {
        self.threads.shared().close();
    }

    fn finish_stop(&mut self, until: Instant) -> Result<(), String> {
        let problems = [self.unmount(until).err(), self.end(until).err()];
        let problems: Vec<String> = problems.into_iter().flatten().collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }
}

impl Drop for FuseExport {
    fn drop(&mut self) {
        // After `finish_stop` no threads are left to await.
        let _ = self.end(Instant::now());
    }
}
