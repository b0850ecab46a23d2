//! The threads of the test in virtual time: they issue requests of SysBench through the file system on the machine.

use super::journal::{Extent, Journal, Step};
use super::layout::{BLOCK, Layout};
use super::machine::{Kernel, Machine};
use crate::ReproError;
use platter_bench::fileio::Plan;
use platter_bench::fileio::requests::{Request, Requests};
use platter_bench::load::{Load, Pause, Work};
use platter_block::bio::{Bio, Context, Op};
use platter_block::handle::HandleCounters;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::handle::Handle;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// The journal's own thread, for elevators.
const KJOURNALD: Context = Context::new(2);
/// Token of I/Os of the journal.
const JOURNAL_IO: u64 = u64::MAX;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Virtual time.
    pub(super) time: Span,
    /// The counters of the cache.
    pub(super) cache: HandleCounters,
    /// Requests to the disk, and their bytes.
    pub(super) dispatched: u64,
    pub(super) bytes: u64,
    /// Indirect blocks that were read.
    pub(super) indirect: u64,
    pub(super) commits: u64,
    pub(super) log_blocks: u64,
}

/// Share of the reads of the disk that are of one page.
pub(super) fn single(outcome: &Outcome) -> f64 {
    let reads: u64 = outcome.cache.reads.iter().sum();
    outcome.cache.reads[0] as f64 / reads.max(1) as f64
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Reads an indirect block, to continue with a request.
    Index(Request),
    /// Data of a request.
    Data(Request),
    /// The data of a file, for an `fsync`.
    Writing(u32),
    /// The inode of a file, for an `fsync` without a journal.
    Inode,
    /// A commit.
    Commit,
    /// The thread has finished.
    Over,
}

struct Crew<'a> {
    layout: Layout,
    handles: &'a [Handle],
    cache: Channel,
    disk: Channel,
    requests: Requests,
    journal: Journal,
    journals: bool,
    doing: Vec<Doing>,
    /// For each thread one bio for reads and one for writes, unless it is in flight.
    idle: Vec<[Option<Bio>; 2]>,
    block: u64,
    /// Indirect blocks in memory, and those that are being read with the threads that wait.
    known: BTreeSet<u64>,
    coming: BTreeMap<u64, Vec<u32>>,
}

/// Runs a plan on a machine.
pub(super) fn run(
    machine: &Machine,
    plan: &Plan,
    kernel: &Kernel,
    cancel: &AtomicBool,
) -> Result<Outcome, ReproError> {
    let stack = |error: platter_block::fault::Error| ReproError::Stack(error.to_string());
    let handles: Vec<Handle> = (0..plan.files).map(|_| machine.cache.handle()).collect();
    let threads = plan.threads as usize;
    let mut crew = Crew {
        layout: Layout::new(plan.file_size()),
        handles: &handles,
        cache: machine.cache.channel(threads + 256).map_err(stack)?,
        disk: machine.disk.channel(threads + 16).map_err(stack)?,
        requests: Requests::new(plan),
        journal: Journal::new(plan.files),
        journals: kernel.journal,
        doing: vec![Doing::Over; threads],
        idle: (0..threads).map(|_| [const { None }; 2]).collect(),
        block: plan.block,
        known: BTreeSet::new(),
        coming: BTreeMap::new(),
    };
    let channel = machine.cache.channel(1).map_err(stack)?;
    Preparation::new(channel, plan, kernel.pages()).run(Load::new(machine.disk.clock(), 1, 0))?;
    let mut load = Load::new(machine.disk.clock(), 1, 0);
    let begin = load.now();
    for thread in 0..plan.threads {
        crew.next(thread)?;
    }
    load.settle(&mut crew, 0)?;
    if load.run_unless(&mut crew, Time(u64::MAX), cancel)? {
        return Err(ReproError::Interrupted);
    }
    let counters = machine.disk.counters();
    Ok(Outcome {
        time: load.now().since(begin),
        cache: crew.counters(),
        dispatched: counters.dispatches,
        bytes: counters.bytes_read + counters.bytes_written,
        indirect: crew.known.len() as u64,
        commits: crew.journal.commits,
        log_blocks: crew.journal.blocks,
    })
}

fn context(thread: u32) -> Context {
    Context::new(1).thread(thread)
}

impl Crew<'_> {
    /// The cache's counters for the files.
    fn counters(&self) -> HandleCounters {
        let mut sum = HandleCounters::default();
        self.handles.iter().filter_map(Handle::counters).for_each(|counters| sum.merge(&counters));
        sum
    }

    /// A thread takes its next request.
    fn next(&mut self, thread: u32) -> Result<(), ReproError> {
        match self.requests.next(thread) {
            None => {
                self.doing[thread as usize] = Doing::Over;
                Ok(())
            }
            Some(Request::Sync { file }) => self.sync(thread, file),
            Some(request) => self.look_up(thread, request),
        }
    }

    /// Continues with a request once the blocks with the position of its data are in memory.
    fn look_up(&mut self, thread: u32, request: Request) -> Result<(), ReproError> {
        let (Request::Read { file, pos } | Request::Write { file, pos }) = request else { return Ok(()) };
        let missing = self.layout.index(file, pos / BLOCK).find(|block| !self.known.contains(block));
        let Some(block) = missing else { return self.start(thread, request) };
        self.doing[thread as usize] = Doing::Index(request);
        if let Some(threads) = self.coming.get_mut(&block) {
            threads.push(thread);
            return Ok(());
        }
        self.coming.insert(block, vec![thread]);
        let mut bio = Bio::read(block * BLOCK, vec![0u8; BLOCK as usize]).map_err(fault)?;
        bio.set_token(block);
        bio.set_context(context(thread));
        send(&mut self.disk, bio)
    }

    fn start(&mut self, thread: u32, request: Request) -> Result<(), ReproError> {
        let (file, pos, op) = match request {
            Request::Read { file, pos } => (file, pos, Op::Read),
            Request::Write { file, pos } => (file, pos, Op::Write),
            Request::Sync { .. } => return Ok(()),
        };
        self.doing[thread as usize] = Doing::Data(request);
        let place = self.layout.data(file, pos / BLOCK) * BLOCK;
        let idle = &mut self.idle[thread as usize][usize::from(op == Op::Write)];
        let mut bio = match (idle.take(), op) {
            (Some(mut bio), _) => {
                bio.rewind(place, self.block);
                bio
            }
            (None, Op::Read) => Bio::read(place, vec![0u8; self.block as usize]).map_err(fault)?,
            (None, _) => Bio::write(place, vec![1u8; self.block as usize]).map_err(fault)?,
        };
        bio.set_token(thread.into());
        bio.set_context(context(thread));
        bio.set_handle(self.handles[file as usize].id());
        send(&mut self.cache, bio)
    }

    /// An `fsync`: first writes the dirty data of the file itself.
    fn sync(&mut self, thread: u32, file: u32) -> Result<(), ReproError> {
        self.doing[thread as usize] = Doing::Writing(file);
        let mut bio = Bio::new(Op::Flush, self.layout.first(file) * BLOCK, self.layout.span() * BLOCK);
        bio.set_token(thread.into());
        bio.set_context(context(thread));
        bio.set_handle(self.handles[file as usize].id());
        send(&mut self.cache, bio)
    }

    /// Writes the block of inodes that has a file's, as ext2 does.
    fn write_inode(&mut self, thread: u32, file: u32) -> Result<(), ReproError> {
        self.doing[thread as usize] = Doing::Inode;
        let pos = u64::from(Layout::inode_block(file)) * BLOCK;
        let mut bio = Bio::write(pos, vec![0u8; BLOCK as usize]).map_err(fault)?;
        bio.set_token(thread.into());
        bio.set_context(context(thread));
        send(&mut self.disk, bio)
    }

    /// The bio that a thread waited for has completed.
    fn landed(&mut self, now: Time, thread: u32, bio: Bio) -> Result<(), ReproError> {
        match self.doing[thread as usize] {
            Doing::Data(request) => {
                let (Request::Read { file, .. } | Request::Write { file, .. }) = request else {
                    return Ok(());
                };
                self.journal.touch(file, now);
                if bio.op() == Op::Write && self.journals {
                    self.journal.wrote(Extent { pos: bio.pos() - bio.done(), len: self.block });
                }
                let kind = usize::from(bio.op() == Op::Write);
                self.idle[thread as usize][kind] = Some(bio);
                self.next(thread)
            }
            Doing::Writing(file) => {
                if !self.journal.take_dirty(file) {
                    return self.next(thread);
                }
                if !self.journals {
                    return self.write_inode(thread, file);
                }
                self.doing[thread as usize] = Doing::Commit;
                match self.journal.force(thread) {
                    true => self.commit(),
                    false => Ok(()),
                }
            }
            Doing::Inode => self.next(thread),
            Doing::Index(_) | Doing::Commit | Doing::Over => Ok(()),
        }
    }

    /// An indirect block has arrived.
    fn indexed(&mut self, block: u64) -> Result<(), ReproError> {
        self.known.insert(block);
        for thread in self.coming.remove(&block).unwrap_or_default() {
            if let Doing::Index(request) = self.doing[thread as usize] {
                self.look_up(thread, request)?;
            }
        }
        Ok(())
    }

    /// Advances the commit as far as possible.
    fn commit(&mut self) -> Result<(), ReproError> {
        while let Some(step) = self.journal.step() {
            match step {
                Step::Data(Extent { pos, len }) => {
                    let mut bio = Bio::new(Op::Flush, pos, len);
                    bio.set_token(JOURNAL_IO);
                    bio.set_context(KJOURNALD);
                    send(&mut self.cache, bio)?;
                }
                Step::Log(Extent { pos, len }) => {
                    let mut bio = Bio::write(pos, vec![0u8; len as usize]).map_err(fault)?;
                    bio.set_token(JOURNAL_IO);
                    bio.set_context(KJOURNALD);
                    send(&mut self.disk, bio)?;
                }
                Step::Done => {
                    let (threads, _) = self.journal.finish();
                    for thread in threads {
                        self.next(thread)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Work for Crew<'_> {
    type Error = ReproError;

    /// Both channels lead to the same disk.
    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        [&mut self.cache, &mut self.disk].into_iter()
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), ReproError> {
        for bio in done.drain(..) {
            bio.status().map_err(fault)?;
            match (bio.token(), bio.op()) {
                (JOURNAL_IO, _) => {
                    self.journal.landed();
                    self.commit()?;
                }
                (thread, _) if (thread as usize) < self.doing.len() => {
                    self.landed(load.now(), thread as u32, bio)?;
                }
                (block, _) => self.indexed(block)?,
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.doing.iter().all(|doing| *doing == Doing::Over)
    }
}

/// Reads the end of the files into the cache: the files have just been written, so it is in memory.
struct Preparation {
    cache: Channel,
    layout: Layout,
    /// Blocks that are to be read.
    left: Range<u64>,
}

/// Blocks of one read of the preparation.
const PREPARED: u64 = 32;

impl Preparation {
    fn new(cache: Channel, plan: &Plan, memory: u64) -> Preparation {
        let blocks = plan.total_size / BLOCK;
        let first = (blocks - (memory / BLOCK).min(blocks)).next_multiple_of(PREPARED);
        Preparation { cache, layout: Layout::new(plan.file_size()), left: first..blocks }
    }

    fn run(mut self, mut load: Load) -> Result<(), ReproError> {
        self.read(Bio::read(0, vec![0u8; (PREPARED * BLOCK) as usize]).map_err(fault)?)?;
        load.settle(&mut self, 0)?;
        while load.run(&mut self, Time(u64::MAX))? == Pause::Events {}
        Ok(())
    }

    fn read(&mut self, mut bio: Bio) -> Result<(), ReproError> {
        let Some(at) = self.left.clone().next() else { return Ok(()) };
        self.left.start += PREPARED;
        let (file, block) = ((at / self.layout.blocks()) as u32, at % self.layout.blocks());
        bio.rewind(self.layout.data(file, block) * BLOCK, PREPARED * BLOCK);
        send(&mut self.cache, bio)
    }
}

impl Work for Preparation {
    type Error = ReproError;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.cache)
    }

    fn completed(&mut self, _load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), ReproError> {
        for bio in done.drain(..) {
            bio.status().map_err(fault)?;
            self.read(bio)?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.cache.outstanding() == 0
    }
}

fn send(channel: &mut Channel, bio: Bio) -> Result<(), ReproError> {
    channel
        .submit(bio)
        .map_err(|_| ReproError::Stack("more I/Os at once than the model has room for".to_owned()))
}

fn fault(fault: platter_block::fault::Fault) -> ReproError {
    ReproError::Stack(fault.to_string())
}
