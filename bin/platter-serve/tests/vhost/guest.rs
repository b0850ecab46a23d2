//! A virtual machine in miniature: a front end of the crate `vhost`, memory, and a driver of virtio block devices.
//!
//! Nothing of it is shared with the server, so that an error in one is not made again in the other.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures as Protocol,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Where guest memory begins for the guest.
pub(crate) const BASE: u64 = 1 << 30;
/// Bytes of memory of a guest.
const MEMORY: usize = 32 << 20;
/// Entries of a queue.
pub(crate) const SIZE: u16 = 128;
/// Descriptors of a request, and how many requests there may be.
const PER_SLOT: u16 = 4;
pub(crate) const SLOTS: u16 = SIZE / PER_SLOT;
/// Memory of a queue: its rings, and the data of its requests.
const RINGS: usize = 64 << 10;
pub(crate) const DATA: usize = 64 << 10;
const AREA: usize = RINGS + SLOTS as usize * (DATA + 64);
/// Offsets of the rings.
const AVAILABLE: usize = 16 << 10;
const USED: usize = 32 << 10;

pub(crate) const IN: u32 = 0;
pub(crate) const OUT: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const GET_ID: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const WRITE_ZEROES: u32 = 13;

pub(crate) const F_RO: u64 = 1 << 5;
pub(crate) const F_FLUSH: u64 = 1 << 9;
pub(crate) const F_CONFIG_WCE: u64 = 1 << 11;
pub(crate) const F_EVENT_IDX: u64 = 1 << 29;

/// How long something may take that is sure to come.
const LONG: Duration = Duration::from_secs(60);

/// The guest's side of a queue.
pub(crate) struct Driver {
    area: usize,
    kick: EventFd,
    call: EventFd,
    pub(crate) free: Vec<u16>,
    /// The kind and the length of data of the request in each slot.
    busy: Vec<(u32, usize)>,
    available: u16,
    used: u16,
    pub(crate) by_index: bool,
    /// How often the device was notified.
    pub(crate) kicks: u64,
}

/// A machine.
pub(crate) struct Guest {
    pub(crate) memory: MmapRegion,
    file: File,
    pub(crate) frontend: Option<Frontend>,
    pub(crate) features: u64,
    pub(crate) queues: Vec<Driver>,
    pub(crate) inflight: Option<(VhostUserInflight, File)>,
    /// Where the back end sends messages.
    pub(crate) messages: Option<UnixStream>,
}

/// What a request returns: its status, and what was read.
pub(crate) type Answer = (u8, Vec<u8>);

impl Guest {
    /// A machine whose driver uses as many of these features as the device has.
    pub(crate) fn new(queues: usize, mask: u64) -> Guest {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, MEMORY as u64).unwrap();
        let file = File::from(fd);
        let memory = MmapRegion::from_file(FileOffset::new(file.try_clone().unwrap(), 0), MEMORY).unwrap();
        let queue = |number: usize| Driver {
            area: number * AREA,
            kick: EventFd::new(EFD_NONBLOCK).unwrap(),
            call: EventFd::new(EFD_NONBLOCK).unwrap(),
            free: (0..SLOTS).rev().collect(),
            busy: vec![(0, 0); usize::from(SLOTS)],
            available: 0,
            used: 0,
            by_index: false,
            kicks: 0,
        };
        let queues = (0..queues).map(queue).collect();
        Guest { memory, file, frontend: None, features: mask, queues, inflight: None, messages: None }
    }

    /// Connects, as a front end does the first time and after a server was restarted.
    pub(crate) fn connect(&mut self, path: &Path) {
        self.begin(path);
        self.share_memory();
        for number in 0..self.queues.len() {
            self.start(number);
        }
    }

    /// Negotiates features.
    pub(crate) fn begin(&mut self, path: &Path) {
        // A server has one front end at a time.
        self.frontend = None;
        let mut frontend = Frontend::connect(path, 16).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        let wanted = Protocol::MQ
            | Protocol::CONFIG
            | Protocol::REPLY_ACK
            | Protocol::INFLIGHT_SHMFD
            | Protocol::BACKEND_REQ
            | Protocol::CONFIGURE_MEM_SLOTS;
        frontend.set_protocol_features(protocol & wanted).unwrap();
        frontend.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        assert!(frontend.get_queue_num().unwrap() >= self.queues.len() as u64);
        self.features &= offered;
        frontend.set_features(self.features).unwrap();
        if protocol.contains(Protocol::BACKEND_REQ) {
            let (ours, theirs) = UnixStream::pair().unwrap();
            frontend.set_backend_request_fd(&theirs).unwrap();
            self.messages = Some(ours);
        }
        self.frontend = Some(frontend);
    }

    pub(crate) fn frontend(&mut self) -> &mut Frontend {
        self.frontend.as_mut().unwrap()
    }

    pub(crate) fn region(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: MEMORY as u64,
            userspace_addr: self.memory.as_ptr() as u64,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        }
    }

    pub(crate) fn share_memory(&mut self) {
        let region = self.region();
        self.frontend().set_mem_table(&[region]).unwrap();
        let count = self.queues.len() as u16;
        let has = self.frontend().get_protocol_features().unwrap().contains(Protocol::INFLIGHT_SHMFD);
        if self.inflight.is_none() && has {
            let wanted = VhostUserInflight { num_queues: count, queue_size: SIZE, ..Default::default() };
            self.inflight = Some(self.frontend().get_inflight_fd(&wanted).unwrap());
        }
        if let Some((shape, file)) = self.inflight.take() {
            self.frontend().set_inflight_fd(&shape, file.as_raw_fd()).unwrap();
            self.inflight = Some((shape, file));
        }
    }

    pub(crate) fn addresses(&self, number: usize) -> VringConfigData {
        let at = self.memory.as_ptr() as u64 + self.queues[number].area as u64;
        VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: at,
            used_ring_addr: at + USED as u64,
            avail_ring_addr: at + AVAILABLE as u64,
            log_addr: None,
        }
    }

    /// Starts a queue from where the device has used it, as front ends do that do not know better.
    pub(crate) fn start(&mut self, number: usize) {
        let at = self.addresses(number);
        let by_index = self.features & F_EVENT_IDX != 0;
        let base = self.load(number, USED + 2);
        let (frontend, queue) = (self.frontend.as_mut().unwrap(), &mut self.queues[number]);
        queue.by_index = by_index;
        frontend.set_vring_num(number, SIZE).unwrap();
        frontend.set_vring_addr(number, &at).unwrap();
        frontend.set_vring_base(number, base).unwrap();
        frontend.set_vring_call(number, &queue.call).unwrap();
        frontend.set_vring_kick(number, &queue.kick).unwrap();
        frontend.set_vring_enable(number, true).unwrap();
    }

    /// The configuration space.
    pub(crate) fn config(&mut self) -> Vec<u8> {
        let flags = VhostUserConfigFlags::WRITABLE;
        self.frontend().get_config(0, 60, flags, &[0; 60]).unwrap().1
    }

    pub(crate) fn capacity(&mut self) -> u64 {
        u64::from_le_bytes(*self.config().first_chunk().unwrap()) * 512
    }

    fn load(&self, number: usize, offset: usize) -> u16 {
        let slice = self.memory.as_volatile_slice();
        slice.load(self.queues[number].area + offset, Ordering::Acquire).unwrap()
    }

    pub(crate) fn store(&self, number: usize, offset: usize, value: u16) {
        let slice = self.memory.as_volatile_slice();
        slice.store(value, self.queues[number].area + offset, Ordering::Release).unwrap();
    }

    /// Sets a descriptor of a queue.
    pub(crate) fn describe(&self, number: usize, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        let at = self.queues[number].area + 16 * usize::from(index);
        let bytes =
            [&address.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()]
                .concat();
        self.memory.as_volatile_slice().write_slice(&bytes, at).unwrap();
    }

    /// Makes the chain that begins with a descriptor available. The device is not notified.
    pub(crate) fn offer(&mut self, number: usize, head: u16) {
        let available = self.queues[number].available;
        self.store(number, AVAILABLE + 4 + 2 * usize::from(available % SIZE), head);
        self.queues[number].available = available.wrapping_add(1);
        self.store(number, AVAILABLE + 2, available.wrapping_add(1));
    }

    /// Sets the available index to what it is plus `ahead`.
    pub(crate) fn jump(&mut self, number: usize, ahead: u16) {
        let available = self.queues[number].available;
        self.store(number, AVAILABLE + 2, available.wrapping_add(ahead));
        self.kick_always(number);
    }

    pub(crate) fn kick_always(&self, number: usize) {
        self.queues[number].kick.write(1).unwrap();
    }

    /// Notifies the device if it wants to be, of what was made available since `before`.
    pub(crate) fn kick(&mut self, number: usize, before: u16) {
        std::sync::atomic::fence(Ordering::SeqCst);
        let wanted = if self.queues[number].by_index {
            let event = self.load(number, USED + 4 + 8 * usize::from(SIZE));
            let after = self.queues[number].available;
            after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
        } else {
            self.load(number, USED) & 1 == 0
        };
        if wanted {
            self.queues[number].kicks += 1;
            self.kick_always(number);
        }
    }

    /// Waits until the device of a queue without notifications by index wants to be notified: it has nothing to do.
    pub(crate) fn await_device_sleep(&self, number: usize) {
        let begun = Instant::now();
        while self.load(number, USED) & 1 != 0 {
            assert!(begun.elapsed() < LONG, "the device of queue {number} does not sleep");
            std::thread::yield_now();
        }
    }

    /// How often the guest was notified since the last call.
    pub(crate) fn notifications(&self, number: usize) -> u64 {
        self.queues[number].call.read().unwrap_or(0)
    }

    /// Where the data of a slot is: an offset in memory.
    pub(crate) fn data(&self, number: usize, slot: u16) -> usize {
        self.queues[number].area + RINGS + usize::from(slot) * (DATA + 64)
    }

    /// Submits a request, cut into descriptors in a way that `cut` decides, without a notification.
    pub(crate) fn submit(
        &mut self,
        number: usize,
        kind: u32,
        sector: u64,
        data: &[u8],
        len: usize,
        cut: usize,
    ) -> u16 {
        let slot = self.queues[number].free.pop().expect("a free slot");
        let data_at = self.data(number, slot);
        let header_at = data_at + DATA;
        let memory = self.memory.as_volatile_slice();
        let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        memory.write_slice(&header, header_at).unwrap();
        memory.write_slice(&[0xff], header_at + 16).unwrap();
        if !data.is_empty() {
            memory.write_slice(data, data_at).unwrap();
        }
        let write = if matches!(kind, IN | GET_ID) { 2 } else { 0 };
        let mut parts = vec![(header_at, 16, 0)];
        let cut = cut.min(len);
        for (at, len) in [(0, cut), (cut, len - cut)] {
            if len > 0 {
                parts.push((data_at + at, len, write));
            }
        }
        parts.push((header_at + 16, 1, 2));
        let first = slot * PER_SLOT;
        for (index, (at, len, flags)) in (0u16..).zip(&parts) {
            let last = usize::from(index) + 1 == parts.len();
            let flags = flags | u16::from(!last);
            self.describe(number, first + index, BASE + *at as u64, *len as u32, flags, first + index + 1);
        }
        self.queues[number].busy[usize::from(slot)] = (kind, len);
        self.offer(number, first);
        slot
    }

    /// The available index.
    pub(crate) fn available(&self, number: usize) -> u16 {
        self.queues[number].available
    }

    /// The status of the next request that is complete; what was read stays where it is.
    pub(crate) fn take_status(&mut self, number: usize) -> Option<u8> {
        let (slot, _) = self.reap(number)?;
        let at = self.data(number, slot) + DATA + 16;
        Some(self.memory.as_volatile_slice().read_obj(at).unwrap())
    }

    /// Waits for it.
    pub(crate) fn wait_status(&mut self, number: usize) -> u8 {
        loop {
            if let Some(status) = self.take_status(number) {
                return status;
            }
            self.sleep(number);
        }
    }

    /// The next request that is complete: its slot, its status and what was read.
    pub(crate) fn take(&mut self, number: usize) -> Option<(u16, Answer)> {
        let (slot, (kind, len)) = self.reap(number)?;
        let data_at = self.data(number, slot);
        let memory = self.memory.as_volatile_slice();
        let status: u8 = memory.read_obj(data_at + DATA + 16).unwrap();
        let mut data = vec![0; if matches!(kind, IN | GET_ID) { len } else { 0 }];
        memory.read_slice(&mut data, data_at).unwrap();
        Some((slot, (status, data)))
    }

    /// The slot, the kind and the length of the next request that is complete.
    fn reap(&mut self, number: usize) -> Option<(u16, (u32, usize))> {
        let used = self.queues[number].used;
        if self.load(number, USED + 2) == used {
            return None;
        }
        let at = self.queues[number].area + USED + 4 + 8 * usize::from(used % SIZE);
        let head: u32 = self.memory.as_volatile_slice().read_obj(at).unwrap();
        let queue = &mut self.queues[number];
        queue.used = used.wrapping_add(1);
        let slot = head as u16 / PER_SLOT;
        assert!(!queue.free.contains(&slot), "slot {slot} is complete twice");
        queue.free.push(slot);
        Some((slot, queue.busy[usize::from(slot)]))
    }

    /// Sleeps until the device notifies, which it is asked to do for the next completion.
    pub(crate) fn sleep(&mut self, number: usize) {
        if self.asks_for_notification(number) {
            await_call(&self.queues[number].call, number);
        }
    }

    /// What to sleep on until the device notifies. `None`: something is complete already.
    pub(crate) fn sleeper(&mut self, number: usize) -> Option<Sleeper> {
        let asked = self.asks_for_notification(number);
        asked.then(|| Sleeper { call: self.queues[number].call.try_clone().unwrap(), number })
    }

    /// Asks for a notification of the next completion. `false`: there is one already.
    fn asks_for_notification(&mut self, number: usize) -> bool {
        let used = self.queues[number].used;
        if self.queues[number].by_index {
            self.store(number, AVAILABLE + 4 + 2 * usize::from(SIZE), used);
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        self.load(number, USED + 2) == used
    }

    /// Waits for the next request that is complete.
    pub(crate) fn wait(&mut self, number: usize) -> (u16, Answer) {
        loop {
            if let Some(done) = self.take(number) {
                return done;
            }
            self.sleep(number);
        }
    }

    /// One request.
    pub(crate) fn call(&mut self, number: usize, kind: u32, sector: u64, data: &[u8], len: usize) -> Answer {
        let before = self.available(number);
        let slot = self.submit(number, kind, sector, data, len, 512);
        self.kick(number, before);
        let (done, answer) = self.wait(number);
        assert_eq!(done, slot);
        answer
    }

    pub(crate) fn read(&mut self, sector: u64, len: usize) -> Answer {
        self.call(0, IN, sector, &[], len)
    }

    pub(crate) fn write(&mut self, sector: u64, data: &[u8]) -> u8 {
        self.call(0, OUT, sector, data, data.len()).0
    }

    pub(crate) fn flush(&mut self) -> u8 {
        self.call(0, FLUSH, 0, &[], 0).0
    }

    /// A discard, or zeroes, of ranges.
    pub(crate) fn clear(&mut self, kind: u32, ranges: &[(u64, u32, u32)]) -> u8 {
        let bytes: Vec<u8> = ranges
            .iter()
            .flat_map(|(sector, count, flags)| {
                [&sector.to_le_bytes()[..], &count.to_le_bytes(), &flags.to_le_bytes()].concat()
            })
            .collect();
        self.call(0, kind, 0, &bytes, bytes.len()).0
    }
}

/// Sleeps for a queue, while the guest does other things.
pub(crate) struct Sleeper {
    call: EventFd,
    number: usize,
}

impl Sleeper {
    pub(crate) fn sleep(&self) {
        await_call(&self.call, self.number);
    }
}

fn await_call(call: &EventFd, number: usize) {
    let begun = Instant::now();
    // SAFETY: the descriptor is open as long as `call`.
    let fd = unsafe { BorrowedFd::borrow_raw(call.as_raw_fd()) };
    let mut one = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut one, Some(&limit));
    assert!(begun.elapsed() < LONG, "no notification of queue {number}");
    let _ = call.read();
}
