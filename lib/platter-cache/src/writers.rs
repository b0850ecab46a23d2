//! The writers of a cache and their shares of the dirty pages, so that one of them cannot take them all.
//!
//! A writer is a client (a [`Context`]) or, without one, a handle. While dirty pages are being written, and there are more of
//! them than the middle between the background share and the limit, a writer with more than its share of the limit waits until it
//! has fewer. The others go on. The rule is that of Linux since 3.2 (`balance_dirty_pages`, its free run below the same
//! middle); Linux gives shares by the speed of each disk, and here all writers of the one disk get the same.

use platter_block::bio::Context;
use platter_block::handle::HandleId;
use platter_block::time::{Span, Time};
use platter_stack::kit::{Lanes, Line};
use std::collections::HashMap;

/// The index of a writer. Frames have two bytes for it.
pub(super) type WriterId = u16;

/// All writers beyond the last index.
pub(super) const OTHERS: WriterId = 0;

#[derive(Default)]
struct Writer {
    key: (HandleId, Context),
    /// Dirty pages of it, and tasks that write.
    pages: u32,
    tasks: u32,
    /// Its tasks that wait until it has fewer dirty pages.
    line: Line,
}

/// The waits of writers for fewer dirty pages, of all of them or of themselves, that have ended.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) count: u64,
    pub(super) nanos: u64,
}

/// The writers that have dirty pages or write.
pub(super) struct Writers {
    list: Vec<Writer>,
    by_key: HashMap<(HandleId, Context), WriterId>,
    /// The one that was looked for last, which often is the next one, too.
    last: WriterId,
    free: Vec<WriterId>,
    /// Those whose tasks wait.
    waiting: Vec<WriterId>,
    pub(super) waits: Waits,
}

impl Default for Writers {
    fn default() -> Writers {
        let list = vec![Writer::default()];
        Writers {
            list,
            by_key: HashMap::new(),
            last: OTHERS,
            free: Vec::new(),
            waiting: Vec::new(),
            waits: Waits::default(),
        }
    }
}

impl Writers {
    /// The number of writers.
    pub(super) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// A task begins to write.
    pub(super) fn join(&mut self, handle: HandleId, context: Context) -> WriterId {
        // A client may have several handles.
        let handle = if context == Context::default() { handle } else { HandleId::DEVICE };
        let key = (handle, context);
        let last = &self.list[usize::from(self.last)];
        let id = match last.key == key && (last.pages, last.tasks) != (0, 0) && self.last != OTHERS {
            true => self.last,
            false => self.by_key.get(&key).copied().unwrap_or_else(|| self.add(key)),
        };
        self.last = id;
        self.list[usize::from(id)].tasks += 1;
        id
    }

    fn add(&mut self, key: (HandleId, Context)) -> WriterId {
        let next = WriterId::try_from(self.list.len()).ok();
        let Some(id) = self.free.pop().or(next) else { return OTHERS };
        if usize::from(id) == self.list.len() {
            self.list.push(Writer::default());
        }
        self.list[usize::from(id)].key = key;
        self.by_key.insert(key, id);
        id
    }

    /// A task has ended.
    pub(super) fn leave(&mut self, id: WriterId) {
        self.list[usize::from(id)].tasks -= 1;
        self.forget(id);
    }

    /// A page of the writer has become dirty.
    pub(super) fn dirtied(&mut self, id: WriterId) {
        self.list[usize::from(id)].pages += 1;
    }

    /// A dirty page of the writer has become clean.
    pub(super) fn cleaned(&mut self, id: WriterId) {
        self.list[usize::from(id)].pages -= 1;
        self.forget(id);
    }

    fn forget(&mut self, id: WriterId) {
        let writer = &self.list[usize::from(id)];
        if id != OTHERS && (writer.pages, writer.tasks) == (0, 0) {
            self.by_key.remove(&writer.key);
            self.free.push(id);
        }
    }

    fn line(&mut self, id: WriterId) -> &mut Line {
        &mut self.list[usize::from(id)].line
    }

    /// Whether a task of a writer waits at this place.
    pub(super) fn has(&self, id: WriterId, turn: u64) -> bool {
        self.list[usize::from(id)].line.has(turn)
    }

    /// A task of a writer does not wait any more.
    pub(super) fn stop_waiting(&mut self, id: WriterId, turn: u64) {
        self.line(id).leave(turn);
    }

    /// Counts a wait that has ended.
    pub(super) fn has_waited(&mut self, time: Span) {
        self.waits.count += 1;
        self.waits.nanos = self.waits.nanos.saturating_add(time.as_nanos());
    }

    /// Whether tasks wait.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When a place in a line goes to another task.
    pub(super) fn wakeup(&self) -> Option<Time> {
        self.waiting.iter().filter_map(|&id| self.list[usize::from(id)].line.wakeup()).min()
    }

    /// Dirty pages of a writer.
    pub(super) fn pages(&self, id: WriterId) -> u32 {
        self.list[usize::from(id)].pages
    }

    /// A task of a writer waits at a place.
    pub(super) fn wait(&mut self, id: WriterId, turn: u64, lane: u32, wants: u32) {
        self.line(id).join(turn, lane, wants);
        if !self.waiting.contains(&id) {
            self.waiting.push(id);
        }
    }

    /// Wakes tasks whose writers have no more dirty pages than `share`, or all.
    pub(super) fn grant<F>(&mut self, now: Time, lanes: &Lanes<F>, share: Option<u32>) {
        let list = &mut self.list;
        self.waiting.retain(|&id| {
            let Writer { pages, line, .. } = &mut list[usize::from(id)];
            line.grant(
                now,
                lanes,
                share.map_or(0, |share| (share + 1).saturating_sub(*pages)),
                share.is_none(),
            );
            !line.is_empty() || line.promised() > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_stack::kit::lanes::LaneEntry;

    #[test]
    fn clients_and_handles_are_writers_as_long_as_they_have_pages_or_write() {
        let mut writers = Writers::default();
        let first = writers.join(HandleId(1), Context::default());
        let second = writers.join(HandleId(2), Context::default());
        let client = writers.join(HandleId(1), Context::new(7));
        assert_eq!(writers.join(HandleId(2), Context::new(7)), client);
        assert_eq!(writers.count(), 3);
        assert!(first != second && second != client && first != OTHERS);
        writers.dirtied(first);
        writers.leave(first);
        assert_eq!(writers.join(HandleId(1), Context::default()), first);
        writers.leave(first);
        writers.cleaned(first);
        writers.leave(second);
        assert_eq!(writers.count(), 1);
        // Its index is used again.
        assert!([first, second].contains(&writers.join(HandleId(9), Context::default())));
    }

    #[test]
    fn writers_beyond_the_last_index_are_one() {
        let mut writers = Writers::default();
        let count = u32::from(WriterId::MAX);
        assert!((1..=count).all(|id| writers.join(HandleId(id), Context::default()) != OTHERS));
        let more = writers.join(HandleId(count + 1), Context::default());
        assert_eq!((more, writers.join(HandleId(count + 2), Context::default())), (OTHERS, OTHERS));
        writers.dirtied(OTHERS);
        writers.cleaned(OTHERS);
        writers.leave(OTHERS);
        writers.leave(5);
        assert_eq!(writers.join(HandleId(count + 3), Context::default()), 5);
    }

    /// A writer continues as soon as it would not have to wait: with no more pages than its share.
    #[test]
    fn a_writer_at_its_share_is_woken() {
        let mut lanes = Lanes::<()>::default();
        let lane = lanes.join(&LaneEntry::new(None));
        let mut writers = Writers::default();
        let writer = writers.join(HandleId(1), Context::default());
        (0..2).for_each(|_| writers.dirtied(writer));
        writers.wait(writer, 1, lane, 1);
        writers.grant(Time(0), &lanes, Some(1));
        assert_eq!(writers.line(writer).promised(), 0);
        writers.cleaned(writer);
        writers.grant(Time(0), &lanes, Some(1));
        assert_eq!(writers.line(writer).promised(), 1);
    }
}
