//! The steps of a plan.

use super::super::feature::{Feature, Features};
use super::disk::ElevatorPlan;
use super::io::Mix;
use super::{Act, Way};
use platter_block::bio::Op;
use platter_block::hint::Hint;
use platter_block::queue::Ordered;
use platter_block::time::Span;
use platter_sim::fault::{Blow, Lands, Strike, TRANSIENT};
use platter_sim::rng::Rng;

/// A step with its frequency per thousand steps, if the run has its feature.
type Rare = (u64, Feature, fn(&mut Rng) -> Act);

/// Steps other than ordinary I/O.
const RARE: &[Rare] = &[
    (15, Feature::Neglect, |rng| Act::Neglect { channel: rng.bits() as u32, steps: 5 + rng.below(30) }),
    (40, Feature::Cancel, |rng| Act::Cancel(rng.bits() as u32)),
    (20, Feature::Switch, |rng| Act::Switch((rng.below(5) > 0).then(|| ElevatorPlan::new(rng)))),
    (15, Feature::Switch, parameter),
    (20, Feature::Durable, |_| Act::Acknowledge),
    (12, Feature::DropLanes, |rng| Act::DropChannel(rng.bits() as u32)),
    (12, Feature::DropLanes, |rng| Act::DropFuture(rng.bits() as u32)),
    (15, Feature::DropLanes, |_| Act::OpenChannel),
    (20, Feature::Handles, |_| Act::OpenHandle),
    (15, Feature::Handles, |rng| Act::CloseHandle(rng.bits() as u32)),
    (30, Feature::Handles, advice),
    (8, Feature::Reopen, |_| Act::Reopen),
];

/// A fault with its frequency per thousand steps, if the run has its feature.
type Rarely = (u64, Feature, fn(&mut Rng) -> Blow);

/// Steps that make the disks fail one after the other.
const STRIKES: &[Rarely] = &[
    (12, Feature::Spikes, |rng| Blow::Spike(rng.pick(&[Span::from_millis(50), Span::from_secs(40)]))),
    (20, Feature::Stuck, |rng| {
        let lands = rng.pick(&[Lands::Late, Lands::Late, Lands::Early]);
        Blow::Stuck(Span::from_secs(3600), lands)
    }),
    (20, Feature::Transient, |rng| Blow::Transient(rng.pick(&TRANSIENT))),
    (10, Feature::Errors, |_| Blow::Error),
];

fn parameter(rng: &mut Rng) -> Act {
    let row = &platter_elevators::TABLE[rng.below(platter_elevators::TABLE.len() as u64) as usize];
    if row.params.is_empty() {
        return Act::PollAll;
    }
    let param = row.params[rng.below(row.params.len() as u64) as usize];
    Act::Set(param.name, rng.pick(&[param.min, param.default, param.default.saturating_mul(2)]))
}

fn advice(rng: &mut Rng) -> Act {
    let hints = [Hint::WillNeed, Hint::DontNeed, Hint::NoReuse, Hint::Normal, Hint::Sequential, Hint::Random];
    let hint = rng.pick(&hints);
    Act::Advise { handle: rng.bits() as u32, hint, at: rng.below(256), blocks: rng.below(9) }
}

fn cut(rng: &mut Rng) -> Act {
    let survivors = rng.bits();
    let after = match rng.below(4) {
        0 => Err(Span(rng.below(50_000_000))),
        _ => Ok(rng.below(60)),
    };
    Act::Cut { survivors, after }
}

fn strike(rng: &mut Rng, blow: Blow, disks: u32) -> Act {
    let op = match rng.below(8) {
        0..4 => Some(Op::Write),
        4 => Some(Op::Read),
        // Errors of flushes are a separate feature.
        5 if blow != Blow::Error => Some(Op::Flush),
        6 if blow != Blow::Error => None,
        _ => Some(Op::Write),
    };
    Act::Strike(rng.below(disks.into()) as u32, Strike { op, blow })
}

/// Draws what is done in one step.
struct Draw {
    on: Features,
    disks: u32,
    mix: Mix,
    calls: u64,
    futures: u64,
    holds: bool,
}

impl Draw {
    fn way(&self, rng: &mut Rng) -> Way {
        let drawn = rng.below(100);
        if drawn < self.calls {
            Way::Call
        } else if drawn < self.calls + self.futures {
            Way::Future
        } else {
            Way::Channel(rng.bits() as u32)
        }
    }

    fn submit(&mut self, rng: &mut Rng) -> Act {
        let way = self.way(rng);
        let count = if way == Way::Call { 1 } else { 1 + rng.below(4) };
        let ios = (0..count).map(|_| self.mix.draw(rng, way)).collect();
        Act::Submit { way, ios, hold: self.holds && rng.below(4) == 0 }
    }

    fn act(&mut self, rng: &mut Rng) -> Act {
        let mut drawn = rng.below(1000);
        for &(chance, feature, act) in RARE {
            if drawn < chance {
                return if self.on.has(feature) { act(rng) } else { self.daily(rng) };
            }
            drawn -= chance;
        }
        for &(chance, feature, blow) in STRIKES {
            if drawn < chance {
                let blow = blow(rng);
                return if self.on.has(feature) { strike(rng, blow, self.disks) } else { self.daily(rng) };
            }
            drawn -= chance;
        }
        if drawn < 15 && self.on.has(Feature::Cuts) {
            return cut(rng);
        }
        self.daily(rng)
    }

    fn daily(&mut self, rng: &mut Rng) -> Act {
        match rng.below(100) {
            0..52 => self.submit(rng),
            52..62 => Act::Poll(rng.bits() as u32),
            62..74 => Act::PollAll,
            74..92 => Act::Pass,
            92..95 => {
                let most = rng.pick(&[20_000_000, 20_000_000, 2_000_000_000, 50_000_000_000]);
                Act::Jump(Span(rng.below(most)))
            }
            95..97 if self.on.has(Feature::Stuck) => Act::Release(rng.bits() as u32),
            97 => Act::Verify,
            _ => Act::Settle,
        }
    }
}

pub(super) fn draw(rng: &mut Rng, on: Features, disks: u32) -> Vec<Act> {
    let share = |rng: &mut Rng, feature| if on.has(feature) { rng.pick(&[10, 30, 60]) } else { 0 };
    let (calls, futures) = (share(rng, Feature::Calls), share(rng, Feature::Futures) / 2);
    let mix = Mix::new(rng, on);
    let mut draw = Draw { on, disks, mix, calls, futures, holds: rng.below(3) == 0 };
    let count = 30 + rng.below(90);
    let mut acts: Vec<Act> = (0..count).map(|_| draw.act(rng)).collect();
    if on.has(Feature::Cuts) {
        acts.insert(0, cut(rng));
    }
    acts
}

/// Puts switches of the order of barriers between the steps of a plan.
pub(super) fn add_orders(rng: &mut Rng, acts: &mut Vec<Act>) {
    for _ in 0..1 + rng.below(6) {
        let at = rng.below(acts.len() as u64 + 1) as usize;
        acts.insert(at, Act::Order(rng.pick(&[Ordered::Drain, Ordered::Tag])));
    }
}

/// Puts changes of the sizes of disks between the steps of a plan.
pub(super) fn add_resizes(rng: &mut Rng, acts: &mut Vec<Act>, disks: u32) {
    for _ in 0..1 + rng.below(3) {
        let disk = rng.below(disks.into()) as u32;
        let mut some = Vec::new();
        if rng.below(4) == 0 {
            some.extend([Act::Remove(disk), Act::Return(disk)]);
        } else {
            some.push(Act::Resize { disk, keep: rng.below(256) });
            if rng.below(3) == 0 {
                some.push(Act::Refresh);
            }
            if rng.below(4) > 0 {
                let part = rng.below(256);
                some.push(Act::Resize { disk, keep: rng.pick(&[256, 256, part]) });
            }
        }
        if rng.below(2) == 0 {
            some.push(Act::Refresh);
        }
        let mut at = rng.below(acts.len() as u64 + 1) as usize;
        for act in some {
            acts.insert(at, act);
            at = (at + 1 + rng.below(20) as usize).min(acts.len());
        }
    }
}
