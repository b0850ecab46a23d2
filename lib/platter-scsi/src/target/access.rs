//! Asymmetric access to the unit by its target ports (ALUA; SPC-4, 5.15): ports in groups, each with an access state.
//!
//! The states are changed by the owner of the target only (implicit ALUA), never by initiators.

use super::{COMMANDS, Handler, Nexus, Outcome, Target, TaskId};
use crate::cdb::{self, Cdb, Command};
use crate::sense::{Failure, Key};
use crate::unit::{Plan, field, invalid, within};
use alloc::vec;
use alloc::vec::Vec;

pub(super) const HANDLERS: &[(&Command, Handler)] =
    &[(&cdb::INQUIRY, inquiry), (&cdb::REPORT_TARGET_PORT_GROUPS, report_groups)];

/// The commands of a target with groups.
pub(super) const WITH_GROUPS: &[&Command] = &{
    let mut all = [&cdb::REPORT_TARGET_PORT_GROUPS; COMMANDS.len() + 1];
    let mut at = 0;
    while at < COMMANDS.len() {
        all[at] = COMMANDS[at];
        at += 1;
    }
    all
};

const STATE_CHANGED: (u8, u8) = (0x2a, 0x06);

/// A port of the target, by which initiators reach the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetPort {
    /// RELATIVE TARGET PORT IDENTIFIER.
    pub identifier: u16,
    /// TARGET PORT GROUP.
    pub group: u16,
}

/// How the unit is reached by the ports of a group (ASYMMETRIC ACCESS STATE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessState {
    /// Every command, as fast as it can be.
    #[default]
    Optimized,
    /// Every command, more slowly.
    NonOptimized,
    /// Only commands that need no access to the medium.
    Standby,
    /// Only commands that tell the ports and units that there are.
    Unavailable,
}

impl AccessState {
    /// All states, in the order of preference.
    pub const ALL: [AccessState; 4] =
        [AccessState::Optimized, AccessState::NonOptimized, AccessState::Standby, AccessState::Unavailable];

    /// The number of the standard.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The name of the standard, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            AccessState::Optimized => "active/optimized",
            AccessState::NonOptimized => "active/non-optimized",
            AccessState::Standby => "standby",
            AccessState::Unavailable => "unavailable",
        }
    }
}

impl Target {
    /// The ports of a group reach the unit in this way from now on. Initiators of all groups get a unit attention.
    pub fn set_access(&mut self, group: u16, state: AccessState) {
        if self.groups.insert(group, state).is_some_and(|before| before != state) {
            self.attend_all(STATE_CHANGED, None);
        }
    }

    /// How a nexus reaches the unit.
    pub fn access(&self, nexus: Nexus) -> AccessState {
        let port = self.ports.get(&nexus).and_then(|port| port.through);
        port.and_then(|port| self.groups.get(&port.group)).copied().unwrap_or_default()
    }

    /// Why a command is refused by the port at which it arrives. `uses_medium`: whether it has steps on the device, or asks
    /// whether it could have.
    pub(super) fn inaccessible(&self, nexus: Nexus, cdb: &Cdb, uses_medium: bool) -> Option<Failure> {
        let always = [&cdb::INQUIRY, &cdb::REPORT_LUNS, &cdb::REQUEST_SENSE, &cdb::REPORT_TARGET_PORT_GROUPS];
        let refused = |qualifier| Some(Failure::new(Key::NOT_READY, 0x04, qualifier));
        match self.access(nexus) {
            AccessState::Optimized | AccessState::NonOptimized => None,
            AccessState::Standby => {
                if uses_medium {
                    refused(0x0b)
                } else {
                    None
                }
            }
            AccessState::Unavailable => {
                if always.contains(&cdb.command()) {
                    None
                } else {
                    refused(0x0c)
                }
            }
        }
    }
}

/// INQUIRY, with what tells of the port at which it arrives.
fn inquiry(
    target: &mut Target,
    (id, nexus): (TaskId, Nexus),
    cdb: &Cdb,
    _: &[u8],
) -> Result<Outcome, Failure> {
    let whole = cdb.with("ALLOCATION LENGTH", u64::from(u16::MAX));
    let Plan::Done(mut response) = target.unit.plan(whole.bytes(), &[]) else {
        return Ok(Outcome::Run(id, Vec::new()));
    };
    let port = target.ports.get(&nexus).and_then(|port| port.through);
    let is_good = response.sense.is_empty();
    if let Some(port) = port.filter(|_| is_good) {
        match (field(cdb, "EVPD"), field(cdb, "PAGE CODE")) {
            // TPGS 01b, only implicit changes of the state; MULTIP.
            (0, _) => {
                response.data_in[5] |= 1 << 4;
                response.data_in[6] |= 1 << 4;
            }
            (_, 0x83) => add_designators(&mut response.data_in, port),
            _ => {}
        }
    }
    if is_good {
        response = within(cdb, response.data_in);
    }
    Ok(Outcome::Respond(response))
}

/// Designators with association 1 (the port): its number (type 4h) and its group (type 5h).
fn add_designators(page: &mut Vec<u8>, port: TargetPort) {
    for (kind, number) in [(4, port.identifier), (5, port.group)] {
        let [high, low] = number.to_be_bytes();
        page.extend([0x01, 0x10 | kind, 0, 4, 0, 0, high, low]);
    }
    let length = (page.len() - 4) as u16;
    page[2..4].copy_from_slice(&length.to_be_bytes());
}

/// REPORT TARGET PORT GROUPS.
fn report_groups(target: &mut Target, _: (TaskId, Nexus), cdb: &Cdb, _: &[u8]) -> Result<Outcome, Failure> {
    // The states that groups can have: all but transitioning, offline and logical block dependent.
    const SUPPORTED: u8 = 0b1111;
    // By its own decision (STATUS CODE 02h).
    const IMPLICIT: u8 = 2;
    if target.groups.is_empty() {
        return Err(crate::unit::invalid_byte(1, Some(4)));
    }
    if field(cdb, "PARAMETER DATA FORMAT") != 0 {
        return Err(invalid(cdb, "PARAMETER DATA FORMAT"));
    }
    let mut data = vec![0; 4];
    for (group, state) in &target.groups {
        let mut ports: Vec<u16> = target
            .ports
            .values()
            .filter_map(|port| port.through)
            .filter(|port| port.group == *group)
            .map(|port| port.identifier)
            .collect();
        ports.sort_unstable();
        ports.dedup();
        let [high, low] = group.to_be_bytes();
        data.extend([state.code(), SUPPORTED, high, low, 0, IMPLICIT, 0, ports.len().min(255) as u8]);
        ports.iter().take(255).for_each(|port| data.extend([0, 0].into_iter().chain(port.to_be_bytes())));
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    Ok(Outcome::Respond(within(cdb, data)))
}
