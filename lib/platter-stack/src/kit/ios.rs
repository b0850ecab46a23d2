//! The I/Os of a layer that are in progress on the devices below.
//!
//! Each I/O has a state of type `S` that tells what it is for; it stays in its entry when the entry is used again, so
//! that lists in it keep their memory. The bios of an I/O carry its [token](IoTable::token).

use platter_block::bio::{Bio, Op};
use platter_block::fault::{Fault, Kind, Stage, Status};

/// Identifies an I/O: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoKey {
    index: u32,
    generation: u32,
}

impl IoKey {
    /// The place of its entry, which later I/Os use again.
    pub fn index(self) -> u32 {
        self.index
    }
}

/// Most bios that are kept for their next use.
const SPARE: usize = 256;

/// An I/O in progress, made of one or several bios.
pub struct Io<S> {
    /// What it is for.
    pub state: S,
    generation: u32,
    /// Bios that have not come back.
    out: u32,
    /// Lanes that wait for it.
    pub waiters: Vec<u32>,
    /// The first fault by position, and its position.
    pub failed: Option<(Fault, u64)>,
}

impl<S> Io<S> {
    /// Whether bios have not come back.
    pub fn is_out(&self) -> bool {
        self.out > 0
    }
}

/// All I/Os of a layer. Entries and bios are used again.
pub struct IoTable<S> {
    ios: Vec<Io<S>>,
    free: Vec<u32>,
    spare: Vec<Bio>,
}

impl<S> Default for IoTable<S> {
    fn default() -> IoTable<S> {
        IoTable { ios: Vec::new(), free: Vec::new(), spare: Vec::new() }
    }
}

impl<S> IoTable<S> {
    /// Begins an I/O without bios. An entry that is used again keeps its state.
    pub fn begin(&mut self, make: impl FnOnce() -> S) -> IoKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.ios.push(Io { state: make(), generation: 0, out: 0, waiters: Vec::new(), failed: None });
            self.ios.len() as u32 - 1
        });
        let io = &mut self.ios[index as usize];
        (io.out, io.failed) = (0, None);
        IoKey { index, generation: io.generation }
    }

    /// A bio to use.
    pub fn bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    /// Makes a bio part of an I/O: it gets the token.
    pub fn sign(&mut self, key: IoKey, bio: &mut Bio) {
        bio.set_token(IoTable::<S>::token(key));
        self.ios[key.index as usize].out += 1;
    }

    /// The token of an I/O's bios.
    pub fn token(key: IoKey) -> u64 {
        u64::from(key.generation) << 32 | u64::from(key.index)
    }

    /// The I/O of a key, which must be live.
    pub fn get(&mut self, key: IoKey) -> &mut Io<S> {
        &mut self.ios[key.index as usize]
    }

    /// Whether the I/O has not ended.
    pub fn is_live(&self, key: IoKey) -> bool {
        self.ios[key.index as usize].generation == key.generation
    }

    /// All entries, also those that are not in use.
    pub fn entries(&self) -> &[Io<S>] {
        &self.ios
    }

    /// The key of the I/O at an index, which must be in progress.
    pub fn key(&self, index: u32) -> IoKey {
        IoKey { index, generation: self.ios[index as usize].generation }
    }

    /// The I/O that a bio belongs to; `None`: it is not in progress.
    pub fn of(&self, bio: &Bio) -> Option<IoKey> {
        let token = bio.token();
        let key = IoKey { index: token as u32, generation: (token >> 32) as u32 };
        let io = self.ios.get(key.index as usize)?;
        (io.generation == key.generation && io.out > 0).then_some(key)
    }

    /// Records that a bio has come back. Returns the I/O if this was its last bio.
    pub fn came_back(&mut self, bio: Bio) -> Option<IoKey> {
        let key = self.of(&bio)?;
        let io = &mut self.ios[key.index as usize];
        if let Err(fault) = status_of(&bio)
            && io.failed.is_none_or(|(_, pos)| bio.pos() < pos)
        {
            io.failed = Some((fault, bio.pos()));
        }
        io.out -= 1;
        let over = io.out == 0;
        self.keep(bio);
        over.then_some(key)
    }

    /// Keeps a bio for its next use. Drops its memory now; the list of segments stays.
    fn keep(&mut self, mut bio: Bio) {
        bio.reset(Op::Flush, 0, 0);
        if self.spare.len() < SPARE {
            self.spare.push(bio);
        }
    }

    /// Ends an I/O: its key is no longer live.
    pub fn end(&mut self, key: IoKey) {
        let io = self.get(key);
        io.generation = io.generation.wrapping_add(1);
        io.waiters.clear();
        self.free.push(key.index);
    }
}

/// The outcome of a bio that has come back. A transfer that its device calls complete and of which bytes are left has failed: the
/// rest of its memory was not filled, or was not written. Commands tell how much they have transferred.
fn status_of(bio: &Bio) -> Status {
    let is_short = matches!(bio.op(), Op::Read | Op::Write) && !bio.is_empty();
    bio.status().and(if is_short { Err(Fault::new(Kind::Short, Stage::Layer)) } else { Ok(()) })
}
