//! A range of bytes of a device.

/// Offset and length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) pos: u64,
    pub(crate) len: u64,
}
