//! The I/Os of a life.

use crate::stamp::{self, SECTOR};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_sim::oracle::Submission;
use platter_sim::rng::Rng;

/// The state of a bio in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) op: Op,
    pub(crate) sector: u64,
    pub(crate) count: u64,
    pub(crate) flags: Flags,
    pub(crate) form: Form,
}

/// How an I/O is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As an operation of its own.
    Io,
    /// As a SCSI command whose range is known.
    Command,
    /// As one that may do anything, as far as the cache knows.
    Unknown,
}

const FLAGS: [Flags; 9] = [
    Flags::SYNC,
    Flags::FUA,
    Flags::PREFLUSH,
    Flags::FUA.union(Flags::PREFLUSH),
    Flags::SOFT_BARRIER,
    Flags::SOFT_BARRIER,
    Flags::HARD_BARRIER,
    Flags::READAHEAD,
    Flags::NOMERGE,
];

/// Makes bios at random positions that are close to each other.
pub(crate) struct Workload {
    sectors: u64,
    /// Percentage of bios with flags, and the flags if they are always the same.
    flagged: u64,
    single: Option<Flags>,
    /// Percentage of operations other than reads and writes.
    others: u64,
    /// Percentage of reads and writes without flags that are commands.
    commands: u64,
    near: u64,
    next: u64,
}

impl Workload {
    pub(crate) fn new(rng: &mut Rng, sectors: u64) -> Workload {
        let single = (rng.below(3) == 0).then(|| rng.pick(&FLAGS));
        let (flagged, others) = (rng.pick(&[0, 5, 30]), rng.pick(&[2, 10, 30]));
        Workload { sectors, flagged, single, others, commands: 0, near: 0, next: 1 }
    }

    /// Makes this percentage of the reads and writes without flags commands.
    pub(crate) fn with_commands(self, commands: u64) -> Workload {
        Workload { commands, ..self }
    }

    fn place(&mut self, rng: &mut Rng) -> (u64, u64) {
        let most = rng.pick(&[1, 4, 8, 8, 24, 64]).min(self.sectors);
        let mut count = 1 + rng.below(most);
        let mut first = match rng.below(3) {
            0 => self.near,
            1 => (self.near + rng.below(24)).saturating_sub(12),
            _ => rng.below(self.sectors),
        };
        if rng.below(3) == 0 {
            (first, count) = (first / 8 * 8, count.div_ceil(8) * 8);
        }
        count = count.min(self.sectors);
        first = first.min(self.sectors - count);
        self.near = if first + count == self.sectors { 0 } else { first + count };
        (first, count)
    }

    pub(crate) fn next(&mut self, rng: &mut Rng) -> (Bio, Live) {
        let op = match rng.below(100) {
            at if at < self.others => {
                rng.pick(&[Op::Flush, Op::Flush, Op::Flush, Op::Discard, Op::WriteZeroes])
            }
            at if at % 2 == 0 => Op::Read,
            _ => Op::Write,
        };
        let mut flags = match rng.below(100) < self.flagged {
            true => self.single.unwrap_or(rng.pick(&FLAGS)),
            false => Flags::NONE,
        };
        if flags == Flags::READAHEAD && op != Op::Read {
            flags = Flags::NONE;
        }
        let (sector, count) = match op {
            Op::Flush if rng.below(2) == 0 => (0, 0),
            _ => self.place(rng),
        };
        let may_be_command = matches!(op, Op::Read | Op::Write) && flags == Flags::NONE && self.commands > 0;
        let form = match may_be_command && rng.below(100) < self.commands {
            true => rng.pick(&[Form::Command, Form::Command, Form::Command, Form::Unknown]),
            false => Form::Io,
        };
        self.make(Live { op, sector, count, flags, form })
    }

    /// A read of a range.
    pub(crate) fn read(&mut self, sector: u64, count: u64) -> (Bio, Live) {
        self.make(Live { op: Op::Read, sector, count, flags: Flags::NONE, form: Form::Io })
    }

    /// A flush of everything.
    pub(crate) fn flush(&mut self) -> (Bio, Live) {
        self.make(Live { op: Op::Flush, sector: 0, count: 0, flags: Flags::NONE, form: Form::Io })
    }

    /// A number for an operation that is not a bio.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn make(&mut self, live: Live) -> (Bio, Live) {
        let token = self.number();
        let (pos, bytes) = (live.sector * SECTOR as u64, live.count as usize * SECTOR);
        let mut bio = match live.op {
            op if live.form != Form::Io => {
                let data = match op {
                    Op::Read => vec![0xa5; bytes],
                    _ => stamp::sectors(token, live.sector, live.count),
                };
                Bio::with_command(command(&live, pos, bytes as u64), data).unwrap()
            }
            Op::Read => Bio::read(pos, vec![0xa5; bytes]).unwrap(),
            Op::Write => Bio::write(pos, stamp::sectors(token, live.sector, live.count)).unwrap(),
            op => Bio::new(op, pos, bytes as u64),
        };
        bio.set_token(token);
        bio.add_flags(live.flags);
        (bio, live)
    }
}

/// READ (10) or WRITE (10).
fn command(live: &Live, pos: u64, len: u64) -> Command {
    let (opcode, transfer, reach) = match live.op {
        Op::Read => (0x28, Transfer::FromDevice, Reach::Reads { pos, len }),
        _ => (0x2a, Transfer::ToDevice, Reach::Changes { pos, len }),
    };
    let ([a, b, c, d], [e, f]) = ((live.sector as u32).to_be_bytes(), (live.count as u16).to_be_bytes());
    let command = Command::new(CommandSet::Scsi, &[opcode, 0, a, b, c, d, 0, e, f, 0]).unwrap();
    let reach = if live.form == Form::Unknown { Reach::Everything } else { reach };
    command.with_transfer(transfer).with_reach(reach)
}

impl Live {
    /// The bio as passed to the oracle. The oracle does not know flushes of a range: these are checked
    /// separately.
    pub(crate) fn submission<'a>(&self, contents: &'a [u64]) -> Submission<'a> {
        let count = if self.op == Op::Flush { 0 } else { self.count };
        Submission {
            contents,
            fua: self.flags.contains(Flags::FUA),
            preflush: self.flags.contains(Flags::PREFLUSH),
            hard: self.flags.contains(Flags::HARD_BARRIER),
            ..Submission::new(self.op, self.sector, count)
        }
    }

    /// Whether it is a flush of a range.
    pub(crate) fn is_ranged(&self) -> bool {
        self.op == Op::Flush && self.count > 0
    }
}
