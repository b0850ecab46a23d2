//! Requests that do not begin and end at blocks of the device. They need other blocks to be read first, which
//! synchronous calls do, so they have a thread of their own.

use super::device_user::DeviceUser;
use super::post::{WorkerWake, reply};
use crate::age::Mark;
use crate::clients::add;
use platter_block::bio::{Flags, Op};
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::pool::PoolBuf;
use platter_disk::sync_io::IoOptions;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What to do.
pub(super) enum Work {
    Read(u64, PoolBuf),
    Write(u64, PoolBuf, Flags),
    Zero(u64, u64),
}

impl Work {
    /// The memory for its data.
    pub(super) fn into_memory(self) -> Option<PoolBuf> {
        match self {
            Work::Read(_, data) | Work::Write(_, data, _) => Some(data),
            Work::Zero(..) => None,
        }
    }
}

/// A request, and where its reply goes.
pub(super) struct Job {
    pub(super) fuse: Arc<OwnedFd>,
    pub(super) unique: u64,
    pub(super) user: Arc<DeviceUser>,
    pub(super) mark: Mark,
    pub(super) work: Work,
    /// The thread that has taken the request; a place there is free again afterwards.
    pub(super) bell: Arc<WorkerWake>,
}

/// Starts the thread. It ends when the sender is dropped.
pub(super) fn start() -> std::io::Result<(Sender<Job>, thread::JoinHandle<()>)> {
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name("fuse-unaligned".to_owned()).spawn(move || run(&receiver))?;
    Ok((sender, thread))
}

fn run(jobs: &Receiver<Job>) {
    for job in jobs {
        let Job { fuse, unique, user, mark, mut work, bell } = job;
        let device = user.served().device();
        let counts = &user.client().counts;
        let mut size = [0; 8];
        let result = match &mut work {
            Work::Read(pos, data) => device.read_at(data, *pos).map(|()| {
                counts.completed(Op::Read, data.len() as u64, add);
                &data[..]
            }),
            Work::Write(pos, data, flags) => {
                device.write_at_with(data, *pos, IoOptions::flags(*flags)).map(|()| {
                    counts.completed(Op::Write, data.len() as u64, add);
                    user.first_flush().wrote();
                    size[..4].copy_from_slice(&(data.len() as u32).to_ne_bytes());
                    &size[..]
                })
            }
            Work::Zero(pos, len) => zero(device, *pos, *len).map(|()| {
                counts.completed(Op::WriteZeroes, *len, add);
                &[][..]
            }),
        };
        match result {
            Ok(data) => reply(&fuse, unique, Ok(data)),
            Err(error) => {
                counts.errors.fetch_add(1, Ordering::Relaxed);
                reply(&fuse, unique, Err(Errno::from_raw_os_error(error.fault.errno())))
            }
        };
        counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        user.share.answered(mark, device.clock().now());
        bell.finished(work.into_memory());
    }
}

/// Makes a range zero that need not begin and end at blocks.
fn zero(device: &Device, pos: u64, len: u64) -> Result<(), Error> {
    let block = u64::from(device.limits_at(pos).logical_block);
    let end = pos + len;
    let (first, last) = (pos.next_multiple_of(block).min(end), end / block * block);
    let part = |from: u64, to: u64| device.write_at(&vec![0; (to - from) as usize], from);
    if last <= first {
        return part(pos, end);
    }
    if pos < first {
        part(pos, first)?;
    }
    device.write_zeroes(first, last - first)?;
    if last < end { part(last, end) } else { Ok(()) }
}
