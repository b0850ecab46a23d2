//! Where a worker sleeps, and its end.

use super::{Open, Worker};
use crate::fuse::wire::Header;
use platter_block::time::{Span, Time};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use std::os::fd::AsRawFd;

/// How long memory is kept by a thread that has nothing to do.
const KEEP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long to sleep if a completion cannot be seen on a descriptor.
const NAP: Span = Span::from_millis(1);

fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: (span.0 / 1_000_000_000) as i64, tv_nsec: (span.0 % 1_000_000_000) as i64 }
}

impl Worker {
    /// Answers what the devices still have: they use this worker's memory, and others may wait for it. A device that does
    /// not answer holds no answer of another one back.
    pub(super) fn end(mut self) {
        self.take_no_more();
        self.finish_all();
        while self.opened.iter().flatten().any(|open| open.channel.outstanding() > 0) {
            for open in self.opened.iter_mut().flatten().filter(|open| open.channel.outstanding() > 0) {
                open.channel.poll(&mut self.bios.done);
            }
            if self.finish_all() == 0 {
                self.wait(false);
                self.finish_all();
            }
        }
    }

    /// Takes nothing from the kernel any more. The request that is held is refused: it is not asked for again, and once its
    /// time to ask has passed no sleep would last.
    fn take_no_more(&mut self) {
        self.withdraw();
        let held = self.held.take().and_then(|_| Header::parse(&self.head));
        if let Some(header) = held {
            self.refuse(&header, Errno::IO);
        }
    }

    /// How long the request that is held has to wait at most.
    fn held_for(&self) -> Option<Span> {
        let open = self.opened.get(self.asked?)?.as_ref()?;
        Some(open.admission.again_at()?.since(open.channel.clock().now()))
    }

    /// Sleeps until there is something to do. `takes`: also until the kernel has a request.
    pub(super) fn wait(&mut self, takes: bool) {
        let held_for = self.held_for();
        let wake = if takes { self.any.as_raw_fd() } else { self.bell.event.raw() };
        let busy = |open: &&mut Open| open.channel.outstanding() > 0;
        let mut channels = self.opened.iter_mut().flatten().filter(busy);
        let Some(first) = channels.next() else {
            if takes {
                let keep = self.buffers.has_free().then_some(&KEEP);
                self.events.clear();
                // Interrupted or not, the caller tries again.
                if epoll::wait(&self.any, spare_capacity(&mut self.events), keep) == Ok(0) {
                    self.buffers.trim();
                }
            } else {
                let timeout = held_for.map(timespec);
                let _ = poll(&mut [PollFd::new(&self.bell.event, PollFlags::IN)], timeout.as_ref());
            }
            return self.bell.clear();
        };
        self.descriptors.clear();
        self.descriptors.push(wake);
        let now = first.channel.clock().now();
        let mut timeout = held_for;
        for other in channels {
            let seen = other.channel.descriptors(&mut self.descriptors);
            let at = other.channel.next_wakeup().map(|at: Time| at.since(now));
            let soon = at.into_iter().chain((!seen).then_some(NAP)).min();
            timeout = timeout.into_iter().chain(soon).min();
        }
        first.channel.wait_or_readable(&mut self.bios.done, &self.descriptors, timeout);
        self.bell.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;
    use crate::export::Options;
    use crate::fuse::device_users::DeviceUsers;
    use crate::fuse::nodes::Nodes;
    use crate::fuse::post::Post;
    use crate::fuse::shared::Shared;
    use crate::fuse::wire::{Fields, op};
    use crate::qos::ClientLimits;
    use crate::served::{Devices, Served};
    use platter_disk::device::Device;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    /// A worker, the number of an open file whose device has these limits, and a socket that stands for the kernel.
    fn worker(limits: ClientLimits) -> (Worker, u64, UnixDatagram) {
        let (kernel, ours) = UnixDatagram::pair().unwrap();
        kernel.set_nonblocking(true).unwrap();
        let devices = Arc::new(Devices::default());
        devices.add(Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
        let served = devices.find("disk").unwrap();
        served.qos().set_default(limits).unwrap();
        let nodes = Nodes::new(Arc::clone(&devices), false);
        let users = DeviceUsers::new(devices, Clients::new(1), Arc::new(|_| {}), "here".to_owned());
        let handle = users.open(&served).unwrap();
        let shared = Shared::new(nodes, Options::default(), Arc::new(|_| {}), users);
        let worker = Worker::new(Post::new(ours.into()).unwrap(), Arc::new(shared), channel().0);
        (worker, handle, kernel)
    }

    fn read(unique: u64, handle: u64) -> Vec<u8> {
        let header = Fields::default().u32(80).u32(op::READ).u64(unique).u64(2).zeroes(16);
        header.u64(handle).u64(0).u32(4096).zeroes(20).bytes()
    }

    /// The number of the request that is answered next, and its error.
    fn answer(kernel: &UnixDatagram) -> (u64, i32) {
        let mut reply = [0; 8192];
        kernel.recv(&mut reply).unwrap();
        let error = i32::from_ne_bytes(reply[4..8].try_into().unwrap());
        (u64::from_ne_bytes(reply[8..16].try_into().unwrap()), error)
    }

    #[test]
    fn a_request_that_waits_for_the_limits_is_refused_at_the_end() {
        // After the first request the next one has to wait for more than an hour.
        let (mut worker, handle, kernel) = worker(ClientLimits { bandwidth: 1, ..ClientLimits::default() });
        for unique in [1, 2] {
            kernel.send(&read(unique, handle)).unwrap();
            assert!(worker.has_room());
            let bytes = worker.receive().unwrap();
            worker.take(bytes);
        }
        assert!(worker.held_for().is_some());
        worker.take_no_more();
        assert_eq!((worker.held, worker.held_for()), (None, None), "no sleep ends for it");
        worker.end();
        let refused = -Errno::IO.raw_os_error();
        assert_eq!([answer(&kernel), answer(&kernel)], [(2, refused), (1, 0)]);
    }
}
