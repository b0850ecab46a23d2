//! Writers of records.

use crate::event::Item;

/// Writes records as the bytes of a format.
pub(crate) trait Sink {
    /// Adds a record, of which the format can hold everything, to `out`.
    fn item(&mut self, item: &Item, out: &mut Vec<u8>);

    /// What comes in front of the first record.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// What comes behind the last one.
    fn end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}
