//! The I/Os of a run.

use super::setup::SECTORS;
use super::stamp::{self, SECTOR};
use platter_block::bio::{Bio, Class, Context, Flags, IoPrio, Op};
use platter_block::fault::Fault;
use platter_block::limits::Limits;
use platter_sim::oracle::Submission;
use platter_sim::rng::Rng;

/// What the run knows of a bio that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) op: Op,
    pub(super) sector: u64,
    pub(super) count: u64,
    pub(super) flags: Flags,
}

/// What may be asked of a bio beside its data, as often as each should come.
const FLAGS: [Flags; 11] = [
    Flags::SYNC,
    Flags::FUA,
    Flags::FUA,
    Flags::PREFLUSH,
    Flags::FUA.union(Flags::PREFLUSH),
    Flags::SOFT_BARRIER,
    Flags::SOFT_BARRIER.union(Flags::FUA),
    Flags::HARD_BARRIER,
    Flags::HARD_BARRIER,
    Flags::NOMERGE,
    Flags::READAHEAD,
];

/// Flags of runs in which only one thing is asked for, so that nothing else makes good what goes wrong with it.
const SINGLE: [Flags; 4] = [Flags::FUA, Flags::PREFLUSH, Flags::HARD_BARRIER, Flags::SOFT_BARRIER];

/// Makes bios at random places, near each other.
pub(super) struct Workload {
    /// Sectors of a block.
    block: u64,
    /// Alignment that the disk wants of memory.
    align: u32,
    discards: bool,
    zeroes: bool,
    /// Bios in a thousand that have flags, and the flags if they are always the same.
    flagged: u64,
    single: Option<Flags>,
    /// Where the last one ended.
    near: u64,
    next: u64,
}

impl Workload {
    pub(super) fn new(rng: &mut Rng, limits: &Limits) -> Workload {
        let block = u64::from(limits.logical_block) / SECTOR as u64;
        let (discards, zeroes) = (limits.discard_granularity != 0, limits.write_zeroes);
        let flagged = rng.pick(&[700, 700, 300, 50]);
        let single = (rng.below(3) == 0).then(|| rng.pick(&SINGLE));
        Workload { block, align: limits.memory_align, discards, zeroes, flagged, single, near: 0, next: 1 }
    }

    fn op(&self, rng: &mut Rng) -> Op {
        match rng.below(20) {
            0..7 => Op::Read,
            7..16 => Op::Write,
            16 if self.discards => Op::Discard,
            17 if self.zeroes => Op::WriteZeroes,
            18..20 if self.single.is_none() => Op::Flush,
            _ => Op::Write,
        }
    }

    fn place(&mut self, rng: &mut Rng) -> (u64, u64) {
        let blocks = SECTORS / self.block;
        let most = if rng.below(5) == 0 { 8 } else { 2 };
        let count = 1 + rng.below(most);
        let close = (self.near / self.block + rng.below(6)).saturating_sub(2);
        let first = if rng.below(2) == 0 { close } else { rng.below(blocks) }.min(blocks - count);
        self.near = (first + count) * self.block;
        (first * self.block, count * self.block)
    }

    /// The next bio, numbered by its token.
    pub(super) fn bio(&mut self, rng: &mut Rng) -> Result<(Bio, Live), Fault> {
        let op = self.op(rng);
        let mut flags = match rng.below(1000) < self.flagged {
            true => self.single.unwrap_or(rng.pick(&FLAGS)),
            false => Flags::NONE,
        };
        if flags == Flags::READAHEAD && op != Op::Read {
            flags = Flags::NONE;
        }
        let (sector, count) = if op == Op::Flush { (0, 0) } else { self.place(rng) };
        let live = Live { op, sector, count, flags };
        let token = self.next;
        self.next += 1;
        let mut bio = self.make(rng, &live, token)?;
        bio.set_token(token);
        bio.add_flags(flags);
        bio.set_context(Context::new(1 + rng.below(4) as u32).thread(rng.below(2) as u32));
        let class = rng.pick(&[Class::None, Class::BestEffort, Class::RealTime, Class::Idle]);
        bio.set_ioprio(IoPrio::new(class, rng.below(8) as u8));
        Ok((bio, live))
    }

    fn make(&self, rng: &mut Rng, live: &Live, token: u64) -> Result<Bio, Fault> {
        let (pos, bytes) = (live.sector * SECTOR as u64, live.count as usize * SECTOR);
        if !live.op.has_data() {
            return Ok(Bio::new(live.op, pos, bytes as u64));
        }
        let mut memory = vec![0xa5; bytes];
        if live.op == Op::Write {
            for (sector, piece) in (live.sector..).zip(memory.chunks_mut(SECTOR)) {
                stamp::fill(piece, token, sector);
            }
        }
        let parts = self.parts(rng.below(5), &memory);
        if live.op == Op::Write { Bio::write(pos, parts) } else { Bio::read(pos, parts) }
    }

    /// Memory in pieces. Which of them the disk can take is a matter of their lengths alone, since where the
    /// allocator puts them is not the seed's to decide: it keeps to 16 bytes, and no disk of the soak wants
    /// an alignment between that and a sector.
    fn parts(&self, shape: u64, memory: &[u8]) -> Vec<Vec<u8>> {
        let block = self.block as usize * SECTOR;
        let at = |odd: usize| vec![memory[..odd].to_vec(), memory[odd..].to_vec()];
        match shape {
            _ if self.align > 16 => at(301),
            0 => memory.chunks(block).map(<[u8]>::to_vec).collect(),
            1 => memory.chunks(2 * block).map(<[u8]>::to_vec).collect(),
            2 => at(300),
            3 => at(301),
            _ => vec![memory.to_vec()],
        }
    }

    /// A read of one range, to compare it.
    pub(super) fn read(&mut self, sector: u64, count: u64) -> Result<(Bio, Live), Fault> {
        let live = Live { op: Op::Read, sector, count, flags: Flags::NONE };
        let memory = self.parts(4, &vec![0xa5; count as usize * SECTOR]);
        let mut bio = Bio::read(sector * SECTOR as u64, memory)?;
        bio.set_token(self.next);
        self.next += 1;
        Ok((bio, live))
    }
}

impl Live {
    /// As the oracle gets it.
    pub(super) fn submission<'a>(&self, contents: &'a [u64]) -> Submission<'a> {
        Submission {
            contents,
            fua: self.flags.contains(Flags::FUA),
            preflush: self.flags.contains(Flags::PREFLUSH),
            hard: self.flags.contains(Flags::HARD_BARRIER),
            ..Submission::new(self.op, self.sector, self.count)
        }
    }
}

/// What a read brought, by sector.
pub(super) fn contents(bio: &mut Bio, sector: u64) -> Vec<u64> {
    let parts: Vec<Vec<u8>> = bio.take_buffer().unwrap_or_default();
    let memory = parts.concat();
    (sector..).zip(memory.chunks(SECTOR)).map(|(at, piece)| stamp::version_of(piece, at)).collect()
}
