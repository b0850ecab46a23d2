//! Parents of bios that a queue itself makes: splits, sequences of flush, write, flush, and writes of zeroes.

use super::zeroes::Zeroes;
use crate::bio::Bio;
use alloc::vec::Vec;

/// What a parent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// All parts of a split.
    Split,
    /// Zeroes that are being written over its range.
    Zeroes(Zeroes),
    /// Steps still to be done, see `sched/order.rs`, and whether it is the active barrier.
    Sequence { steps: u8, barrier: bool },
    /// The steps of a barrier that the device keeps in order, see `sched/tags.rs`.
    Tagged,
}

/// A bio that is carried out by other bios, its children.
pub(super) struct Parent {
    pub(super) bio: Bio,
    /// Children that have not completed.
    pub(super) pending: u32,
    /// Children that timed out and that the driver still has; they use the parent's memory.
    orphans: u32,
    /// Whether children use the memory of the parent.
    lends_memory: bool,
    pub(super) role: Role,
}

impl Parent {
    /// A parent whose children use its memory.
    pub(super) fn new(bio: Bio, pending: u32, role: Role) -> Parent {
        Parent { bio, pending, orphans: 0, lends_memory: true, role }
    }

    /// A parent whose children have memory of their own.
    pub(super) fn without_memory(bio: Bio, pending: u32, role: Role) -> Parent {
        Parent { lends_memory: false, ..Parent::new(bio, pending, role) }
    }
}

/// Slab of parents.
#[derive(Default)]
pub(super) struct Families {
    slots: Vec<Option<Parent>>,
    free: Vec<u32>,
    /// Parents whose bio has not been returned.
    live: usize,
}

impl Families {
    pub(super) fn insert(&mut self, parent: Parent) -> u32 {
        self.live += 1;
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(parent);
                at
            }
            None => {
                self.slots.push(Some(parent));
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Parent> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn get(&self, at: u32) -> Option<&Parent> {
        self.slots.get(at as usize)?.as_ref()
    }

    /// The bios of the parents, including those that only keep memory.
    pub(super) fn bios(&self) -> impl Iterator<Item = &Bio> {
        self.parents().map(|parent| &parent.bio)
    }

    /// Whether all parents have returned their bio.
    pub(super) fn are_released(&self) -> bool {
        self.live == 0
    }

    /// Whether children use the memory of their parent.
    pub(super) fn lends_memory(&self, at: u32) -> bool {
        self.get(at).is_some_and(|parent| parent.lends_memory)
    }

    /// Counts one more child of a parent.
    pub(super) fn count_child(&mut self, at: u32) {
        if let Some(parent) = self.get_mut(at) {
            parent.pending += 1;
        }
    }

    /// Returns the parent's bio, completed unless it failed. While the driver still has children of it, its
    /// memory stays here and the returned bio is one without memory that stands for it.
    pub(super) fn release(&mut self, at: u32) -> Option<Bio> {
        let slot = self.slots.get_mut(at as usize)?;
        let parent = slot.as_mut()?;
        self.live -= 1;
        if parent.orphans > 0 {
            let mut face = parent.bio.abandon();
            if let Err(fault) = parent.bio.status() {
                face.fail(fault);
            }
            let grandparent = face.parent();
            self.orphaned(grandparent);
            return Some(face);
        }
        let mut bio = slot.take()?.bio;
        self.free.push(at);
        if bio.status().is_ok() {
            bio.finish();
        }
        Some(bio)
    }

    /// The parents, including those that only keep memory.
    pub(super) fn parents(&self) -> impl Iterator<Item = &Parent> {
        self.slots.iter().flatten()
    }

    /// Takes back a parent without children, to be carried out in another way.
    pub(super) fn recall(&mut self, at: u32) -> Option<Bio> {
        let bio = self.slots.get_mut(at as usize)?.take()?.bio;
        self.live -= 1;
        self.free.push(at);
        Some(bio)
    }

    /// A child was given up; the driver still has it.
    pub(super) fn orphaned(&mut self, at: u32) {
        if let Some(parent) = self.get_mut(at) {
            parent.orphans += 1;
        }
    }

    /// The driver has returned an orphan; the last one frees the memory of a parent that has been released.
    pub(super) fn orphan_done(&mut self, at: u32) {
        let Some(parent) = self.get_mut(at) else { return };
        parent.orphans -= 1;
        if parent.orphans == 0 && parent.pending == 0 {
            let grandparent = parent.bio.parent();
            parent.bio.recycle();
            self.slots[at as usize] = None;
            self.free.push(at);
            self.orphan_done(grandparent);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}
