//! One job alone, whose I/Os have one direction: the closed loop, in which the clock moves instead of waiting.

use platter_block::bio::Bio;
use platter_block::time::Time;
use platter_disk::channel::Channel;

use super::{IoError, Simulation, Troubles};
use crate::io::tally::Tally;
use crate::io::worker::Worker;
use crate::load::{Load, Work};
use crate::workload::Offsets;

pub(super) struct Solo {
    pub(super) worker: Worker,
    pub(super) offsets: Offsets,
    pub(super) latency: bool,
}

impl Work for Solo {
    type Error = IoError;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.worker.channel)
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), IoError> {
        self.worker.desk.now = load.now();
        std::mem::swap(&mut self.worker.done, done);
        match (&mut self.offsets, self.latency) {
            (Offsets::Sequential(o), true) => self.worker.completed::<true>(o),
            (Offsets::Sequential(o), false) => self.worker.completed::<false>(o),
            (Offsets::Random(o), true) => self.worker.completed::<true>(o),
            (Offsets::Random(o), false) => self.worker.completed::<false>(o),
            (Offsets::RandomMap(o), true) => self.worker.completed::<true>(o),
            (Offsets::RandomMap(o), false) => self.worker.completed::<false>(o),
        }
        std::mem::swap(&mut self.worker.done, done);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.worker.is_over()
    }
}

impl Simulation for Solo {
    fn allow(&mut self, load: &mut Load, quota: &dyn Fn(u32) -> u64) -> Result<(), IoError> {
        let worker = &mut self.worker;
        worker.desk.now = load.now();
        if worker.desk.failure.is_none() {
            worker.desk.left = quota(0).saturating_sub(worker.channel.outstanding() as u64);
        }
        match &mut self.offsets {
            Offsets::Sequential(o) => worker.start_idle(o),
            Offsets::Random(o) => worker.start_idle(o),
            Offsets::RandomMap(o) => worker.start_idle(o),
        }
        load.settle(self, 0)
    }

    fn missed(&self, _end: Time) -> u64 {
        0
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.worker.tally
    }

    fn begin_reading_back(&mut self, _load: &mut Load) -> Result<bool, IoError> {
        Ok(false)
    }

    fn troubles(&mut self) -> Troubles {
        Troubles { failure: self.worker.desk.failure.take(), mismatch: None }
    }
}
