//! A disk on buses, as a model.

use super::fabric::Fabric;
use crate::model::{Command, Ended, Model};
use platter_block::driver::Geometry;
use platter_block::time::Time;
use std::sync::Arc;

/// A disk on buses, see [`Fabric::attach`].
pub struct Bused {
    fabric: Arc<Fabric>,
    disk: u32,
    geometry: Geometry,
    depth: u32,
}

impl Bused {
    pub(super) fn new(fabric: Arc<Fabric>, disk: u32, geometry: Geometry, depth: u32) -> Bused {
        Bused { fabric, disk, geometry, depth }
    }
}

impl Drop for Bused {
    fn drop(&mut self) {
        self.fabric.lock().remove(self.disk);
    }
}

impl Model for Bused {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        self.fabric.lock().accept(now, self.disk, command)
    }

    fn next_event(&self) -> Option<Time> {
        let mut state = self.fabric.lock();
        let next = state.next_event();
        let disk = state.disk(self.disk)?;
        match disk.ended.first() {
            Some(end) => Some(end.at),
            // Other disks may cause what this disk waits for. Without a command only the model can have
            // events.
            None if disk.inside.is_empty() => disk.model.next_event(),
            None => next,
        }
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        let mut state = self.fabric.lock();
        state.live(now);
        if let Some(disk) = state.disk(self.disk) {
            ended.append(&mut disk.ended);
        }
    }
}
