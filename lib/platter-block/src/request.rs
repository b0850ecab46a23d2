//! Requests: contiguous ranges of a device, made of one bio or of several merged ones.

use crate::bio::{Bio, Context, Flags, IoPrio, Op};
use crate::elevator::{RequestId, RequestInfo};
use crate::time::Time;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Most bios in one request. A failed request is retried bio by bio, so the limit also bounds that work.
pub const MAX_BIOS: u16 = 1024;

/// Number of slots by which a full table grows.
const GROWTH: usize = 32;

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Its slot is free.
    Free,
    /// With the elevator.
    Queued,
    /// On the dispatch list.
    Ready,
    /// With the driver.
    Started,
}

/// Marks of requests that need special handling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// No mark.
    pub(crate) const NONE: Marks = Marks(0);
    /// Some of its bios were withdrawn before it started. It will be dismantled instead of started.
    pub(crate) const WITHDRAWN: Marks = Marks(1);
    /// The driver has had it for longer than its time.
    pub(crate) const OVERDUE: Marks = Marks(2);
    /// The driver is asked to abort it, because it is overdue.
    pub(crate) const ASKED: Marks = Marks(4);
    /// The driver had it when the device failed.
    pub(crate) const FAILED: Marks = Marks(8);

    pub(crate) const fn contains(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn add(&mut self, other: Marks) {
        self.0 |= other.0;
    }
}

/// A request: 64 bytes.
pub(crate) struct Request {
    pub(crate) pos: u64,
    pub(crate) len: u64,
    pub(crate) started: Time,
    first: Option<Bio>,
    /// Links of the further bios.
    head: u32,
    tail: u32,
    generation: u32,
    context: Context,
    pub(crate) segments: u16,
    pub(crate) bios: u16,
    pub(crate) flags: Flags,
    ioprio: IoPrio,
    pub(crate) op: Op,
    pub(crate) state: State,
    /// The elevator chose it and must be told of its completion.
    pub(crate) chosen: bool,
    pub(crate) marks: Marks,
}

/// Bytes of a request.
pub const REQUEST_BYTES: usize = size_of::<Request>();

impl Request {
    const EMPTY: Request = Request {
        pos: 0,
        len: 0,
        started: Time(0),
        first: None,
        head: NONE,
        tail: NONE,
        generation: 0,
        context: Context::new(0),
        segments: 0,
        bios: 0,
        flags: Flags::NONE,
        ioprio: IoPrio::NONE,
        op: Op::Read,
        state: State::Free,
        chosen: false,
        marks: Marks::NONE,
    };

    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.pos + self.len
    }

    /// Whether the request stays within [`MAX_BIOS`] with `bios` more bios.
    #[inline]
    pub(crate) fn takes_bios(&self, bios: u16) -> bool {
        u32::from(self.bios) + u32::from(bios) <= u32::from(MAX_BIOS)
    }

    /// The id of the request at this index.
    #[inline]
    pub(crate) fn id(&self, index: u32) -> RequestId {
        RequestId { index, generation: self.generation }
    }

    #[inline]
    pub(crate) fn info(&self) -> RequestInfo {
        RequestInfo {
            pos: self.pos,
            len: self.len,
            dir: self.op.dir(),
            op: self.op,
            sync: is_sync(self.op, self.flags),
            ioprio: self.ioprio,
            context: self.context,
        }
    }
}

/// A read, or a write that a thread waits for.
#[inline]
pub(crate) fn is_sync(op: Op, flags: Flags) -> bool {
    op == Op::Read || flags.contains(Flags::SYNC)
}

/// The description of a bio as an elevator would get it.
#[inline]
pub(crate) fn info_of(bio: &Bio) -> RequestInfo {
    RequestInfo {
        pos: bio.pos(),
        len: bio.len(),
        dir: bio.op().dir(),
        op: bio.op(),
        sync: is_sync(bio.op(), bio.flags()),
        ioprio: bio.ioprio(),
        context: bio.context(),
    }
}

struct Link {
    bio: Option<Bio>,
    next: u32,
}

/// The bios of a request in a [`Table`].
pub(crate) struct Linked<'a> {
    first: Option<&'a Bio>,
    head: u32,
    links: &'a [Link],
}

impl<'a> Linked<'a> {
    /// The only bio, if there is only one.
    pub(crate) fn single(&self) -> Option<&'a Bio> {
        if self.head == NONE { self.first } else { None }
    }

    /// Whether the request is a step of a barrier that is sent as an ordered tag.
    pub(crate) fn is_tagged(&self) -> bool {
        self.first.is_some_and(|bio| bio.flags().contains(Flags::TAGGED))
    }

    pub(crate) fn for_each_bio(&self, mut each: impl FnMut(&Bio)) {
        self.first.iter().for_each(|bio| each(bio));
        let mut at = self.head;
        while let Some(link) = self.links.get(at as usize) {
            link.bio.iter().for_each(&mut each);
            at = link.next;
        }
    }
}

/// All requests of a queue, by index, and the links of merged bios.
pub(crate) struct Table {
    requests: Vec<Request>,
    free: Vec<u32>,
    links: Vec<Link>,
    free_links: Vec<u32>,
}

impl Table {
    pub(crate) fn new(capacity: usize) -> Table {
        let mut requests = Vec::new();
        requests.resize_with(capacity, || Request::EMPTY);
        let free = (0..capacity as u32).rev().collect();
        Table { requests, free, links: Vec::new(), free_links: Vec::new() }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Request> {
        self.requests.get(index as usize)
    }

    /// The request at an index that the queue itself handed out.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Request {
        &self.requests[index as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Request {
        &mut self.requests[index as usize]
    }

    #[inline]
    pub(crate) fn id(&self, index: u32) -> RequestId {
        self.at(index).id(index)
    }

    /// The index of a live request; `None` for an id that is stale or was never given.
    pub(crate) fn find(&self, id: RequestId, state: State) -> Option<u32> {
        let request = self.get(id.index)?;
        (request.generation == id.generation && request.state == state).then_some(id.index)
    }

    /// Makes a request of one bio. `Err` returns the bio if no slot is free.
    #[inline]
    pub(crate) fn make(&mut self, bio: Bio, state: State) -> Result<u32, Bio> {
        let Some(index) = self.free.pop() else { return Err(bio) };
        let r = &mut self.requests[index as usize];
        r.pos = bio.pos();
        r.len = bio.len();
        r.op = bio.op();
        r.flags = bio.flags();
        r.ioprio = bio.ioprio();
        r.context = bio.context();
        r.segments = bio.segment_count();
        r.bios = 1;
        r.state = state;
        r.chosen = false;
        r.marks = Marks::NONE;
        r.head = NONE;
        r.tail = NONE;
        r.first = Some(bio);
        Ok(index)
    }

    /// Grows the table by [`GROWTH`] slots.
    #[cold]
    pub(crate) fn grow(&mut self) {
        let old = self.requests.len();
        self.requests.resize_with(old + GROWTH, || Request::EMPTY);
        self.free.extend((old as u32..(old + GROWTH) as u32).rev());
    }

    /// If the request has only one bio, frees the slot and returns the bio.
    #[inline]
    pub(crate) fn take_single(&mut self, index: u32) -> Option<Bio> {
        let r = &mut self.requests[index as usize];
        if r.head != NONE {
            return None;
        }
        let bio = r.first.take();
        self.release(index);
        bio
    }

    /// Takes the bio of a request that has only one, if that is `plain`: a read or a write of which the driver has carried out
    /// all. Follow with [`Table::release`].
    #[inline(always)]
    pub(crate) fn take_plain(
        &mut self,
        index: u32,
        result: i64,
        plain: impl FnOnce(&Bio) -> bool,
    ) -> Option<(&mut Request, Bio)> {
        const { assert!(Op::Read as u8 == 0 && Op::Write as u8 == 1) };
        let r = self.requests.get_mut(index as usize)?;
        if r.state != State::Started || r.head != NONE || r.op as u8 > 1 || r.len as i64 != result {
            return None;
        }
        let bio = r.first.take_if(|bio| plain(bio))?;
        Some((r, bio))
    }

    /// Frees the slot of a request without bios.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: u32) {
        let r = &mut self.requests[index as usize];
        r.state = State::Free;
        r.generation = r.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// Takes the first bio out of a request; with the last bio the slot is freed.
    pub(crate) fn pop_bio(&mut self, index: u32) -> Option<Bio> {
        let r = &mut self.requests[index as usize];
        if r.head == NONE {
            return self.take_single(index);
        }
        let bio = r.first.take();
        let at = r.head;
        let link = &mut self.links[at as usize];
        r.first = link.bio.take();
        r.head = link.next;
        if r.head == NONE {
            r.tail = NONE;
        }
        r.bios = r.bios.wrapping_sub(1);
        self.free_links.push(at);
        bio
    }

    fn link(&mut self, bio: Bio, next: u32) -> u32 {
        let link = Link { bio: Some(bio), next };
        match self.free_links.pop() {
            Some(at) => {
                self.links[at as usize] = link;
                at
            }
            None => {
                self.links.push(link);
                self.links.len() as u32 - 1
            }
        }
    }

    /// Joins a bio to the end of a request.
    pub(crate) fn push_back(&mut self, index: u32, bio: Bio) {
        let (len, segments, flags) = (bio.len(), bio.segment_count(), bio.flags());
        let at = self.link(bio, NONE);
        self.append(index, at, at);
        self.grow_request(index, len, segments, 1, flags);
    }

    /// Appends a list of links to that of a request.
    fn append(&mut self, index: u32, head: u32, tail: u32) {
        let r = &mut self.requests[index as usize];
        if r.tail == NONE {
            r.head = head;
        } else {
            self.links[r.tail as usize].next = head;
        }
        r.tail = tail;
    }

    /// Adds a merged part to the totals of a request.
    fn grow_request(&mut self, index: u32, len: u64, segments: u16, bios: u16, flags: Flags) {
        let r = &mut self.requests[index as usize];
        r.len += len;
        r.segments += segments;
        // `takes_bios` keeps the sum in range.
        r.bios = r.bios.wrapping_add(bios);
        r.flags = r.flags | flags;
    }

    /// Joins a bio to the front of a request.
    pub(crate) fn push_front(&mut self, index: u32, bio: Bio) {
        let (pos, len, segments, flags) = (bio.pos(), bio.len(), bio.segment_count(), bio.flags());
        let r = &mut self.requests[index as usize];
        let second = r.first.replace(bio);
        let head = r.head;
        if let Some(second) = second {
            let at = self.link(second, head);
            let r = &mut self.requests[index as usize];
            r.head = at;
            if r.tail == NONE {
                r.tail = at;
            }
        }
        self.requests[index as usize].pos = pos;
        self.grow_request(index, len, segments, 1, flags);
    }

    /// Joins `absorbed`, which begins where `survivor` ends, to `survivor` and frees its slot.
    pub(crate) fn absorb(&mut self, survivor: u32, absorbed: u32) {
        let a = &mut self.requests[absorbed as usize];
        let (first, head, tail) = (a.first.take(), a.head, a.tail);
        let (len, segments, bios, flags) = (a.len, a.segments, a.bios, a.flags);
        a.state = State::Free;
        a.generation = a.generation.wrapping_add(1);
        self.free.push(absorbed);
        let Some(first) = first else { return };
        let at = self.link(first, head);
        self.append(survivor, at, if tail == NONE { at } else { tail });
        self.grow_request(survivor, len, segments, bios, flags);
    }

    #[inline]
    pub(crate) fn chain(&self, index: u32) -> Linked<'_> {
        let r = self.at(index);
        Linked { first: r.first.as_ref(), head: r.head, links: &self.links }
    }

    #[inline]
    pub(crate) fn ioprio(&self, index: u32) -> IoPrio {
        self.at(index).ioprio
    }

    /// Visits the bios of a request.
    pub(crate) fn for_each_bio_mut(&mut self, index: u32, mut each: impl FnMut(&mut Bio)) {
        let r = &mut self.requests[index as usize];
        r.first.iter_mut().for_each(&mut each);
        let mut at = r.head;
        while let Some(link) = self.links.get_mut(at as usize) {
            link.bio.iter_mut().for_each(&mut each);
            at = link.next;
        }
    }

    /// The elevator was removed: completions are no longer reported to it.
    pub(crate) fn forget_choices(&mut self) {
        self.requests.iter_mut().for_each(|r| r.chosen = false);
    }

    /// Indices of all requests in a state.
    pub(crate) fn in_state(&self, state: State) -> impl Iterator<Item = u32> + '_ {
        self.requests.iter().enumerate().filter(move |(_, r)| r.state == state).map(|(i, _)| i as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn bio(pos: u64) -> Bio {
        Bio::new(Op::Write, pos, 512)
    }

    fn positions(table: &mut Table, index: u32) -> Vec<u64> {
        let mut all = vec![];
        table.for_each_bio_mut(index, |bio| all.push(bio.pos()));
        all
    }

    #[test]
    fn a_request_has_64_bytes() {
        assert_eq!(REQUEST_BYTES, 64);
        const { assert!(REQUEST_BYTES + Bio::DESCRIPTOR_BYTES <= 256) };
    }

    #[test]
    fn bios_stay_in_order_through_all_merges() {
        let mut t = Table::new(4);
        let a = t.make(bio(1024), State::Queued).expect("a free place");
        t.push_back(a, bio(1536));
        t.push_front(a, bio(512));
        t.push_front(a, bio(0));
        let b = t.make(bio(2048), State::Queued).expect("a free place");
        t.push_back(b, bio(2560));
        t.absorb(a, b);
        assert_eq!(positions(&mut t, a), [0, 512, 1024, 1536, 2048, 2560]);
        assert_eq!((t.at(a).pos, t.at(a).len, t.at(a).bios), (0, 3072, 6));
        let mut popped = vec![];
        while let Some(bio) = t.pop_bio(a) {
            popped.push(bio.pos());
            if t.used() == 0 {
                break;
            }
        }
        assert_eq!(popped, [0, 512, 1024, 1536, 2048, 2560]);
        assert_eq!(t.used(), 0);
    }

    #[test]
    fn a_stale_id_is_not_found() {
        let mut t = Table::new(1);
        let a = t.make(bio(0), State::Queued).expect("a free place");
        let id = t.id(a);
        assert_eq!(t.find(id, State::Queued), Some(a));
        assert_eq!(t.find(id, State::Started), None);
        t.pop_bio(a);
        t.make(bio(0), State::Queued).expect("a free place");
        assert_eq!(t.find(id, State::Queued), None);
    }
}
