//! Parents of bios that a queue itself makes: splits, sequences of flush, write, flush, and writes of zeroes.

use super::zeroes::Zeroes;
use crate::bio::Bio;
use crate::fault::Fault;
use alloc::vec::Vec;

/// What a parent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// All parts of a split.
    Split,
    /// Zeroes that are being written over its range.
    Zeroes(Zeroes),
    /// Steps still to be done, see `sched/flush.rs`, and whether it is the active barrier.
    Sequence { steps: u8, barrier: bool },
    /// The steps of a barrier that the device keeps in order, see `sched/tags.rs`.
    Tagged,
}

/// A bio that is carried out by other bios, its children.
///
/// Example: a durable write of 1 MiB on a device with a volatile cache, without FUA and with requests of 512 KiB. The submitter's bio is the parent of a
/// sequence (data, flush) with one child, the data; that child is itself the parent of two parts. When both parts have completed, the data
/// has, and the sequence waits for a flush. [`Families::root`] leads from a part to the submitter's bio.
pub(super) struct Parent {
    pub(super) bio: Bio,
    /// Children that have not completed. They use the parent's memory, so it stays here until they have.
    pub(super) pending: u32,
    pub(super) role: Role,
}

/// Slab of parents.
#[derive(Default)]
pub(super) struct Families {
    slots: Vec<Option<Parent>>,
    free: Vec<u32>,
}

impl Families {
    pub(super) fn insert(&mut self, parent: Parent) -> u32 {
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

    /// The bio of the submitter that a bio belongs to: itself, unless it is a child.
    pub(super) fn root<'a>(&'a self, mut bio: &'a Bio) -> &'a Bio {
        while let Some(parent) = self.get(bio.parent()) {
            bio = &parent.bio;
        }
        bio
    }

    /// Fails the parents that would still write zeroes and belong to a bio that matches: no more are written.
    pub(super) fn stop_zeroes(&mut self, which: &dyn Fn(&Bio) -> bool, fault: Fault) {
        let writes = |parent: &Parent| matches!(parent.role, Role::Zeroes(zeroes) if zeroes.len > 0);
        for at in 0..self.slots.len() as u32 {
            let stops = self.get(at).is_some_and(|parent| writes(parent) && which(self.root(&parent.bio)));
            if stops && let Some(parent) = self.get_mut(at) {
                parent.bio.fail(fault);
            }
        }
    }

    /// Counts one more child of a parent.
    pub(super) fn count_child(&mut self, at: u32) {
        if let Some(parent) = self.get_mut(at) {
            parent.pending += 1;
        }
    }

    /// Returns the bio of a parent whose children have all completed, completed unless it failed.
    pub(super) fn release(&mut self, at: u32) -> Option<Bio> {
        let mut bio = self.recall(at)?;
        if bio.status().is_ok() {
            bio.finish();
        }
        Some(bio)
    }

    /// The parents.
    pub(super) fn parents(&self) -> impl Iterator<Item = &Parent> {
        self.slots.iter().flatten()
    }

    /// Takes back a parent without children, to be carried out in another way.
    pub(super) fn recall(&mut self, at: u32) -> Option<Bio> {
        let bio = self.slots.get_mut(at as usize)?.take()?.bio;
        self.free.push(at);
        Some(bio)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}
