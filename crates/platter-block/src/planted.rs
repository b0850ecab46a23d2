//! Bugs that can be planted in the parsers of untrusted bytes, to test the fuzzer: with the feature `planted` each
//! can be switched on while a test runs, and the fuzzer must find it. Without the feature [`is_on`] is always `false`
//! and costs nothing.
//!
//! Each bug leaves out one check of its parser. Defects that the project really had are in [`defect`](crate::defect).

/// One row per bug: its effect, variant, name on the command line and summary.
macro_rules! planted {
    ($($(#[$doc:meta])* $variant:ident $name:literal $summary:literal)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Planted {
            $($(#[$doc])* $variant,)*
        }

        impl Planted {
            /// All bugs.
            pub const ALL: &[Planted] = &[$(Planted::$variant),*];

            /// Name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Planted::$variant => $name,)*
                }
            }

            /// A summary of one line.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Planted::$variant => $summary,)*
                }
            }
        }
    };
}

planted! {
    /// The end of a read that verification checks may lie beyond 2^64.
    BlockEnd "block-end" "blocks whose end is beyond 2^64 are checked"
    /// The lower bound of a number in a server's configuration is not enforced.
    ConfigWeight "config-weight" "a number below the least that is allowed is accepted in a configuration"
    /// The name of an unknown method is repeated as it is.
    ControlName "control-name" "a message repeats control characters of a request"
    /// The lower bound of a number in a DiskSim file is not enforced.
    DisksimLeast "disksim-least" "a number below the least that is allowed is accepted"
    /// The size of an entry of a GUID partition table is not checked.
    GptEntrySize "gpt-entry-size" "entries of any size are accepted, of none too"
    /// The range of a number in a job file is not enforced.
    JobRange "job-range" "a number outside of the range of its option is accepted"
    /// A line of `/proc/locks` may end before its sixth field.
    LockFields "lock-fields" "a line with five fields is read as if it had six"
    /// The end of a part of a map file may lie beyond 2^64.
    MapEnd "map-end" "a part may end beyond 2^64"
    /// The index of an md superblock's own device may be one past the end of the table of roles.
    MdRole "md-role" "the number of a device may be one past the table of roles"
    /// Missing members of an array are not noticed.
    MembersMissing "members-missing" "an array is assembled although members are missing"
    /// A line of `mountinfo` may end after its dash.
    MountFields "mount-fields" "a line may end after its dash"
    /// The stages of an iSCSI login may be passed without the secret.
    IscsiStage "iscsi-stage" "a login needs no authentication to go on"
    /// The window of command numbers of an iSCSI session may shrink.
    IscsiWindow "iscsi-window" "numbers of commands that were promised to an initiator are taken back"
    /// The length of a string in the data of an NBD option may reach past the data.
    NbdString "nbd-string" "the length of a string may reach past the data of its option"
    /// The end of an NBD request may lie beyond 2^64.
    NbdEnd "nbd-end" "a request may end beyond 2^64"
    /// The length of the message in an error chunk of NBD is not compared with that of the chunk.
    NbdErrorLength "nbd-error-length" "the message of an NBD error may be longer than its chunk"
    /// The length of a name in a list of NBD exports is not compared with that of the reply.
    NbdNameLength "nbd-name-length" "the name of a listed NBD export may be longer than its reply"
    /// The number of ranges of an NVMe Dataset Management command is not compared with its data.
    NvmeRanges "nvme-ranges" "a command may state more ranges than its data has"
    /// A list of NVMe namespace identification descriptors goes on behind its end.
    NvmeDescriptors "nvme-descriptors" "a list of descriptors goes on behind the one that ends it"
    /// The lengths of reads in a trace are not checked.
    ReadLength "read-length" "a read may have any length, none too"
    /// The sequence number of an array record may have the largest possible value.
    RecordSequence "record-sequence" "a sequence number from which nothing can be counted on is accepted"
    /// The end of the blocks that a SCSI command names may lie beyond 2^64.
    ScsiEnd "scsi-end" "blocks of a command may end beyond 2^64"
    /// The length that a SCSI structure states is not compared with what was received.
    ScsiLength "scsi-length" "a structure may state more bytes than there are"
    /// The end of a request of a trace may lie beyond 2^64.
    ServiceEnd "service-end" "a request may end beyond 2^64 sectors"
    /// Signatures are looked for beyond the end of the disk.
    SignatureEnd "signature-end" "a disk is read past its end"
    /// A byte in hexadecimal at the end of a spec is read past the end.
    SpecByte "spec-byte" "an escaped byte is cut out of the text without a look at what is left of it"
    /// A number of kibibytes in sysfs may be beyond 2^64 bytes.
    SysfsKib "sysfs-kib" "a number of KiB is multiplied without a check"
    /// The end of an I/O of a trace may lie beyond 2^64.
    TraceEnd "trace-end" "an I/O of a trace may end beyond 2^64"
    /// A number may have any number of digits after the point.
    ValueDigits "value-digits" "a number may have any count of digits after the point"
    /// The position of a request of a virtual machine may wrap around.
    VhostSector "vhost-sector" "a position in sectors may be beyond 2^64 bytes"
    /// The number of regions in a vhost-user table of memory is not bounded.
    VhostTable "vhost-table" "a table of a guest's memory may have any number of regions"
}

#[cfg(feature = "planted")]
static ON: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// Whether the bug is planted. Always `false` without the feature `planted`.
#[inline(always)]
pub fn is_on(bug: Planted) -> bool {
    #[cfg(feature = "planted")]
    return ON.load(core::sync::atomic::Ordering::Relaxed) & 1 << bug as u8 != 0;
    #[cfg(not(feature = "planted"))]
    {
        let _ = bug;
        false
    }
}

/// Plants a bug or removes it, for the whole process. Tests that do so run in a process of their own.
#[cfg(feature = "planted")]
pub fn set(bug: Planted, on: bool) {
    use core::sync::atomic::Ordering;
    let bit = 1 << bug as u8;
    if on {
        ON.fetch_or(bit, Ordering::Relaxed);
    } else {
        ON.fetch_and(!bit, Ordering::Relaxed);
    }
}
