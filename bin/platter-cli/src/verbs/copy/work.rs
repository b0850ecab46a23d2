//! How far a copy has got: the map, what is durable, and when the map is saved.

use super::ends::Ends;
use super::map::{Map, Status};
use super::mapfile::MapFile;
use super::meter::Meter;
use super::plan::Plan;
use super::stop::{Stopped, Stopper};
use super::totals::Totals;
use std::time::{Duration, Instant};

/// How often the map of a rescue is saved.
pub(super) const SAVE: Duration = Duration::from_secs(30);

/// The progress of the copy.
pub(super) struct Work {
    pub(super) map: Map,
    pub(super) totals: Totals,
    /// Everything that the map marks as done has been flushed.
    pub(super) flushed: bool,
    /// A flush failed: written data may be lost.
    pub(super) flush_failed: bool,
    pub(super) saver: Option<Saver>,
}

impl Work {
    /// The state at the start of a run; everything that the plan's map marks as copied is durable.
    pub(super) fn begin(plan: &Plan) -> Work {
        let saver = plan.map.clone().map(Saver::new);
        Work { map: plan.known.clone(), totals: Totals::default(), flushed: true, flush_failed: false, saver }
    }

    /// Records bytes that are at the destination, but may not be durable.
    pub(super) fn done(&mut self, pos: u64, len: u64) {
        self.map.mark(pos, len, Status::Done);
        self.flushed = false;
    }

    /// Bytes that are copied, bytes that could not be read so far, and all bytes.
    pub(super) fn progress(&self) -> (u64, u64, u64) {
        let bad =
            [Status::Failed, Status::Small, Status::Bad].iter().map(|status| self.map.bytes(*status)).sum();
        (self.map.bytes(Status::Done), bad, self.map.size())
    }

    /// Flushes the destination, if data was written, and then saves the map.
    pub(super) fn flush(
        &mut self,
        ends: &mut Ends,
        stop: &mut Stopper<'_>,
        meter: &mut Meter,
    ) -> Result<(), Stopped> {
        if !self.flushed {
            let outcome = ends.flush(stop, |stopping| match stopping {
                true => meter.clear(),
                false => meter.update(|| self.progress()),
            });
            self.flush_failed |= matches!(outcome, Err(Stopped::Destination(_)));
            outcome?;
            self.flushed = true;
        }
        match &self.saver {
            Some(saver) => saver.file.save(&self.map).map_err(|error| Stopped::Failed(error.to_string())),
            None => Ok(()),
        }
    }
}

/// Saves the map regularly. It marks a range as copied only after a flush has made the range durable.
pub(super) struct Saver {
    pub(super) file: MapFile,
    pub(super) due: Instant,
    /// The map to save when the flush in flight has succeeded.
    pub(super) pending: Option<Map>,
}

impl Saver {
    fn new(file: MapFile) -> Saver {
        Saver { file, due: Instant::now() + SAVE, pending: None }
    }
}
