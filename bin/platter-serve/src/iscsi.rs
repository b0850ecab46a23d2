//! An iSCSI target for each device: any initiator reaches it as a SCSI disk (RFC 7143, SPC-4, SBC-3).
//!
//! - `names`: the names of targets;
//! - [`login`], with [`crate::chap`]: the login phase as a state machine without I/O;
//! - `connection`: a connection's login, and discovery sessions;
//! - `texts`: answers to text requests;
//! - `unit`: the logical unit that all sessions share;
//! - `session`: the full feature phase, by one thread for each session.
//!
//! A session has one connection and the error recovery level 0: what goes wrong on a connection ends its session, and the
//! initiator logs in again.

mod connection;
pub mod login;
mod names;
pub(crate) mod serial;
mod session;
mod texts;
pub(crate) mod unit;

use crate::error::ServeError;
use crate::export::{Export, ExportType, Start};
use crate::stream::{Protocol, address, server};

/// The row of the table of exports.
pub const TYPE: ExportType = ExportType {
    name: "iscsi",
    summary: "an iSCSI target for each device, over TCP",
    address: address::FORM,
    start,
};

static PROTOCOL: Protocol = Protocol {
    kind: TYPE.name,
    name: "iSCSI",
    exposed: "iSCSI does not encrypt: use a network that is trusted or a tunnel",
    run: connection::run,
};

fn start(start: &Start<'_>) -> Result<Box<dyn Export>, ServeError> {
    let prefix = &start.options.iscsi.prefix;
    names::check_prefix(prefix)?;
    for served in start.devices.list() {
        names::target_name(prefix, served.name())?;
    }
    server::start(start, start.options.insecure_plaintext, &PROTOCOL)
}
