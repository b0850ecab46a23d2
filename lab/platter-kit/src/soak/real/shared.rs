//! What the threads of a round share.

use super::judge::Judge;
use super::script::{Done, Script};
use crate::soak::feature::Features;
use platter_disk::device::Device;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) ios: u64,
    pub(super) failed: u64,
    pub(super) sectors_checked: u64,
    pub(super) left: u64,
    pub(super) script: Done,
}

/// What the threads of a round share.
pub(super) struct Round {
    pub(super) device: Device,
    pub(super) judge: Judge,
    pub(super) scripts: Vec<Arc<Script>>,
    pub(super) alive: Arc<AtomicU64>,
    pub(super) ios: u64,
    pub(super) discards: bool,
    /// Most failures that the layers `error` of the stack inject.
    pub(super) failures: u64,
    pub(super) without: Features,
}

impl Round {
    pub(super) fn counts(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut script = Done::default();
        self.scripts.iter().for_each(|other| script.add(&other.done()));
        let judge = &self.judge;
        Counts {
            ios: get(&judge.ios),
            failed: get(&judge.failed),
            sectors_checked: get(&judge.sectors_checked),
            left: get(&judge.left),
            script,
        }
    }
}
