//! Arrays whose members describe themselves: the records on members, and the rules for assembling an array
//! from devices.
//!
//! This module does no I/O: bytes in, decisions out. The caller reads the two slots of each device
//! ([`SLOTS`]) and carries out [`Step`]s in their order.
//!
//! A member has room for two [`Record`]s of [`RECORD_BYTES`] each before its data. Each change of the array
//! goes through all members twice. First every member gets a record of [`Phase::Prepared`] in the slot that
//! holds the older of its two records. When all of these are durable, every member gets a record of
//! [`Phase::Committed`] in the other slot. No record of the old state is overwritten before the new state is
//! prepared everywhere, so a power cut between any two writes, or during one, leaves either the old state or
//! the new one.
//!
//! The sequence number grows by one with each phase, also each time the array is opened for writing. A change
//! that was interrupted is brought to the members that it has not reached before the next one begins, so members
//! differ by one at most, however many changes in a row are interrupted. A member that missed a change (for
//! example an old copy) is behind by two or more, and is refused.

mod assembly;
mod plan;
mod record;

pub use assembly::{Array, Candidate, Problem, Select, assemble};
pub use plan::{NewArray, Step, commit_plan, create_plan, wipe_plan};
pub use record::{Damage, Layout, MAX_LISTED, Phase, RECORD_BYTES, Record, SLOTS, Slots, Uuid};

#[cfg(test)]
mod tests;
