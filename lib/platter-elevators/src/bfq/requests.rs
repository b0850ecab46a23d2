//! Queued requests: per queue, in order of arrival and sorted by position.

use platter_block::elevator::{Fifos, ListId, RequestId, RequestInfo, SectorMap};
use platter_block::time::Time;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// The record of a queued request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) pos: u64,
    pub(super) end: u64,
    pub(super) expire: Time,
    /// The process and thread that sent it.
    pub(super) task: u64,
}

impl Entry {
    #[inline]
    pub(super) fn sectors(&self) -> u64 {
        self.end.saturating_sub(self.pos).div_ceil(SECTOR)
    }
}

/// How far back the head may go for a request, and the penalty of that distance against one forward.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackSeek {
    pub(super) max: u64,
    pub(super) penalty: u64,
}

/// The queued requests of all queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    /// A list for each queue.
    fifos: Fifos<Entry>,
    /// All queues in one map: see [`key`].
    sorted: SectorMap,
    lists: u32,
}

/// Encodes queue, position and slot in the key of a map from position and request id: the queue and the upper
/// half of the position make the position, the lower half and the slot make the id.
#[inline]
fn key(queue: u32, pos: u64, index: u32) -> (u64, RequestId) {
    (u64::from(queue) << 32 | pos >> 32, RequestId { index: pos as u32, generation: index })
}

impl Requests {
    /// Makes room for `requests` requests in `queues` queues.
    pub(super) fn reserve(&mut self, requests: usize, queues: usize) {
        self.fifos.reserve(requests);
        self.sorted.reserve(requests);
        while (self.lists as usize) < queues {
            self.fifos.add_list();
            self.lists += 1;
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fifos.len()
    }

    #[inline]
    pub(super) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.fifos.get(id)
    }

    /// The oldest request of a queue.
    #[inline]
    fn oldest(&self, queue: u32) -> Option<(RequestId, &Entry)> {
        self.fifos.front(ListId::new(queue))
    }

    /// The queue that a request waits in.
    #[inline]
    pub(super) fn queue_of(&self, id: RequestId) -> Option<u32> {
        self.fifos.list_of(id).map(ListId::number)
    }

    /// Adds a request. Returns `false` and changes nothing if its slot is taken.
    #[inline]
    pub(super) fn insert(&mut self, queue: u32, id: RequestId, info: &RequestInfo, expire: Time) -> bool {
        let entry = Entry { pos: info.pos, end: info.end(), expire, task: info.context.task() };
        if !self.fifos.push_back(ListId::new(queue), id, entry) {
            return false;
        }
        let (major, minor) = key(queue, info.pos, id.index);
        self.sorted.insert(major, minor)
    }

    /// The oldest request of a queue that loses `leaver`, if it has waited too long.
    pub(super) fn expired(&self, now: Time, queue: u32, leaver: RequestId) -> Option<RequestId> {
        let (id, entry) = self.oldest(queue)?;
        (id != leaver && now >= entry.expire).then_some(id)
    }

    /// Removes a request from its queue; also returns the queue's next request by position.
    #[inline]
    pub(super) fn remove(&mut self, queue: u32, id: RequestId) -> Option<(Entry, Option<RequestId>)> {
        let entry = self.fifos.remove(id)?;
        let (major, minor) = key(queue, entry.pos, id.index);
        let (_, follower) = self.sorted.remove_then_next(major, minor);
        Some((entry, self.in_queue(queue, follower)))
    }

    /// A request has grown.
    pub(super) fn grow(&mut self, queue: u32, id: RequestId, new: &RequestInfo) {
        let Some(entry) = self.fifos.get_mut(id) else { return };
        entry.end = new.end();
        let old = core::mem::replace(&mut entry.pos, new.pos);
        if old != new.pos {
            let ((major, minor), (new_major, new_minor)) =
                (key(queue, old, id.index), key(queue, new.pos, id.index));
            self.sorted.remove(major, minor);
            self.sorted.insert(new_major, new_minor);
        }
    }

    /// `survivor` absorbs `absorbed`; in the same queue it inherits the age of the older of the two.
    pub(super) fn absorb(&mut self, queue: u32, survivor: RequestId, absorbed: RequestId) {
        let Some(&Entry { pos, expire, .. }) = self.fifos.get(absorbed) else { return };
        let (major, minor) = key(queue, pos, absorbed.index);
        self.sorted.remove(major, minor);
        if self.queue_of(survivor) == Some(queue)
            && let Some(entry) = self.fifos.get_mut(survivor)
            && expire < entry.expire
        {
            entry.expire = expire;
            self.fifos.take_place(survivor, absorbed);
        }
        self.fifos.remove(absorbed);
    }

    /// The first request of the queue at or after this position.
    pub(super) fn from(&self, queue: u32, pos: u64) -> Option<RequestId> {
        let (major, minor) = key(queue, pos, 0);
        self.in_queue(queue, self.sorted.first_from(major, minor))
    }

    /// The last request of the queue before this position.
    pub(super) fn before(&self, queue: u32, pos: u64) -> Option<RequestId> {
        let (major, minor) = key(queue, pos, 0);
        self.in_queue(queue, self.sorted.predecessor(major, minor))
    }

    fn in_queue(&self, queue: u32, found: Option<(u64, RequestId)>) -> Option<RequestId> {
        let (_, minor) = found.filter(|(major, _)| major >> 32 == u64::from(queue))?;
        self.fifos.id_at(minor.generation)
    }

    /// The better of two requests for a head at `last`: distance ahead counts once, distance behind up to the
    /// limit counts `penalty` times, and a request farther behind loses to any other. At equal cost the higher
    /// position wins.
    pub(super) fn nearer(
        &self,
        a: Option<RequestId>,
        b: Option<RequestId>,
        last: u64,
        back: BackSeek,
    ) -> Option<RequestId> {
        let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
        let (p, q) = (self.get(first)?.pos, self.get(second)?.pos);
        let cost = |pos: u64| match pos.checked_sub(last) {
            Some(ahead) => Some(ahead),
            None if last - pos <= back.max => Some((last - pos).saturating_mul(back.penalty)),
            None => None,
        };
        let first_wins = match (cost(p), cost(q)) {
            (Some(x), Some(y)) => x < y || x == y && p >= q,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => p <= q,
        };
        if first_wins { a } else { b }
    }
}
