//! The bios of a cache in flight on the device below, and the lanes that wait for them.

use super::frames::{Frames, Lent};
use platter_block::bio::Bio;
use platter_block::fault::Fault;
use platter_stack::kit::ios::{Io, IoTable};
use std::sync::Arc;

pub(super) use platter_stack::kit::ios::IoKey;

/// An I/O that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) key: IoKey,
    pub(super) fault: Fault,
    pub(super) pos: u64,
    /// It was to read ahead.
    pub(super) ahead: bool,
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
    /// Has no bios: a lane copies data of a write into pages.
    Copy,
    /// Has no bios: a lane copies pages that have got another frame.
    Move,
    /// Passes on a bio that the cache does not carry out itself: flush, discard, write-zeroes.
    Pass,
}

/// What an I/O is for. It has several bios if the missing parts of a page are not contiguous.
pub(super) struct PageIo {
    pub(super) kind: IoKind,
    /// The lane with this number carries it out, by one bio on its own lane or by copying the data of a write, and may end
    /// its bio without the engine.
    pub(super) own: Option<u32>,
    /// Another lane waits for it, too.
    pub(super) awaited: bool,
    /// In the order of their pages, which are consecutive unless pages move.
    pub(super) frames: Vec<u32>,
    /// The share of the frames that its bios have.
    pub(super) lent: Arc<Lent>,
}

/// All I/Os.
pub(super) struct Ios {
    frames: Arc<Frames>,
    table: IoTable<PageIo>,
    /// I/Os in progress.
    pub(super) out: u32,
    /// Those that write back, and those that read ahead.
    pub(super) writing: u32,
    pub(super) ahead: u32,
    /// Those that copy.
    pub(super) copying: u32,
    /// Those that lanes carry out and other lanes wait for.
    pub(super) awaited: u32,
}

impl Ios {
    pub(super) fn new(frames: &Arc<Frames>) -> Ios {
        Ios {
            frames: Arc::clone(frames),
            table: IoTable::default(),
            out: 0,
            writing: 0,
            ahead: 0,
            copying: 0,
            awaited: 0,
        }
    }

    /// Begins an I/O without bios.
    pub(super) fn begin(&mut self, kind: IoKind) -> IoKey {
        let frames = &self.frames;
        let lent = || Lent::of(frames);
        let key =
            self.table.begin(|| PageIo { kind, own: None, awaited: false, frames: Vec::new(), lent: lent() });
        self.table.get(key).state.kind = kind;
        self.count(kind, 1);
        key
    }

    fn count(&mut self, kind: IoKind, by: i32) {
        let add = |count: &mut u32| *count = count.wrapping_add_signed(by);
        add(&mut self.out);
        match kind {
            IoKind::WriteBack => add(&mut self.writing),
            IoKind::Ahead => add(&mut self.ahead),
            IoKind::Copy | IoKind::Move => add(&mut self.copying),
            IoKind::Fill | IoKind::Pass => {}
        }
    }

    /// Marks an I/O as readahead.
    pub(super) fn set_ahead(&mut self, key: IoKey) {
        self.get(key).state.kind = IoKind::Ahead;
        self.ahead += 1;
    }

    /// Registers a lane to be told when an I/O completes.
    pub(super) fn wait_for(&mut self, number: u32, key: IoKey) {
        let io = self.table.get(key);
        if !io.waiters.contains(&number) {
            io.waiters.push(number);
        }
        if io.state.own.is_some_and(|own| own != number) && !io.state.awaited {
            io.state.awaited = true;
            self.awaited += 1;
        }
    }

    /// What an I/O consists of has ended.
    fn has_ended(&mut self, key: IoKey) {
        let state = &mut self.table.get(key).state;
        self.awaited -= u32::from(std::mem::take(&mut state.awaited));
        state.own = None;
    }

    /// A bio to use.
    pub(super) fn bio(&mut self) -> Bio {
        self.table.bio()
    }

    /// Makes a bio part of an I/O.
    pub(super) fn sign(&mut self, key: IoKey, bio: &mut Bio) {
        self.table.sign(key, bio);
    }

    /// The token of an I/O's bios.
    pub(super) fn token(key: IoKey) -> u64 {
        IoTable::<PageIo>::token(key)
    }

    pub(super) fn get(&mut self, key: IoKey) -> &mut Io<PageIo> {
        self.table.get(key)
    }

    /// Whether the I/O is in progress.
    pub(super) fn is_running(&self, key: IoKey) -> bool {
        self.table.is_live(key)
    }

    /// Calls `each` with the first and the last frame of every I/O that delays an operation on its pages:
    /// reads, copies, moves, and write-backs.
    pub(super) fn each_run(&self, each: &mut dyn FnMut(u32, u32)) {
        for io in self.table.entries() {
            let has = match io.state.kind {
                IoKind::Fill | IoKind::Ahead | IoKind::WriteBack => io.is_out(),
                // Its frames are forgotten when it ends.
                IoKind::Copy => true,
                IoKind::Move => {
                    io.state.frames.iter().for_each(|&frame| each(frame, frame));
                    false
                }
                IoKind::Pass => false,
            };
            if let ([first, ..], [.., last], true) = (&io.state.frames[..], &io.state.frames[..], has) {
                each(*first, *last);
            }
        }
    }

    /// A write-back in progress, if there is one.
    pub(super) fn some_write(&self) -> Option<IoKey> {
        self.find(|io| io.is_out() && io.state.kind == IoKind::WriteBack)
    }

    /// Any I/O with the device, if there is one.
    pub(super) fn some(&self) -> Option<IoKey> {
        self.find(Io::is_out)
    }

    fn find(&self, is_one: impl Fn(&Io<PageIo>) -> bool) -> Option<IoKey> {
        self.table.entries().iter().position(is_one).map(|index| self.key(index as u32))
    }

    /// The key of the I/O at an index, which must be in progress.
    pub(super) fn key(&self, index: u32) -> IoKey {
        self.table.key(index)
    }

    /// Records that a bio has come back. Returns the I/O if this was its last bio.
    ///
    /// # Panics
    /// The device still has memory of it, which must not be used again.
    pub(super) fn came_back(&mut self, bio: Bio) -> Option<IoKey> {
        let key = self.table.came_back(bio)?;
        self.has_ended(key);
        let lent = &mut self.get(key).state.lent;
        assert!(Arc::get_mut(lent).is_some(), "the device below has ended a bio of which it has memory");
        Some(key)
    }

    /// Begins a copy of a lane.
    pub(super) fn begin_copy(&mut self, lane: u32) -> IoKey {
        let key = self.begin(IoKind::Copy);
        self.get(key).state.own = Some(lane);
        key
    }

    /// A copy has ended.
    pub(super) fn end_copy(&mut self, key: IoKey) {
        self.has_ended(key);
        self.end(key);
    }

    /// Ends an I/O: its key is no longer live.
    pub(super) fn end(&mut self, key: IoKey) {
        let io = self.get(key);
        io.state.frames.clear();
        let kind = io.state.kind;
        self.table.end(key);
        self.count(kind, -1);
    }
}
