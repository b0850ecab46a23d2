//! What a mirror knows of its members and chunks, and which of its changes the members' records have. No I/O is done here.

use super::bits::Bits;
use super::format::{Role, Saved};
use std::ops::Range;
use std::sync::Arc;

/// A device below: a member, or one that may become one.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its place in the array, if it has one.
    pub(super) place: Option<usize>,
    /// Chunks in which it is not up to date, or, of a member in sync, may differ from the first one.
    pub(super) todo: Bits,
    /// Why it has failed.
    pub(super) why: String,
    /// Reads that it has, the end of the last one, and its turn among those that are equally good.
    pub(super) reads: u32,
    pub(super) next: u64,
    pub(super) turn: u64,
    /// Changes that it still has and nothing waits for any more.
    pub(super) left: u32,
    /// Reads and changes that have failed, and blocks that were written again after that.
    pub(super) failures: u64,
    pub(super) repaired: u64,
}

/// A chunk, as far as its bit is concerned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    /// Changes of it that are under way.
    pub(super) writers: u32,
    /// It was changed since the last look.
    pub(super) is_touched: bool,
}

pub(super) struct State {
    /// What the records are to say.
    pub(super) saved: Saved,
    /// Counts the changes of that; those that the records have; and the last one that what is answered depends on.
    pub(super) changes: u64,
    pub(super) durable: u64,
    pub(super) vital: u64,
    pub(super) is_committing: bool,
    /// The next records have another event.
    is_event: bool,
    /// Records that could not be written to the last member in sync: they go before all others, or it could lack two events.
    unsaved: Option<(Arc<Saved>, u64)>,
    /// What no record of a member in use lacks: bits, and that the array is not clean.
    kept: Bits,
    kept_dirty: bool,
    pub(super) members: Vec<Member>,
    /// Counts how often members have come to lack chunks.
    pub(super) lacks: u64,
    pub(super) chunks: Vec<Chunk>,
    /// Changes that are under way.
    pub(super) writers: u32,
    turns: u64,
    /// The tasks that clear bits and that copy run.
    pub(super) is_sweeping: bool,
    pub(super) is_copying: bool,
    /// The array can be used; it is being closed.
    pub(super) is_open: bool,
    pub(super) is_closing: bool,
    /// Why the array cannot be opened, or a device not become a member.
    pub(super) refusal: Option<String>,
}

impl State {
    pub(super) fn new(saved: Saved, devices: usize) -> State {
        let chunks = saved.bits.len();
        let member = Member {
            place: None,
            todo: Bits::new(chunks),
            why: String::new(),
            reads: 0,
            next: 0,
            turn: 0,
            left: 0,
            failures: 0,
            repaired: 0,
        };
        State {
            kept: Bits::new(chunks),
            kept_dirty: false,
            members: vec![member; devices],
            lacks: 0,
            chunks: vec![Chunk::default(); chunks as usize],
            saved,
            changes: 0,
            durable: 0,
            vital: 0,
            is_committing: false,
            is_event: false,
            unsaved: None,
            writers: 0,
            turns: 0,
            is_sweeping: false,
            is_copying: false,
            is_open: false,
            is_closing: false,
            refusal: None,
        }
    }

    /// What a device is; `Vacant`: no member.
    pub(super) fn role(&self, device: usize) -> Role {
        let place = self.members[device].place.and_then(|place| self.saved.places.get(place));
        place.map_or(Role::Vacant, |place| place.role)
    }

    pub(super) fn is_in_sync(&self, device: usize) -> bool {
        self.role(device) == Role::InSync
    }

    /// Whether changes go to a device.
    pub(super) fn is_live(&self, device: usize) -> bool {
        matches!(self.role(device), Role::InSync | Role::Recovering { .. })
    }

    /// The devices to which changes go.
    pub(super) fn live(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|&device| self.is_live(device)).collect()
    }

    /// Members in sync that are there.
    pub(super) fn in_sync(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|&device| self.is_in_sync(device))
    }

    /// The member whose contents count where members in sync may differ.
    pub(super) fn first(&self) -> Option<usize> {
        self.in_sync().next()
    }

    /// A change of roles, or of what else is an event. However many there are until records are written, these have one event
    /// more than the last, so that a member which an interrupted change leaves out lacks no more than one. Returns its number.
    pub(super) fn event(&mut self) -> u64 {
        self.is_event = true;
        self.changes += 1;
        self.saved.events + 1
    }

    /// A change of roles, on which everything depends that is answered from now on.
    pub(super) fn vital_event(&mut self) -> u64 {
        let event = self.event();
        self.vital = self.changes;
        event
    }

    pub(super) fn set_role(&mut self, device: usize, role: Role) {
        if let Some(place) = self.members[device].place.and_then(|place| self.saved.places.get_mut(place)) {
            place.role = role;
        }
    }

    /// A member fails. Returns whether it has by this call: not the last one in sync, and none that is not in use.
    pub(super) fn fail(&mut self, device: usize, why: &str) -> bool {
        let is_last = self.is_in_sync(device) && self.in_sync().count() == 1;
        if !self.is_live(device) || is_last {
            return false;
        }
        let role = Role::Failed(self.vital_event());
        self.set_role(device, role);
        let chunks = self.saved.bits.len();
        let member = &mut self.members[device];
        (member.why, member.todo) = (why.to_owned(), Bits::new(chunks));
        // From now on its contents count.
        if let Some(first) = self.first() {
            self.members[first].todo = Bits::new(chunks);
        }
        true
    }

    /// Whether bits are durable, on all members in use, for a change of these chunks.
    #[inline]
    pub(super) fn is_noted(&self, mut chunks: Range<u64>) -> bool {
        let dirty = self.kept_dirty && !self.saved.is_clean;
        dirty && chunks.all(|chunk| self.kept.has(chunk) && self.saved.bits.has(chunk))
    }

    /// A change of chunks begins: their bits are set. Returns whether that is durable already.
    pub(super) fn enter(&mut self, chunks: Range<u64>) -> bool {
        self.writers += 1;
        for chunk in chunks.clone() {
            self.chunks[chunk as usize].writers += 1;
        }
        if self.is_noted(chunks.clone()) {
            return true;
        }
        if std::mem::take(&mut self.saved.is_clean) {
            self.event();
        }
        for chunk in chunks {
            self.changes += u64::from(self.saved.bits.insert(chunk));
        }
        false
    }

    /// The change is over.
    pub(super) fn leave(&mut self, chunks: Range<u64>) {
        self.writers -= 1;
        for chunk in chunks {
            let chunk = &mut self.chunks[chunk as usize];
            chunk.writers -= 1;
            chunk.is_touched = true;
        }
    }

    /// What is to be written to the records of these members, with the number of its last change. Bits that it lacks do not
    /// count any more.
    pub(super) fn snapshot(&mut self) -> (Arc<Saved>, u64, Vec<usize>) {
        if let Some((saved, changes)) = self.unsaved.clone() {
            return (saved, changes, self.live());
        }
        self.saved.events += u64::from(std::mem::take(&mut self.is_event));
        self.kept.keep_all(&self.saved.bits);
        self.kept_dirty &= !self.saved.is_clean;
        (Arc::new(self.saved.clone()), self.changes, self.live())
    }

    /// The last member in sync could not be given that.
    pub(super) fn not_committed(&mut self, saved: Arc<Saved>, changes: u64) {
        self.unsaved = Some((saved, changes));
    }

    /// All records have that.
    pub(super) fn committed(&mut self, saved: &Saved, changes: u64) {
        self.unsaved = None;
        self.durable = self.durable.max(changes);
        self.kept = saved.bits.clone();
        self.kept_dirty = !saved.is_clean;
    }

    /// Whether answers may be given: no change of roles that they depend on waits to be durable.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.durable >= self.vital
    }

    /// Whether members in sync may differ in a chunk, or a member that recovers is not up to date there.
    pub(super) fn has_todo(&self, chunk: u64) -> bool {
        self.members.iter().any(|member| member.todo.has(chunk))
    }

    /// A member lacks these chunks from now on.
    pub(super) fn lack(&mut self, device: usize, chunks: &Bits) {
        self.lacks += 1;
        self.members[device].todo.add_all(chunks);
    }

    /// The first chunk that is to be copied.
    pub(super) fn next_todo(&self) -> Option<u64> {
        self.members.iter().filter_map(|member| member.todo.next(0)).min()
    }

    /// Whether a member in sync may differ from the first one.
    pub(super) fn is_resyncing(&self) -> bool {
        self.in_sync().any(|device| !self.members[device].todo.is_empty())
    }

    /// Takes the member for a read: where members in sync may differ, the first one only.
    pub(super) fn take(&mut self, pos: u64, len: u64) -> Option<usize> {
        let chunks = self.saved.chunks(pos, len);
        let differs = |device: usize| {
            let todo = &self.members[device].todo;
            !todo.is_empty() && chunks.clone().any(|chunk| todo.has(chunk))
        };
        let mut best: Option<(usize, (bool, u32, u64))> = None;
        for device in 0..self.members.len() {
            if !self.is_in_sync(device) || differs(device) {
                continue;
            }
            let member = &self.members[device];
            // A sequence of reads stays where it is.
            let cost = (member.next != pos, member.reads, member.turn);
            if best.is_none_or(|(_, least)| cost < least) {
                best = Some((device, cost));
            }
        }
        let device = best?.0;
        self.turns += 1;
        let member = &mut self.members[device];
        (member.turn, member.next) = (self.turns, pos + len);
        member.reads += 1;
        Some(device)
    }

    /// The chunks whose bits can be cleared after a flush of all members: nothing has changed them since the last look. From now
    /// on they count as not changed.
    pub(super) fn candidates(&mut self) -> Vec<u64> {
        if self.saved.is_degraded() {
            return Vec::new();
        }
        let bits: Vec<u64> = self.saved.bits.iter().collect();
        let mut old = Vec::new();
        for chunk in bits {
            let state = &mut self.chunks[chunk as usize];
            let was_touched = std::mem::take(&mut state.is_touched);
            if !was_touched && state.writers == 0 && !self.has_todo(chunk) {
                old.push(chunk);
            }
        }
        old
    }

    /// Clears those of these bits whose chunks were not changed meanwhile. All members were flushed since. Returns whether the records
    /// change by that.
    pub(super) fn clear(&mut self, chunks: &[u64]) -> bool {
        if self.saved.is_degraded() {
            return false;
        }
        let mut any = false;
        for &chunk in chunks {
            let state = self.chunks[chunk as usize];
            if state.writers == 0 && !state.is_touched && !self.has_todo(chunk) {
                any |= self.saved.bits.remove(chunk);
            }
        }
        if any {
            self.saved.cleared = self.event();
        }
        any
    }

    /// Whether members in sync are the same, but for what their caches have not made durable.
    pub(super) fn is_idle(&self) -> bool {
        self.writers == 0 && !self.is_resyncing()
    }

    /// Whether bits are left to be cleared, or the array is to be marked clean, when time has passed.
    pub(super) fn has_traces(&self) -> bool {
        let bits = !self.saved.bits.is_empty() && !self.saved.is_degraded();
        bits || !self.saved.is_clean
    }

    /// All chunks to be brought up to date on a member that recovers.
    pub(super) fn todo_of(&self, upto: u64, by_bits: bool) -> Bits {
        let mut todo = self.saved.bits.clone();
        if !by_bits {
            todo.fill_from(upto / self.saved.chunk);
        }
        todo
    }

    /// What is up to date on a member that recovers, in bytes from the beginning.
    pub(super) fn upto(&self, device: usize) -> u64 {
        let next = self.members[device].todo.next(0);
        next.map_or(self.saved.size, |chunk| (chunk * self.saved.chunk).min(self.saved.size))
    }
}
