//! The text of a spec, and ranges of it.

use std::ops::Range;

/// A range of bytes of the spec's text.
pub type Span = Range<usize>;

/// Shared by all nodes of one spec: the text, and the device names known to its reader.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) devices: Vec<String>,
    /// The file that the text is from.
    pub(super) file: Option<String>,
}

impl Source {
    pub(super) fn knows(&self, name: &str) -> bool {
        self.devices.iter().any(|known| known == name)
    }
}
