//! What changes during the life of a lane: its driver, the size of the device, the registered regions; and its end.

use super::super::gate::View;
use super::super::others::Others;
use super::DiskLane;
use crate::sync::{Ordering, lock};
use platter_block::driver::Driver;
use platter_block::lane::Lane;
use platter_block::queue::DirectLane;
use std::sync::Arc;

impl DiskLane {
    /// Gives the lane a queue of its own.
    pub(super) fn set_driver(&mut self, driver: Box<dyn Driver>) {
        self.cell.set_driver(&driver);
        let mut queue = self.shared.make_queue(&self.cell.counters);
        // Before the sink: a change between the two is seen once more.
        self.sink_change = self.shared.sink_changes.load(Ordering::SeqCst);
        queue.set_sink(self.shared.new_sink());
        queue.set_watch(Some(Others::new(&self.shared, Some(Arc::clone(&self.cell)))));
        let mut local = DirectLane::new(queue, driver);
        local.set_reopen(self.shared.reopener(self.lane_use, Some(Arc::clone(&self.cell))));
        self.local = Some(local);
        // Sleeping threads do not listen to it yet.
        self.cell.mailbox.ring();
        // The driver was told of the regions when it was opened; the next batch looks up which they are.
        self.regions.clear();
        (self.expected, self.looked) = (View::NEVER, View::NEVER);
    }

    /// Updates the device's size and the trace, registers the present regions with the lane's driver, and withdraws the others.
    pub(super) fn look_up_changes(&mut self) {
        if self.size != self.shared.extent.size() {
            self.resize();
        }
        let change = self.shared.sink_changes.load(Ordering::SeqCst);
        if self.sink_change != change
            && let Some(local) = &mut self.local
        {
            self.sink_change = change;
            local.queue.set_sink(self.shared.new_sink());
        }
        let Some(local) = &mut self.local else { return };
        let regions = lock(&self.shared.regions);
        self.regions.retain(|&id| {
            let stays = regions.iter().any(|region| region.id == id);
            if !stays {
                local.unregister(id);
            }
            stays
        });
        for region in regions.iter() {
            if !self.regions.contains(&region.id) {
                local.register(region);
                self.regions.push(region.id);
            }
        }
    }

    /// The device's size differs from the one in the lane's queue.
    #[cold]
    pub(super) fn resize(&mut self) {
        let (size, largest) = self.shared.extent.sizes();
        self.size = size;
        self.examiner = self.shared.examiner(size);
        if let Some(local) = &mut self.local {
            local.queue.set_size(size, largest);
        }
    }

    /// The device had an elevator when the lane was opened and has none now.
    #[cold]
    pub(super) fn open_late(&mut self) -> bool {
        match self.shared.open_driver(self.lane_use) {
            Ok(driver) => {
                self.set_driver(driver);
                self.look_up_changes();
                self.cell.mailbox.ring();
                true
            }
            Err(error) => {
                // Not counted as failures, like those of the shared queue.
                for mut bio in self.plug.drain(..) {
                    bio.fail(error.fault);
                    self.done.push(bio);
                }
                false
            }
        }
    }
}

impl Drop for DiskLane {
    fn drop(&mut self) {
        if let Some(local) = self.local.take() {
            // The wait is limited: requests that the disk does not return in time are left to another thread.
            self.shared.close_lane(local, self.silent.take(), self.left.clone());
        }
        self.cell.busy.leave();
        self.depth.close(&self.shared);
        // Bios in the shared queue are carried out without the lane.
        self.unplug(self.shared.clock.now());
        let (left, holder) = (self.left.take(), Arc::downgrade(&self.shared));
        self.shared.lanes.remove(self.route, self.away, || left?.keep_late(holder));
        if self.away > 0 || self.shared.gate.look().is_frozen() {
            // The thread that runs the queue may be in its last round, and no other visit follows: after this wait it has been run.
            self.shared.run_control(self.shared.clock.now(), None);
            self.shared.with_control(|_| ());
        }
    }
}
