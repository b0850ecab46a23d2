//! The events of the disk.

/// An event of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The controller has understood a command.
    Begin(u32),
    /// Bytes of a command are through the link.
    Linked(u32, u32),
    /// A row is in a die's register.
    Sensed(u32),
    /// A die has finished.
    Done(u32),
    /// No command has come for a while; the number identifies the idle period.
    Idle(u64),
}
