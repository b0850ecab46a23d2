//! How a disk at a target is used.

/// The name by which the initiator logs in, unless another one is given.
pub(super) const INITIATOR: &str = "iqn.2026-11.localhost.platter:initiator";

crate::options::options! {
    /// How a disk at a target is used. Each connection is a session of its own.
    IscsiOptions {
        /// The name by which the initiator logs in.
        initiator, with_initiator: String = INITIATOR.to_owned();
    }
}
