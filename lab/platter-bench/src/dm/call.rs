//! The calls that the benchmark compares.

/// Buffers of a `readv`.
pub(super) const PARTS: usize = 16;

/// How a worker reads 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Into one buffer.
    Read,
    /// Into 16 buffers of 4 KiB, no two of which touch.
    Readv,
}

crate::report::json::by_name!(Call);

impl Call {
    /// Both, in the paper's order.
    pub const ALL: [Call; 2] = [Call::Read, Call::Readv];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Call::Read => "read",
            Call::Readv => "readv",
        }
    }

    /// Buffers of a call.
    pub(super) fn parts(self) -> usize {
        match self {
            Call::Read => 1,
            Call::Readv => PARTS,
        }
    }
}
