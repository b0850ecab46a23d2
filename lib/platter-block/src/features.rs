//! What a disk can do besides reading and writing.

use crate::command::CommandSets;

/// Capabilities of a disk besides reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// Completed writes may be lost in a power cut until the next flush (write-back cache).
    pub write_cache: bool,
    /// Single writes can be made durable (FUA).
    pub fua: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// The disk keeps the order of requests that are sent as ordered tags
    /// ([`Started::is_ordered`](crate::driver::Started::is_ordered)), over all of its channels: an ordered request takes
    /// effect after every request sent before it has ended, and before any request sent after it takes effect. A request
    /// that ends with an error or short ends all requests that must follow it with
    /// [`Completion::ABORTED`](crate::driver::Completion::ABORTED), without effect. SCSI disks do this with QErr=01b in the
    /// control mode page; a disk that goes on after an error must not declare it.
    pub ordered_tags: bool,
    /// Seeks take time, as on a rotating disk.
    pub rotational: bool,
    /// Whether a request is valid depends on nothing but the disk's geometry, so submitters may prepare requests before
    /// they take the lock of the queue that they share.
    pub prebuild: bool,
    /// The sets of commands that the disk carries out as they are ([`Op::Command`](crate::bio::Op::Command)).
    pub commands: CommandSets,
}

crate::setters! {
    const Features {
        write_cache, with_write_cache: bool;
        fua, with_fua: bool;
        read_only, with_read_only: bool;
        ordered_tags, with_ordered_tags: bool;
        rotational, with_rotational: bool;
        prebuild, with_prebuild: bool;
        commands, with_commands: CommandSets;
    }
}

impl Features {
    /// No capabilities: the default.
    pub const NONE: Features = Features {
        write_cache: false,
        fua: false,
        read_only: false,
        ordered_tags: false,
        rotational: false,
        prebuild: false,
        commands: CommandSets::NONE,
    };
}
