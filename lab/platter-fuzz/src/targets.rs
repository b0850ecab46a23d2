//! The formats.

mod assemble;
mod blocks;
mod config;
mod control;
mod disksim;
mod iscsi_login;
mod iscsi_session;
mod job_file;
mod locks;
mod map_file;
mod md;
mod md_log;
mod mounts;
mod nbd_answer;
mod nbd_handshake;
mod nbd_reply;
mod nbd_request;
mod nvme_command;
mod nvme_data;
mod partition;
mod read_trace;
mod record;
mod scsi_command;
mod scsi_data;
mod service_trace;
mod signature;
mod spec;
mod sysfs;
mod trace;
mod value;
mod vhost_message;
mod vhost_request;

use crate::run::{Target, Verdict};
use std::fmt::Display;

/// Every format.
pub static ALL: &[Target] = &[
    spec::TARGET,
    value::TARGET,
    partition::TARGET,
    record::TARGET,
    md::TARGET,
    md_log::TARGET,
    assemble::TARGET,
    signature::TARGET,
    disksim::TARGET,
    service_trace::TARGET,
    read_trace::TARGET,
    map_file::TARGET,
    job_file::TARGET,
    trace::TARGET,
    blocks::TARGET,
    mounts::TARGET,
    locks::TARGET,
    sysfs::TARGET,
    config::TARGET,
    control::TARGET,
    nbd_handshake::TARGET,
    nbd_request::TARGET,
    nbd_answer::TARGET,
    nbd_reply::TARGET,
    vhost_request::TARGET,
    vhost_message::TARGET,
    iscsi_login::TARGET,
    iscsi_session::TARGET,
    scsi_command::TARGET,
    scsi_data::TARGET,
    nvme_command::TARGET,
    nvme_data::TARGET,
];

/// The format of a name.
pub fn by_name(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

/// The result of a parser as a verdict.
fn verdict<T, E: Display>(result: Result<T, E>) -> Verdict {
    match result {
        Ok(_) => Verdict::Accepted,
        Err(error) => Verdict::Refused(error.to_string()),
    }
}

/// The text of an input.
fn text_of(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

/// Returns an error if a property does not hold.
fn hold(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
