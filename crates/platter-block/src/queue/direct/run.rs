//! Requests that have not started: runs of bios that follow each other in the backlog.

use super::DirectQueue;
use crate::bio::{Bio, Flags, IoPrio, Op};
use crate::request::MAX_BIOS;
use alloc::vec::Vec;

/// A request as it grows: one bio, or several that continue each other.
pub(super) struct Run {
    op: Op,
    flags: Flags,
    ioprio: IoPrio,
    pos: u64,
    len: u64,
    segments: u32,
    bios: u32,
}

impl Run {
    pub(super) fn of(bio: &Bio) -> Run {
        Run {
            op: bio.op(),
            flags: bio.flags(),
            ioprio: bio.ioprio(),
            pos: bio.pos(),
            len: bio.len(),
            segments: u32::from(bio.segment_count()),
            bios: 1,
        }
    }

    pub(super) fn add(&mut self, bio: &Bio) {
        self.flags = self.flags | bio.flags();
        self.len += bio.len();
        self.segments += u32::from(bio.segment_count());
        self.bios += 1;
    }
}

impl DirectQueue {
    /// Whether a bio may join a request that has not started: it continues it with the same operation and priority,
    /// both are mergeable, and the size stays within the limits.
    pub(super) fn may_join(&self, run: &Run, bio: &Bio) -> bool {
        let limits = &self.geometry.limits;
        let (len, segments) = (run.len + bio.len(), run.segments + u32::from(bio.segment_count()));
        self.settings.merges
            && run.pos + run.len == bio.pos()
            && run.op == bio.op()
            && run.ioprio == bio.ioprio()
            && !(run.flags | bio.flags()).intersects(self.unmergeable)
            && matches!(run.op, Op::Read | Op::Write | Op::Discard)
            && run.bios < u32::from(MAX_BIOS)
            && len <= limits.max_bytes_at(run.op, run.pos)
            && limits.takes_segments(segments, len)
    }

    /// Takes the bios of the next request out of the backlog.
    pub(super) fn take_run(&mut self) -> Option<(Bio, Vec<Bio>)> {
        let first = self.store.bios.pop_front()?;
        let mut more = Vec::new();
        let mut run = Run::of(&first);
        while let Some(next) = self.store.bios.front()
            && self.may_join(&run, next)
        {
            if more.capacity() == 0 {
                more = self.store.spare_lists.pop().unwrap_or_default();
            }
            run.add(next);
            more.extend(self.store.bios.pop_front());
        }
        self.store.runs -= 1;
        if self.store.bios.is_empty() {
            self.store.tail = None;
        }
        Some((first, more))
    }

    /// Puts the bios of a request back at the front of the backlog.
    pub(super) fn put_back(&mut self, first: Bio, mut more: Vec<Bio>) {
        if self.store.bios.is_empty() {
            let mut run = Run::of(&first);
            more.iter().for_each(|bio| run.add(bio));
            self.store.tail = Some(run);
        }
        while let Some(bio) = more.pop() {
            self.store.bios.push_front(bio);
        }
        self.store.bios.push_front(first);
        self.store.runs += 1;
        self.keep_list(more);
    }

    /// Keeps an emptied list of merged bios for the next request.
    pub(super) fn keep_list(&mut self, list: Vec<Bio>) {
        if list.capacity() > 0 {
            self.store.spare_lists.push(list);
        }
    }

    /// Bios were taken out of the middle of the backlog: determines anew which requests it makes.
    pub(super) fn recount(&mut self) {
        let before = self.store.runs;
        let (mut runs, mut last): (u32, Option<Run>) = (0, None);
        for bio in &self.store.bios {
            match &mut last {
                Some(run) if self.may_join(run, bio) => run.add(bio),
                _ => {
                    runs += 1;
                    last = Some(Run::of(bio));
                }
            }
        }
        (self.store.runs, self.store.tail) = (runs, last);
        self.counters.dismantled.add(u64::from(before.saturating_sub(runs)));
        self.counters.requests.add(u64::from(runs.saturating_sub(before)));
    }
}
