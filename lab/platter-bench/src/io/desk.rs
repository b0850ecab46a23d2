//! The state of a job's own I/Os, independent of how they reach the device.

use std::sync::Arc;

use platter_block::bio::Bio;
use platter_block::fault::Error as DeviceError;
use platter_block::time::Time;

use super::tally::Tally;

/// The bios of a job that are not with the device, and the remaining work.
pub(super) struct Desk {
    /// Bios that could be started.
    pub(super) idle: Vec<Bio>,
    /// When each bio was started, or was meant to be, by the lower half of its token.
    pub(super) starts: Vec<Time>,
    /// Bytes per I/O.
    pub(super) bs: u64,
    /// I/Os that may still be started.
    pub(super) left: u64,
    /// The time of the last batch.
    pub(super) now: Time,
    /// The first I/O that failed. There is no second: it ends the job.
    pub(super) failure: Option<DeviceError>,
    device: Arc<str>,
}

impl Desk {
    pub(super) fn new(device: Arc<str>, idle: Vec<Bio>, bs: u64, now: Time) -> Self {
        let starts = vec![Time::default(); idle.len()];
        Self { idle, starts, bs, left: 0, now, failure: None, device }
    }

    /// The place of a bio among those of the job. The upper half of the token is the number of the job.
    #[inline]
    pub(super) fn place(bio: &Bio) -> usize {
        bio.token() as u32 as usize
    }

    /// Notes when a bio starts.
    #[inline]
    pub(super) fn note_start(&mut self, bio: &Bio, start: Time) {
        if let Some(place) = self.starts.get_mut(Self::place(bio)) {
            *place = start;
        }
    }

    /// When a bio was started.
    #[inline]
    pub(super) fn start_of(&self, bio: &Bio) -> Time {
        self.starts.get(Self::place(bio)).copied().unwrap_or(self.now)
    }

    /// Takes note of an I/O that failed, which ends the job as it does with fio.
    #[cold]
    pub(super) fn failed(&mut self, bio: Bio, tally: &mut Tally) {
        tally.errors += 1;
        self.left = 0;
        if let Err(fault) = bio.status()
            && self.failure.is_none()
        {
            let offset = bio.pos() - bio.done();
            let device = Arc::clone(&self.device);
            let detail = String::new();
            self.failure = Some(DeviceError { fault, op: bio.op(), device, offset, len: self.bs, detail });
        }
        self.idle.push(bio);
    }
}
