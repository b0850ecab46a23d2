//! The I/Os of a plan: operations, places near each other, flags, memory.

use super::super::feature::{Feature, Features};
use super::super::memory::Layout;
use super::{Io, Unsound, Way};
use platter_block::bio::{Class, Context, Flags, IoPrio, Op};
use platter_block::time::Span;
use platter_sim::rng::Rng;

/// Flags that make something durable.
const DURABLE: [Flags; 4] = [Flags::FUA, Flags::FUA, Flags::PREFLUSH, Flags::FUA.union(Flags::PREFLUSH)];

/// Flags that keep order.
const BARRIERS: [Flags; 5] = [
    Flags::SOFT_BARRIER,
    Flags::SOFT_BARRIER.union(Flags::FUA),
    Flags::HARD_BARRIER,
    Flags::HARD_BARRIER,
    Flags::HARD_BARRIER.union(Flags::FUA),
];

/// All other flags.
const PLAIN: [Flags; 3] = [Flags::SYNC, Flags::NOMERGE, Flags::READAHEAD];

/// Flags of runs that use only one kind of flag, so that no other flag masks a defect of it.
const SINGLE: [Flags; 4] = [Flags::FUA, Flags::PREFLUSH, Flags::HARD_BARRIER, Flags::SOFT_BARRIER];

/// Blocks that places are drawn from; a smaller device takes the remainder.
const BLOCKS: u64 = 256;

/// Draws I/Os at random places, near each other.
pub(super) struct Mix {
    on: Features,
    /// I/Os in a thousand that have flags, and the flags if they are always the same.
    flagged: u64,
    single: Option<Flags>,
    /// Blocks that places are drawn from.
    spread: u64,
    /// Where the last one ended.
    near: u64,
}

impl Mix {
    pub(super) fn new(rng: &mut Rng, on: Features) -> Mix {
        let flagged = rng.pick(&[700, 700, 300, 50]);
        let single = (rng.below(3) == 0).then(|| rng.pick(&SINGLE));
        let single = single.filter(|flags| {
            let order = flags.intersects(Flags::HARD_BARRIER | Flags::SOFT_BARRIER);
            on.has(if order { Feature::Barriers } else { Feature::Durable })
        });
        Mix { on, flagged, single, spread: rng.pick(&[8, 32, BLOCKS]), near: 0 }
    }

    fn op(&self, rng: &mut Rng) -> Op {
        match rng.below(20) {
            0..7 => Op::Read,
            7..16 => Op::Write,
            16 if self.on.has(Feature::Discards) => Op::Discard,
            17 if self.on.has(Feature::Discards) => Op::WriteZeroes,
            18..20 if self.single.is_none() && self.on.has(Feature::Durable) => Op::Flush,
            _ => Op::Write,
        }
    }

    fn flags(&self, rng: &mut Rng, op: Op) -> Flags {
        if rng.below(1000) >= self.flagged {
            return Flags::NONE;
        }
        let drawn = match (self.single, rng.below(10)) {
            (Some(single), _) => single,
            (None, 0..3) if self.on.has(Feature::Durable) => rng.pick(&DURABLE),
            (None, 3..6) if self.on.has(Feature::Barriers) => rng.pick(&BARRIERS),
            (None, 6..8) if self.on.has(Feature::Atomic) && op == Op::Write => Flags::ATOMIC,
            _ => rng.pick(&PLAIN),
        };
        if drawn == Flags::READAHEAD && op != Op::Read { Flags::NONE } else { drawn }
    }

    fn place(&mut self, rng: &mut Rng) -> (u64, u64) {
        let most = if rng.below(5) == 0 { 8 } else { 2 };
        let count = 1 + rng.below(most);
        let close = (self.near + rng.below(6)).saturating_sub(2);
        let at = if rng.below(2) == 0 { close } else { rng.below(self.spread) };
        self.near = at + count;
        (at, count)
    }

    fn layout(rng: &mut Rng) -> Layout {
        match rng.below(8) {
            0 => Layout::Odd,
            1 => Layout::Pieces(512),
            2 => Layout::Pieces(rng.pick(&[1024, 4096, 300])),
            3 => Layout::Split(rng.pick(&[300, 301, 512, 4096])),
            _ => Layout::Whole,
        }
    }

    /// The next I/O.
    pub(super) fn draw(&mut self, rng: &mut Rng, way: Way) -> Io {
        let op = self.op(rng);
        let flags = self.flags(rng, op);
        let (mut at, mut blocks) = self.place(rng);
        if op == Op::Flush && rng.below(2) == 0 {
            (at, blocks) = (0, 0);
        }
        if flags == Flags::ATOMIC {
            // Of a power of two, at a multiple of it.
            blocks = rng.pick(&[1, 2, 4]);
            at -= at % blocks;
        }
        let class = rng.pick(&[Class::None, Class::BestEffort, Class::RealTime, Class::Idle]);
        let deadline = (self.on.has(Feature::Deadlines) && rng.below(3) == 0).then(|| {
            rng.pick(&[Span::from_millis(5), Span::from_millis(50), Span::from_secs(1), Span::from_secs(45)])
        });
        let unsound = (self.on.has(Feature::Unsound) && op.has_data() && rng.below(12) == 0)
            .then(|| rng.pick(&[Unsound::Misplaced, Unsound::OutOfRange, Unsound::Empty]));
        let layout = Mix::layout(rng);
        Io {
            op,
            at,
            blocks,
            flags,
            deadline,
            layout,
            context: Context::new(1 + rng.below(4) as u32).thread(rng.below(2) as u32),
            ioprio: IoPrio::new(class, rng.below(8) as u8),
            handle: (rng.below(2) == 0).then(|| rng.bits() as u32),
            again: matches!(way, Way::Channel(_)) && rng.below(5) == 0,
            unsound,
            lent: false,
        }
    }
}
