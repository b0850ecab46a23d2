//! Faults of a transport and of the unit behind it: which command meets one is a function of the seed.

use super::rng::Rng;
use crate::cdb;
use crate::sense::{Failure, Key};
use crate::unit::Status;
use platter_block::time::{Span, Time};
use std::ops::Range;

/// A chance in parts of a million.
pub type Ppm = u32;

/// The faults that commands meet on their way to a unit, and how often. The default is none.
///
/// All chances are per command of the medium; INQUIRY, REPORT LUNS and REQUEST SENSE meet none. If several are drawn for one
/// command, the first in the order of the fields is the one that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Makes ports with the same plan differ.
    pub seed: u64,
    /// The status is BUSY.
    pub busy: Ppm,
    /// The status is TASK SET FULL.
    pub full: Ppm,
    /// The status is RESERVATION CONFLICT.
    pub conflict: Ppm,
    /// UNIT ATTENTION, BUS DEVICE RESET FUNCTION OCCURRED.
    pub attention: Ppm,
    /// NOT READY, LOGICAL UNIT IS IN PROCESS OF BECOMING READY, for this command and those that follow within
    /// [`not_ready_for`](FaultPlan::not_ready_for).
    pub not_ready: Ppm,
    /// How long the unit is not ready.
    pub not_ready_for: Span,
    /// MEDIUM ERROR of a read or write, at its first block.
    pub medium: Ppm,
    /// ABORTED COMMAND, which says that the transport has damaged it.
    pub aborted: Ppm,
    /// The command does not arrive.
    pub lost: Ppm,
    /// The command is carried out, and its response does not arrive.
    pub unanswered: Ppm,
    /// A reset of the bus ends all commands that are in flight, without responses: a part of them has been carried out.
    pub reset: Ppm,
    /// The port cannot reach the unit from this time on, for so long or for ever: commands are not delivered, and the port
    /// knows that at once.
    pub away: Option<(Time, Option<Span>)>,
    /// The port of the target and the others of its group are in standby from this time on, for so long or for ever, and
    /// then have the access of [`Options::access`](super::Options::access). It needs a port of the target.
    pub standby: Option<(Time, Option<Span>)>,
    /// Bytes of the medium of which reads and writes fail with MEDIUM ERROR; the information is the first bad block.
    pub bad: Option<Range<u64>>,
}

impl Default for FaultPlan {
    fn default() -> FaultPlan {
        FaultPlan {
            seed: 0,
            busy: 0,
            full: 0,
            conflict: 0,
            attention: 0,
            not_ready: 0,
            not_ready_for: Span::from_millis(500),
            medium: 0,
            aborted: 0,
            lost: 0,
            unanswered: 0,
            reset: 0,
            away: None,
            standby: None,
            bad: None,
        }
    }
}

impl FaultPlan {
    /// Whether commands may be lost without the unit's knowledge, so that it cannot keep their order.
    pub fn loses_order(&self) -> bool {
        self.lost > 0 || self.unanswered > 0
    }
}

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing.
    Arrives,
    /// The unit answers so, and does nothing.
    Status(Status),
    /// The unit refuses it so.
    Sense(Failure),
    /// It does not arrive.
    Lost,
    /// It arrives, its response does not.
    Unanswered,
    /// The bus is reset; it does not arrive.
    Reset,
    /// There is no way to the unit.
    Away,
}

/// Whether it is the time of a fault that lasts.
fn is_within(fault: Option<(Time, Option<Span>)>, now: Time) -> bool {
    fault.is_some_and(|(from, lasts)| now >= from && lasts.is_none_or(|lasts| now < from + lasts))
}

/// The faults of a port, as they happen.
pub(super) struct Faults {
    plan: FaultPlan,
    rng: Rng,
    unready_until: Time,
    block: u64,
}

/// LOGICAL UNIT IS IN PROCESS OF BECOMING READY.
const BECOMING_READY: Failure = Failure::new(Key::NOT_READY, 0x04, 0x01);
/// INFORMATION UNIT iuCRC ERROR DETECTED.
const DAMAGED: Failure = Failure::new(Key::ABORTED_COMMAND, 0x47, 0x03);
/// BUS DEVICE RESET FUNCTION OCCURRED.
const RESET_OCCURRED: Failure = Failure::new(Key::UNIT_ATTENTION, 0x29, 0x03);

impl Faults {
    pub(super) fn new(plan: FaultPlan, block: u64) -> Faults {
        Faults { rng: Rng::new(plan.seed), plan, unready_until: Time(0), block }
    }

    pub(super) fn set_plan(&mut self, plan: FaultPlan) {
        self.unready_until = Time(0);
        self.rng = Rng::new(plan.seed);
        self.plan = plan;
    }

    /// Whether the port of the target is in standby; `None`: that is not planned.
    pub(super) fn is_standby(&self, now: Time) -> Option<bool> {
        self.plan.standby.map(|standby| is_within(Some(standby), now))
    }

    /// Draws the fate of a command. `range` are the bytes that it reads or writes; none: it transfers nothing.
    pub(super) fn draw(&mut self, now: Time, opcode: u8, range: Option<(u64, u64)>) -> Fate {
        if is_within(self.plan.away, now) {
            return Fate::Away;
        }
        const UNTOUCHED: [u8; 3] = [cdb::INQUIRY.opcode, cdb::REPORT_LUNS.opcode, cdb::REQUEST_SENSE.opcode];
        if UNTOUCHED.contains(&opcode) {
            return Fate::Arrives;
        }
        if now < self.unready_until {
            return Fate::Sense(BECOMING_READY);
        }
        let (plan, rng) = (&self.plan, &mut self.rng);
        if rng.chance(plan.busy) {
            return Fate::Status(Status::Busy);
        }
        if rng.chance(plan.full) {
            return Fate::Status(Status::TaskSetFull);
        }
        if rng.chance(plan.conflict) {
            return Fate::Status(Status::ReservationConflict);
        }
        if rng.chance(plan.attention) {
            return Fate::Sense(RESET_OCCURRED);
        }
        if rng.chance(plan.not_ready) {
            self.unready_until = now + plan.not_ready_for;
            return Fate::Sense(BECOMING_READY);
        }
        if let Some((from, _)) = range
            && rng.chance(plan.medium)
        {
            return Fate::Sense(medium_error(opcode, from / self.block));
        }
        if rng.chance(plan.aborted) {
            return Fate::Sense(DAMAGED);
        }
        if rng.chance(plan.lost) {
            return Fate::Lost;
        }
        if rng.chance(plan.unanswered) {
            return Fate::Unanswered;
        }
        if rng.chance(plan.reset) {
            return Fate::Reset;
        }
        match (&plan.bad, range) {
            (Some(bad), Some((from, end))) if from < bad.end && bad.start < end => {
                Fate::Sense(medium_error(opcode, from.max(bad.start) / self.block))
            }
            _ => Fate::Arrives,
        }
    }
}

/// UNRECOVERED READ ERROR, or WRITE ERROR, at a block.
fn medium_error(opcode: u8, block: u64) -> Failure {
    const READS: [u8; 4] =
        [cdb::READ_6.opcode, cdb::READ_10.opcode, cdb::READ_12.opcode, cdb::READ_16.opcode];
    let asc = if READS.contains(&opcode) { 0x11 } else { 0x0c };
    Failure::new(Key::MEDIUM_ERROR, asc, 0).with_information(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn fates(plan: &FaultPlan) -> Vec<Fate> {
        let mut faults = Faults::new(plan.clone(), 512);
        (0..2000).map(|at| faults.draw(Time(at), cdb::WRITE_10.opcode, Some((4096, 8192)))).collect()
    }

    #[test]
    fn fates_follow_from_the_seed_and_the_chances() {
        let plan = FaultPlan { busy: 100_000, reset: 100_000, seed: 5, ..FaultPlan::default() };
        let all = fates(&plan);
        assert_eq!(all, fates(&plan));
        assert_ne!(all, fates(&FaultPlan { seed: 6, ..plan }));
        let count = |fate: Fate| all.iter().filter(|one| **one == fate).count();
        assert!((130..270).contains(&count(Fate::Status(Status::Busy))));
        assert!((110..250).contains(&count(Fate::Reset)));
        assert_eq!(fates(&FaultPlan::default()), [Fate::Arrives; 2000]);
    }

    #[test]
    fn a_bad_range_names_its_first_block_and_a_unit_is_not_ready_for_a_while() {
        let plan = FaultPlan { bad: Some(5000..6000), ..FaultPlan::default() };
        let mut faults = Faults::new(plan, 512);
        let read = cdb::READ_10.opcode;
        let at = |fate| match fate {
            Fate::Sense(failure) => (failure.code, failure.information),
            other => panic!("{other:?}"),
        };
        assert_eq!(at(faults.draw(Time(0), read, Some((4096, 8192)))), ((0x11, 0), Some(9)));
        assert_eq!(at(faults.draw(Time(0), cdb::WRITE_16.opcode, Some((5632, 8192)))), ((0x0c, 0), Some(11)));
        assert_eq!(faults.draw(Time(0), read, Some((6000, 8192))), Fate::Arrives);
        faults.set_plan(FaultPlan { not_ready: 1_000_000, ..FaultPlan::default() });
        assert_eq!(at(faults.draw(Time(10), read, None)).0, (4, 1));
        assert_eq!(faults.draw(Time(10), cdb::INQUIRY.opcode, None), Fate::Arrives);
        faults.plan.not_ready = 0;
        assert_eq!(at(faults.draw(Time(11), read, None)).0, (4, 1));
        assert_eq!(faults.draw(Time(10) + Span::from_millis(500), read, None), Fate::Arrives);
    }
}
