//! Settings of a port.

use super::faults::FaultPlan;
use crate::target::{AccessState, TargetPort};
use platter_block::time::Span;
use std::string::String;

/// Settings of a port, and how long its error handling is patient.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Most commands at the target at once.
    pub depth: u32,
    /// The name of the initiator port, which reservations belong to.
    pub initiator: String,
    /// The port of the target that it reaches, if the target tells its ports apart (ALUA).
    pub target_port: Option<TargetPort>,
    /// How that port and the others of its group reach the unit at first.
    pub access: AccessState,
    /// Time after which a command is aborted, and then the same again until the unit is reset and the port is offline.
    pub command_timeout: Span,
    /// How often a command is sent again, besides while the unit is busy or not ready.
    pub retries: u32,
    /// How long commands are sent again while the unit is busy or not ready.
    pub busy_timeout: Span,
    /// Faults that commands meet.
    pub faults: FaultPlan,
}

platter_block::setters! {
    Options {
        depth, with_depth: u32;
        initiator, with_initiator: String;
        target_port, with_target_port: Option<TargetPort>;
        access, with_access: AccessState;
        command_timeout, with_command_timeout: Span;
        retries, with_retries: u32;
        busy_timeout, with_busy_timeout: Span;
        faults, with_faults: FaultPlan;
    }
}

impl Default for Options {
    /// As Linux: 30 s and 5 retries of `sd`.
    fn default() -> Options {
        Options {
            depth: 128,
            initiator: String::from("platter"),
            target_port: None,
            access: AccessState::Optimized,
            command_timeout: Span::from_secs(30),
            retries: 5,
            busy_timeout: Span::from_secs(30),
            faults: FaultPlan::default(),
        }
    }
}
