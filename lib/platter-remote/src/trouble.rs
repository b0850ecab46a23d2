//! The last trouble of a disk, which reports show, and failures that are of no request.

use platter_block::backend::Fact;
use platter_block::bio::Op;
use platter_block::fault::{Error, Fault, Kind, Stage};
use std::sync::{Arc, Mutex, PoisonError};

/// A failure of a disk that is of no request.
pub(crate) fn failure(disk: &Arc<str>, kind: Kind, detail: String) -> Error {
    let fault = Fault::new(kind, Stage::Disk);
    Error { fault, op: Op::Read, device: Arc::clone(disk), offset: 0, len: 0, detail }
}

/// The last trouble of a disk.
#[derive(Default)]
pub(crate) struct Trouble(Mutex<String>);

impl Trouble {
    /// Keeps what is to be told of a failure.
    pub(crate) fn report(&self, why: &str) {
        why.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn last(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds it to what a disk tells of itself, if there was any.
    pub(crate) fn tell(&self, facts: &mut Vec<Fact>) {
        let trouble = self.last();
        if !trouble.is_empty() {
            facts.push(("last trouble", trouble));
        }
    }
}
