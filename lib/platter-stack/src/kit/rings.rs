//! Bells that ring together.

use platter_block::lane::Bell;
use std::sync::Arc;

/// As many need no memory of their own.
const FEW: usize = 4;

/// Bells to ring. They ring when this is dropped, so none is forgotten: what wakes a thread is a system call, and is made
/// when the lock has been released under which the bells were collected.
#[derive(Default)]
pub struct Rings {
    few: [Option<Arc<dyn Bell>>; FEW],
    rest: Vec<Arc<dyn Bell>>,
}

impl Rings {
    /// Adds a bell.
    pub fn push(&mut self, bell: Arc<dyn Bell>) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(bell),
            None => self.rest.push(bell),
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.few[0].is_none()
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.few.iter().flatten().chain(&self.rest).for_each(|bell| bell.ring());
    }
}
