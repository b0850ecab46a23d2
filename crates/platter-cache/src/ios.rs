//! The bios of a cache in flight on the device below, and the lanes that wait for them.

use super::frames::{Frames, Lent};
use platter_block::bio::Bio;
use platter_block::fault::Fault;
use platter_block::time::Time;
use std::sync::Arc;

/// Identifies an I/O of the cache: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IoKey {
    pub(super) index: u32,
    generation: u32,
}

/// The purpose of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoKind {
    /// Reads pages that a task needs.
    Fill,
    /// Reads pages ahead.
    Ahead,
    /// Writes dirty pages.
    WriteBack,
    /// Passes on a bio that the cache does not carry out itself: flush, discard, write-zeroes.
    Pass,
}

/// An I/O in progress: one bio, or several if the missing parts of a page are not contiguous.
pub(super) struct Io {
    pub(super) kind: IoKind,
    generation: u32,
    /// Bios that have not come back.
    out: u32,
    /// All bios have come back, but the device still has the memory of at least one.
    is_away: bool,
    /// In the order of their pages, which are consecutive.
    pub(super) frames: Vec<u32>,
    /// Lanes that wait for it.
    pub(super) waiters: Vec<u32>,
    /// The first fault, and its position.
    pub(super) failed: Option<(Fault, u64)>,
    /// The deadline of its bios, if its task set one.
    pub(super) deadline: Option<Time>,
    /// The share of the frames that its bios have.
    pub(super) lent: Arc<Lent>,
}

/// All I/Os. Entries, lists and bios are reused.
pub(super) struct Ios {
    frames: Arc<Frames>,
    ios: Vec<Io>,
    free: Vec<u32>,
    spare: Vec<Bio>,
    /// I/Os in progress, without those that only wait for their memory.
    pub(super) out: u32,
    /// Those that write back, and those that read ahead.
    pub(super) writing: u32,
    pub(super) ahead: u32,
}

impl Ios {
    pub(super) fn new(frames: &Arc<Frames>) -> Ios {
        let (ios, free, spare) = (Vec::new(), Vec::new(), Vec::new());
        Ios { frames: Arc::clone(frames), ios, free, spare, out: 0, writing: 0, ahead: 0 }
    }

    /// Begins an I/O without bios.
    pub(super) fn begin(&mut self, kind: IoKind) -> IoKey {
        let frames = &self.frames;
        let index = self.free.pop().unwrap_or_else(|| {
            self.ios.push(Io {
                kind,
                generation: 0,
                out: 0,
                is_away: false,
                frames: Vec::new(),
                waiters: Vec::new(),
                failed: None,
                deadline: None,
                lent: Lent::of(frames),
            });
            self.ios.len() as u32 - 1
        });
        self.count(kind, 1);
        let io = &mut self.ios[index as usize];
        (io.kind, io.out, io.failed, io.deadline) = (kind, 0, None, None);
        IoKey { index, generation: io.generation }
    }

    fn count(&mut self, kind: IoKind, by: i32) {
        let add = |count: &mut u32| *count = count.wrapping_add_signed(by);
        add(&mut self.out);
        match kind {
            IoKind::WriteBack => add(&mut self.writing),
            IoKind::Ahead => add(&mut self.ahead),
            IoKind::Fill | IoKind::Pass => {}
        }
    }

    /// Marks an I/O as readahead.
    pub(super) fn set_ahead(&mut self, key: IoKey) {
        self.get(key).kind = IoKind::Ahead;
        self.ahead += 1;
    }

    /// A bio to use.
    pub(super) fn bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    /// Makes a bio part of an I/O.
    pub(super) fn sign(&mut self, key: IoKey, bio: &mut Bio) {
        bio.set_token(Ios::token(key));
        let io = &mut self.ios[key.index as usize];
        bio.set_deadline(io.deadline);
        io.out += 1;
    }

    /// The token of an I/O's bios.
    pub(super) fn token(key: IoKey) -> u64 {
        u64::from(key.generation) << 32 | u64::from(key.index)
    }

    pub(super) fn get(&mut self, key: IoKey) -> &mut Io {
        &mut self.ios[key.index as usize]
    }

    /// Whether the I/O is in progress, or the device still has its memory.
    pub(super) fn is_live(&self, key: IoKey) -> bool {
        self.ios[key.index as usize].generation == key.generation
    }

    /// Whether the I/O is in progress: not all of its bios have come back.
    pub(super) fn is_running(&self, key: IoKey) -> bool {
        self.is_live(key) && !self.ios[key.index as usize].is_away
    }

    /// Calls `each` with the first and the last frame of every I/O that delays an operation on its pages:
    /// reads, and write-backs until the device has returned their memory.
    pub(super) fn each_run(&self, each: &mut dyn FnMut(u32, u32)) {
        for io in self.ios.iter().filter(|io| io.out > 0 || io.is_away) {
            let has = match io.kind {
                IoKind::Fill | IoKind::Ahead => !io.is_away,
                IoKind::WriteBack => true,
                IoKind::Pass => false,
            };
            if let ([first, ..], [.., last], true) = (&io.frames[..], &io.frames[..], has) {
                each(*first, *last);
            }
        }
    }

    /// A write-back in progress, if there is one.
    pub(super) fn some_write(&self) -> Option<IoKey> {
        let is_one = |io: &Io| io.out > 0 && io.kind == IoKind::WriteBack;
        self.ios.iter().position(is_one).map(|index| self.key(index as u32))
    }

    /// The key of the I/O at an index, which must be in progress.
    pub(super) fn key(&self, index: u32) -> IoKey {
        IoKey { index, generation: self.ios[index as usize].generation }
    }

    /// Records that a bio has come back. Returns the I/O if this was its last bio.
    pub(super) fn came_back(&mut self, mut bio: Bio) -> Option<IoKey> {
        let token = bio.token();
        let key = IoKey { index: token as u32, generation: (token >> 32) as u32 };
        let io = self.ios.get_mut(key.index as usize)?;
        if io.generation != key.generation || io.out == 0 {
            return None;
        }
        if let Err(fault) = bio.status()
            && io.failed.is_none_or(|(_, pos)| bio.pos() < pos)
        {
            io.failed = Some((fault, bio.pos()));
        }
        io.out -= 1;
        let over = io.out == 0;
        // Drops its share of the frames now; the list of segments is kept for the next use.
        bio.reset(platter_block::bio::Op::Flush, 0, 0);
        if self.spare.len() < 256 {
            self.spare.push(bio);
        }
        over.then_some(key)
    }

    /// Whether the device has returned all memory of an I/O.
    pub(super) fn is_back(&mut self, key: IoKey) -> bool {
        Arc::get_mut(&mut self.get(key).lent).is_some()
    }

    /// Records that all bios of an I/O have come back while the device still has memory of it.
    pub(super) fn set_away(&mut self, key: IoKey) {
        let io = self.get(key);
        io.is_away = true;
        let kind = io.kind;
        self.count(kind, -1);
    }

    /// Ends an I/O: its key is no longer live.
    pub(super) fn end(&mut self, key: IoKey) {
        let io = self.get(key);
        io.generation = io.generation.wrapping_add(1);
        io.frames.clear();
        io.waiters.clear();
        let (kind, was_away) = (io.kind, std::mem::take(&mut io.is_away));
        if !was_away {
            self.count(kind, -1);
        }
        self.free.push(key.index);
    }
}
