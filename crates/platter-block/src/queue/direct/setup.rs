//! How the queue of a lane is made, and what it tells of itself.

use super::{Common, DirectQueue, Slot};
use crate::bio::Flags;
use crate::counters::Counters;
use crate::driver::Geometry;
use crate::queue::Settings;
use crate::queue::doubt::Doubts;
use crate::queue::family::Families;
use crate::queue::pause::{NEVER, Pauses};
use crate::queue::split::unmergeable;
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Common {
    pub(super) fn new(geometry: &Geometry, merges: bool) -> Common {
        let limits = &geometry.limits;
        let uniform = limits.segment_boundary == 0 && limits.chunk == 0 && limits.max_segments > 0;
        let max_len = u64::from(limits.max_transfer.min(limits.max_segment_size));
        Common {
            block_mask: u64::from(limits.logical_block - 1),
            memory_mask: u64::from(limits.memory_align - 1),
            length_mask: u64::from(limits.length_align - 1),
            max_len: if uniform { max_len } else { 0 },
            size: geometry.size,
            ops: if geometry.features.read_only { 1 } else { 2 },
            merges,
        }
    }
}

impl DirectQueue {
    /// A queue for a disk. Its settings for elevators and the order of barriers are ignored.
    pub fn new(geometry: Geometry, settings: Settings, counters: Arc<Counters>) -> DirectQueue {
        let settings = settings.at_least_one();
        let (features, requests) = (geometry.features, settings.nr_requests);
        let mut queue = DirectQueue {
            common: Common::new(&geometry, settings.merges),
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            care: false,
            attention: false,
            error: false,
            frozen: false,
            alarm: NEVER,
            done: Vec::with_capacity(requests as usize),
            counters,
            geometry,
            settings,
            fua: if features.write_cache && features.fua { Flags::FUA } else { Flags::NONE },
            unmergeable: unmergeable(&features),
            largest: geometry.size,
            backlog: VecDeque::with_capacity(requests as usize),
            runs: 0,
            tail: None,
            waiting: VecDeque::new(),
            retries: VecDeque::new(),
            paused: Pauses::default(),
            doubts: Doubts::default(),
            quarantined: 0,
            stuck: false,
            writes_zeroes: !geometry.limits.write_zeroes,
            families: Families::default(),
            spare: Vec::new(),
            spare_lists: Vec::new(),
            next_deadline: None,
            sink: None,
        };
        queue.grow(requests);
        queue.note_attention();
        queue
    }

    /// Adds slots.
    #[cold]
    pub(super) fn grow(&mut self, count: u32) {
        let old = self.slots.len();
        self.slots.resize_with(old + count as usize, || Slot::FREE);
        self.free.extend((old as u32..self.slots.len() as u32).rev());
    }

    /// When the queue wants [`DirectQueue::tick`] to be called even if nothing happens.
    pub fn next_wakeup(&self) -> Option<Time> {
        // The deadline of an empty queue belongs to a bio that left in time.
        let deadline = self.next_deadline.filter(|_| !self.is_idle()).unwrap_or(NEVER);
        Some(deadline.min(self.paused.next())).filter(|&at| at != NEVER)
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Geometry of the disk below.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings of the queue.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
