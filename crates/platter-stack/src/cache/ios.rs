//! The bios that a cache has with the device below, and who waits for them.

use super::frames::{Frames, Lent};
use platter_block::bio::Bio;
use platter_block::fault::Fault;
use platter_block::time::Time;
use std::sync::Arc;

/// One I/O of the cache, for as long as it lives: place and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IoKey {
    pub(super) index: u32,
    generation: u32,
}

/// What it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoKind {
    /// Reads pages that somebody asked for.
    Fill,
    /// Reads pages that nobody has asked for yet.
    Ahead,
    /// Writes dirty pages.
    WriteBack,
    /// A bio that the cache has no part in: flush, discard, write-zeroes.
    Pass,
}

/// An I/O in progress: one bio, or several where the parts of a page that are missing are not one piece.
pub(super) struct Io {
    pub(super) kind: IoKind,
    generation: u32,
    /// Bios that have not come back.
    out: u32,
    /// All bios have come back, at least one of them without its memory, which the device still has.
    is_away: bool,
    /// In order of their pages, which follow each other.
    pub(super) frames: Vec<u32>,
    /// Lanes that wait for it.
    pub(super) waiters: Vec<u32>,
    /// What went wrong first, and where.
    pub(super) failed: Option<(Fault, u64)>,
    /// When its bios time out, if whoever asked for it said so.
    pub(super) deadline: Option<Time>,
    /// What its bios have a share of.
    pub(super) lent: Arc<Lent>,
}

/// All of them. Places, lists and bios are used again.
pub(super) struct Ios {
    frames: Arc<Frames>,
    ios: Vec<Io>,
    free: Vec<u32>,
    spare: Vec<Bio>,
    /// In progress, those aside whose memory is away.
    pub(super) out: u32,
    /// Of those: writing back, and reading ahead.
    pub(super) writing: u32,
    pub(super) ahead: u32,
}

impl Ios {
    pub(super) fn new(frames: &Arc<Frames>) -> Ios {
        let (ios, free, spare) = (Vec::new(), Vec::new(), Vec::new());
        Ios { frames: Arc::clone(frames), ios, free, spare, out: 0, writing: 0, ahead: 0 }
    }

    /// A new I/O without bios.
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

    /// Nobody has asked for what an I/O reads.
    pub(super) fn set_ahead(&mut self, key: IoKey) {
        self.get(key).kind = IoKind::Ahead;
        self.ahead += 1;
    }

    /// A bio to use.
    pub(super) fn bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    /// Makes a bio one of an I/O's.
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

    /// Whether the I/O is still in progress, or its memory away.
    pub(super) fn is_live(&self, key: IoKey) -> bool {
        self.ios[key.index as usize].generation == key.generation
    }

    /// Whether the I/O is in progress: not all of its bios have come back.
    pub(super) fn is_running(&self, key: IoKey) -> bool {
        self.is_live(key) && !self.ios[key.index as usize].is_away
    }

    /// Calls `each` with the first and the last frame of every I/O that keeps an operation on its pages waiting: those
    /// that read pages, and those that write pages back, until the device has given their memory back.
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

    /// A write-back in progress.
    pub(super) fn some_write(&self) -> Option<IoKey> {
        let is_one = |io: &Io| io.out > 0 && io.kind == IoKind::WriteBack;
        self.ios.iter().position(is_one).map(|index| self.key(index as u32))
    }

    /// The I/O that has a place, which must be in progress.
    pub(super) fn key(&self, index: u32) -> IoKey {
        IoKey { index, generation: self.ios[index as usize].generation }
    }

    /// A bio has come back. The I/O, if that was the last one of it.
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
        // Its share of the frames goes now; the list of segments stays for the next.
        bio.reset(platter_block::bio::Op::Flush, 0, 0);
        if self.spare.len() < 256 {
            self.spare.push(bio);
        }
        over.then_some(key)
    }

    /// Whether no driver has memory of an I/O any more.
    pub(super) fn is_back(&mut self, key: IoKey) -> bool {
        Arc::get_mut(&mut self.get(key).lent).is_some()
    }

    /// All bios of an I/O have come back, and the device still has memory of it.
    pub(super) fn set_away(&mut self, key: IoKey) {
        let io = self.get(key);
        io.is_away = true;
        let kind = io.kind;
        self.count(kind, -1);
    }

    /// Ends an I/O: whoever looks for it finds it gone.
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
