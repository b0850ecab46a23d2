//! Which targets a portal has, and which logical units they have.

use super::attempt::{at_each, discover, finish, resolve};
use super::error::IscsiError;
use super::options::IscsiOptions;
use super::session::Target;
use super::terms::{Digest, Terms};
use super::url::{Account, Portal, Url};
use platter_block::time::Span;
use platter_scsi::host::found::Inquirer;
use std::time::Duration;

/// A logical unit that a target has told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its number.
    pub lun: u16,
    /// Who made it.
    pub vendor: String,
    /// What it is.
    pub product: String,
    /// Its serial number; empty if it has none.
    pub serial: String,
    /// Size in bytes.
    pub size: u64,
    /// Logical block in bytes.
    pub block: u32,
    /// Whether it refuses writes.
    pub write_protected: bool,
}

pub(super) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}

pub(super) fn account(of: Option<&Account>) -> Option<(String, String)> {
    of.map(|account| (account.name.clone(), account.secret.clone()))
}

/// A number of 24 bits that other disks hardly have.
pub(super) fn random_port() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(std::process::id()) & 0xff_ffff) as u32
}

/// The terms of a session with a disk.
pub(super) fn terms(url: &Url, options: &IscsiOptions, port: (u32, u16)) -> Terms {
    Terms {
        initiator: options.initiator.clone(),
        target: Some(url.target.clone()),
        lun: url.lun,
        user: account(url.user.as_ref()),
        target_user: account(url.target_user.as_ref()),
        digest: url.digest,
        port,
        peer_timeout: duration(options.peer_timeout),
    }
}

/// The targets that a portal tells of (SendTargets). Blocks until it has answered.
///
/// # Errors
/// There is no connection, or the portal refuses.
pub fn targets(
    portal: &Portal,
    user: Option<&Account>,
    options: &IscsiOptions,
) -> Result<Vec<Target>, IscsiError> {
    let terms = Terms {
        initiator: options.initiator.clone(),
        target: None,
        lun: 0,
        user: account(user),
        target_user: None,
        digest: Digest::Either,
        port: (random_port(), 0),
        peer_timeout: duration(options.peer_timeout),
    };
    let places = resolve(&portal.host, portal.port)?;
    let timeout = duration(options.connect_timeout);
    Ok(at_each(&terms, &places, timeout, Inquirer::of_disk, discover)?.targets())
}

/// The numbers of the logical units of a target (REPORT LUNS). The logical unit of `url` is not looked at. Blocks until it has
/// answered.
///
/// # Errors
/// There is no connection, or the target refuses.
pub fn luns(url: &Url, options: &IscsiOptions) -> Result<Vec<u16>, IscsiError> {
    let terms = terms(&url.with_lun(0), options, (random_port(), 0));
    let places = resolve(&url.portal.host, url.portal.port)?;
    let ready = at_each(&terms, &places, duration(options.connect_timeout), Inquirer::of_units, finish)?;
    Ok(ready.found.units)
}

/// What a logical unit says of itself. Blocks until it has answered.
///
/// # Errors
/// There is no connection, the target refuses, or the unit is no disk that can be used.
pub fn unit(url: &Url, options: &IscsiOptions) -> Result<Unit, IscsiError> {
    let terms = terms(url, options, (random_port(), 0));
    let places = resolve(&url.portal.host, url.portal.port)?;
    let found = at_each(&terms, &places, duration(options.connect_timeout), Inquirer::of_disk, finish)?.found;
    Ok(Unit {
        lun: url.lun,
        size: found.size(),
        block: found.block as u32,
        vendor: found.vendor,
        product: found.product,
        serial: found.serial,
        write_protected: found.write_protected,
    })
}
