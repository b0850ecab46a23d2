//! The bios that a cache has with the device below, and who waits for them.

use platter_block::bio::Bio;
use platter_block::fault::Fault;

/// One I/O of the cache, for as long as it lives: place and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IoKey {
    pub(super) index: u32,
    generation: u32,
}

/// What it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoKind {
    /// Reads pages.
    Fill,
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
    /// In order of their pages.
    pub(super) frames: Vec<u32>,
    /// Lanes that wait for it.
    pub(super) waiters: Vec<u32>,
    /// What went wrong first, and where.
    pub(super) failed: Option<(Fault, u64)>,
}

/// All of them. Places, lists and bios are used again.
#[derive(Default)]
pub(super) struct Ios {
    ios: Vec<Io>,
    free: Vec<u32>,
    spare: Vec<Bio>,
    /// In progress.
    pub(super) out: u32,
}

impl Ios {
    /// A new I/O without bios.
    pub(super) fn begin(&mut self, kind: IoKind) -> IoKey {
        let index = self.free.pop().unwrap_or_else(|| {
            let (frames, waiters) = (Vec::new(), Vec::new());
            self.ios.push(Io { kind, generation: 0, out: 0, frames, waiters, failed: None });
            self.ios.len() as u32 - 1
        });
        self.out += 1;
        let io = &mut self.ios[index as usize];
        (io.kind, io.out, io.failed) = (kind, 0, None);
        IoKey { index, generation: io.generation }
    }

    /// A bio to use.
    pub(super) fn bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    /// Makes a bio one of an I/O's.
    pub(super) fn sign(&mut self, key: IoKey, bio: &mut Bio) {
        bio.set_token(u64::from(key.generation) << 32 | u64::from(key.index));
        self.ios[key.index as usize].out += 1;
    }

    pub(super) fn get(&mut self, key: IoKey) -> &mut Io {
        &mut self.ios[key.index as usize]
    }

    /// Whether the I/O is still in progress.
    pub(super) fn is_live(&self, key: IoKey) -> bool {
        self.ios[key.index as usize].generation == key.generation
    }

    /// Those in progress that write back, with their frames.
    pub(super) fn write_backs(&self) -> impl Iterator<Item = (IoKey, &[u32])> + '_ {
        let live = |(index, io): (usize, &Io)| (io.out > 0 && io.kind == IoKind::WriteBack).then_some(index);
        let keys = self.ios.iter().enumerate().filter_map(live);
        keys.map(|index| (self.key(index as u32), &self.ios[index].frames[..]))
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

    /// Ends an I/O: whoever looks for it finds it gone.
    pub(super) fn end(&mut self, key: IoKey) {
        let io = &mut self.ios[key.index as usize];
        io.generation = io.generation.wrapping_add(1);
        io.frames.clear();
        io.waiters.clear();
        self.out -= 1;
        self.free.push(key.index);
    }
}
