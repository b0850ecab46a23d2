//! Arrays whose members describe them: what members carry, and the rules by which an array is found among devices.
//!
//! Pure: bytes in, decisions out. Whoever holds the devices reads the two slots of each
//! ([`SLOTS`]) and carries out [`Step`]s in their order.
//!
//! A member has room for two [`Record`]s, of [`RECORD_BYTES`] each, before its data. Each change of the array goes
//! through all members twice. First every member gets a record of [`Phase::Prepared`] in the slot that holds the
//! older of its two; when all of these are durable, every member gets one of [`Phase::Committed`] in the other slot.
//! No record of the old state is overwritten before the new one is prepared everywhere, so a cut between any two
//! writes, or inside one, leaves the old state or the new.
//!
//! The sequence number grows by one with each phase, also each time the array is opened for writing. A member
//! that was left out of a change, as a copy from yesterday was, is therefore two or more behind and is refused.

mod assembly;
pub mod md;
mod plan;
mod record;

pub use assembly::{Array, Candidate, Problem, Select, assemble};
pub use plan::{NewArray, Step, commit_plan, create_plan, wipe_plan};
pub use record::{Damage, Layout, MAX_LISTED, Phase, RECORD_BYTES, Record, SLOTS, Slots, Uuid};

#[cfg(test)]
mod tests;
