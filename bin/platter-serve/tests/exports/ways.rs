//! The exports, each with a client that uses it as programs do.
//!
//! To put another export through the suite, implement [`Client`] and [`Way`] for it in a file beside this one, and add it
//! to [`all`].

use crate::fuse_way::FuseWay;
#[cfg(feature = "iscsi")]
use crate::iscsi_way::IscsiWay;
use crate::nbd_way::NbdWay;
#[cfg(feature = "ublk")]
use crate::ublk_way::UblkWay;
#[cfg(feature = "vhost")]
use crate::vhost_way::VhostWay;
use platter_disk::device::Device;
use platter_serve::served::Served;
use std::io;

/// One client of an export. Positions and lengths are in bytes, multiples of 512.
pub(crate) trait Client: Send {
    /// Bytes of the device, as the client sees it.
    fn size(&self) -> u64;

    fn read(&mut self, pos: u64, data: &mut [u8]) -> io::Result<()>;

    /// Writes; with `durable` the answer means that the data is.
    fn write(&mut self, pos: u64, data: &[u8], durable: bool) -> io::Result<()>;

    /// Makes durable what was answered to any client.
    fn flush(&mut self) -> io::Result<()>;

    fn write_zeroes(&mut self, pos: u64, len: u64) -> io::Result<()>;

    /// `None`: the export has no discards.
    fn discard(&mut self, pos: u64, len: u64) -> Option<io::Result<()>>;

    /// Length and whether it is a hole, of the extent that begins at `pos`. `None`: the export does not tell.
    fn extent(&mut self, pos: u64, len: u64) -> Option<(u64, bool)>;

    /// Goes on after its connection was ended by the server.
    fn reconnect(&mut self);
}

/// A device behind an export.
pub(crate) trait Way {
    /// Another client.
    fn connect(&self) -> Box<dyn Client>;

    /// Ends the connections of all clients, as an operator does. What they have sent may fail.
    fn disconnect_all(&self);

    /// Whether new clients see that the device has grown.
    fn grows(&self) -> bool {
        true
    }
}

/// A device as the exports serve it here.
pub(crate) fn served(device: Device) -> Served {
    Served::new("disk", device).unwrap()
}

/// A kind of export: its name, and how a device is served by it. `None`, after a line that says why: not on this machine.
pub(crate) type Kind = (&'static str, fn(Served) -> Option<Box<dyn Way>>);

pub(crate) const NBD: Kind = ("nbd", NbdWay::start);
pub(crate) const FUSE: Kind = ("fuse", FuseWay::start);
#[cfg(feature = "vhost")]
pub(crate) const VHOST: Kind = ("vhost-user-blk", VhostWay::start);
#[cfg(feature = "iscsi")]
pub(crate) const ISCSI: Kind = ("iscsi", IscsiWay::start);
#[cfg(feature = "ublk")]
pub(crate) const UBLK: Kind = ("ublk", UblkWay::start);

/// All of them, or the one that `PLATTER_EXPORT` names.
pub(crate) fn all() -> Vec<Kind> {
    let kinds = [
        NBD,
        FUSE,
        #[cfg(feature = "vhost")]
        VHOST,
        #[cfg(feature = "ublk")]
        UBLK,
        #[cfg(feature = "iscsi")]
        ISCSI,
    ];
    let wanted = std::env::var("PLATTER_EXPORT").ok();
    kinds.into_iter().filter(|kind| wanted.as_deref().is_none_or(|wanted| wanted == kind.0)).collect()
}
