//! The threads of an export, and their end.

use super::shared::Shared;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval between checks whether threads have ended. (Only a stop waits in this way.)
const LOOK: Duration = Duration::from_millis(1);

/// The threads that run.
pub(super) struct Threads {
    shared: Arc<Shared>,
    list: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(shared: Arc<Shared>, first: JoinHandle<()>) -> Threads {
        Threads { shared, list: vec![first] }
    }

    pub(super) fn add(&mut self, thread: JoinHandle<()>) {
        self.list.push(thread);
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Ends them; requests that they have taken are answered. `false`: some have not ended by `until`. They are left
    /// alone: each owns what it uses, so that the memory of its requests is valid until the device returns it, and ends
    /// after that.
    pub(super) fn end(&mut self, until: Instant) -> bool {
        self.shared.set_over();
        while !self.list.iter().all(JoinHandle::is_finished) {
            if Instant::now() >= until {
                self.list.clear();
                return false;
            }
            thread::sleep(LOOK);
        }
        for thread in self.list.drain(..) {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
        true
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
    use crate::fuse::slow;
    use crate::fuse::wire::{Fields, OUT_HEADER, op};
    use crate::fuse::worker::Worker;
    use crate::served::{Devices, Served};
    use platter_block::bio::Op;
    use platter_block::fault::Fault;
    use platter_block::time::{Span, Time};
    use platter_disk::device::Device;
    use platter_stack::filter::{BioView, Filter, Filtered};
    use std::os::unix::net::UnixDatagram;

    /// Reads end only after this time.
    const HANG: u64 = 5;

    #[derive(Clone)]
    struct Hanging;

    impl Filter for Hanging {
        fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
            Ok(if bio.op() == Op::Read { now + Span::from_secs(HANG) } else { now })
        }
    }

    fn served(name: &str, device: Device) -> Served {
        Served::new(name, device).unwrap()
    }

    /// A device of which each byte is 7, and whose reads hang; and one that works.
    fn devices() -> Arc<Devices> {
        let devices = Arc::new(Devices::default());
        let ram = Device::ram(1 << 20).unwrap();
        ram.write_at(&[7; 4096], 0).unwrap();
        let layer = Filtered::new("hanging", "", Arc::clone(ram.backend()), Hanging);
        devices.add(served("hangs", Device::new(Arc::new(layer)))).unwrap();
        devices.add(served("works", Device::ram(1 << 20).unwrap())).unwrap();
        devices
    }

    fn read(unique: u64, handle: u64) -> Vec<u8> {
        let header = Fields::default().u32(80).u32(op::READ).u64(unique).u64(2).zeroes(16);
        header.u64(handle).u64(0).u32(4096).zeroes(20).bytes()
    }

    /// The number of the request that is answered next, and the data.
    fn answer(kernel: &UnixDatagram) -> (u64, Vec<u8>) {
        let mut reply = vec![0; 8192];
        let len = kernel.recv(&mut reply).unwrap();
        (u64::from_ne_bytes(reply[8..16].try_into().unwrap()), reply[OUT_HEADER..len].to_vec())
    }

    /// A socket stands for the kernel.
    #[test]
    fn a_device_that_does_not_answer_does_not_hold_up_the_end() {
        let (kernel, ours) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        kernel.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let devices = devices();
        let nodes = Nodes::new(Arc::clone(&devices), false);
        let users =
            DeviceUsers::new(Arc::clone(&devices), Clients::new(8), Arc::new(|_| {}), "here".to_owned());
        let handles = ["hangs", "works"].map(|name| users.open(&devices.find(name).unwrap()).unwrap());
        let shared = Arc::new(Shared::new(nodes, Options::default(), Arc::new(|_| {}), users));
        let (slow, unaligned) = slow::start().unwrap();
        let mut threads = Threads::new(Arc::clone(&shared), unaligned);
        let post = Post::new(ours.into()).unwrap();
        shared.users.bells.add(&post.bell);
        let of_worker = Arc::clone(&shared);
        threads.add(thread::spawn(move || Worker::new(post, of_worker, slow).run()));

        kernel.send(&read(1, handles[0])).unwrap();
        kernel.send(&read(2, handles[1])).unwrap();
        assert_eq!(answer(&kernel), (2, vec![0; 4096]));
        assert_eq!(shared.users.unanswered(), 1);
        assert!(!threads.end(Instant::now() + Duration::from_millis(100)));
        // Nothing is left to await.
        assert!(threads.end(Instant::now()));
        assert_eq!(answer(&kernel), (1, vec![7; 4096]));
    }
}
