//! The I/Os of a trace, one after the other, with the time that each took: what a replay needs of it.

use crate::error::TraceError;
use crate::event::{Action, Event, Flags, Item};
use crate::merge::Merged;
use crate::pairing::Pairing;

/// The I/Os of a trace in the order of their arrival. Where the trace has events, each waits for its completion; how many wait
/// is bounded, and one whose completion comes later than that, or never, has no latency.
///
/// ```
/// use platter_traces::{Arrivals, Format, Input, Merged};
/// let text = "8,0 0 1 0.000001 7 Q R 8 + 8 [a]\n8,0 0 2 0.000005 7 C R 8 + 8 [0]\n";
/// let merged = Merged::new(vec![Input::new("t", Format::Blkparse, text.as_bytes())], false)?;
/// let mut arrivals = Arrivals::new(merged, None)?;
/// assert!(arrivals.has_ends());
/// let read = arrivals.next_io()?.unwrap();
/// assert_eq!((read.offset, read.length, read.latency_ns), (4096, 4096, Some(4000)));
/// assert!(arrivals.next_io()?.is_none());
/// # Ok::<(), platter_traces::TraceError>(())
/// ```
pub struct Arrivals<'r> {
    merged: Merged<'r>,
    basis: Action,
    pairing: Pairing,
    has_ends: bool,
    ended: bool,
}

impl<'r> Arrivals<'r> {
    /// The I/Os of a trace. `at` is the event at which an I/O counts as one, if it was chosen.
    ///
    /// # Errors
    /// One of the first records cannot be read.
    pub fn new(mut merged: Merged<'r>, at: Option<Action>) -> Result<Arrivals<'r>, TraceError> {
        merged.fill()?;
        let basis = at.unwrap_or_else(|| merged.basis());
        let has_ends = basis != Action::Complete && merged.has_ends();
        Ok(Arrivals { merged, basis, pairing: Pairing::default(), has_ends, ended: false })
    }

    /// The next I/O; `None` at the end.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn next_io(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some(event) = self.pairing.next(self.ended) {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.merged.next_item()? {
                Some(Item::Event(event)) => self.add(event),
                Some(Item::Note(_)) => {}
                None => self.ended = true,
            }
        }
    }

    fn add(&mut self, event: Event) {
        if event.action == self.basis {
            // Without completions there is nothing to wait for.
            let waits = self.has_ends && event.latency_ns.is_none() && !event.flags.has(Flags::COMMAND);
            match waits {
                true => self.pairing.arrive(event),
                false => self.pairing.arrive_done(event),
            }
        } else if event.action == Action::Complete {
            self.pairing.complete(&event);
        }
    }

    /// Whether the trace says when I/Os ended: as far as its first records tell.
    pub fn has_ends(&self) -> bool {
        self.has_ends
    }

    /// The event at which an I/O counts as one.
    pub fn basis(&self) -> Action {
        self.basis
    }

    /// The inputs.
    pub fn merged(&self) -> &Merged<'r> {
        &self.merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::merge::Input;

    fn all(format: Format, text: &str, at: Option<Action>) -> (bool, Vec<(u64, u64, Option<u64>)>) {
        let merged = Merged::new(vec![Input::new("t", format, text.as_bytes())], false).unwrap();
        let mut arrivals = Arrivals::new(merged, at).unwrap();
        let mut found = Vec::new();
        while let Some(event) = arrivals.next_io().unwrap() {
            found.push((event.time_ns, event.offset, event.latency_ns));
        }
        (arrivals.has_ends(), found)
    }

    const EVENTS: &str = "\
  8,0 0 1 0.000000000 5 Q   R 800 + 8 [a]
  8,0 1 1 0.000001000 6 Q   W 1600 + 8 [b]
  8,0 1 2 0.000002000 6 Q   W 1608 + 8 [b]
  8,0 0 2 0.000003000 5 D   R 800 + 8 [a]
  8,0 1 3 0.000004000 6 M   W 1608 + 8 [b]
  8,0 1 4 0.000005000 6 D   W 1600 + 16 [b]
  8,0 1 5 0.000050000 0 C   W 1600 + 16 [0]
  8,0 0 3 0.001003000 0 C   R 800 + 8 [0]
  8,0 1 6 0.002000000 6 Q FWS 0 + 0 [b]
";

    #[test]
    fn ios_come_in_order_with_the_time_that_each_took() {
        let (has_ends, found) = all(Format::Blkparse, EVENTS, None);
        assert!(has_ends);
        assert_eq!(
            found,
            [
                (0, 409_600, Some(1_003_000)),
                (1000, 819_200, Some(49_000)),
                (2000, 823_296, Some(48_000)),
                (2_000_000, 0, None)
            ]
        );
        let (_, found) = all(Format::Blkparse, EVENTS, Some(Action::Issue));
        assert_eq!(found, [(3000, 409_600, Some(1_000_000)), (5000, 819_200, Some(45_000))]);
        // Where completions are the I/Os, nothing ends.
        let (has_ends, found) = all(Format::Blkparse, EVENTS, Some(Action::Complete));
        assert_eq!((has_ends, found.len()), (false, 2));
    }

    #[test]
    fn formats_of_arrivals_have_latencies_or_none() {
        let csv = "128166372003061629,hm,0,Write,7014912,4096,26\n";
        assert_eq!(all(Format::Msr, csv, None).1[0].2, Some(2600));
        assert!(all(Format::Msr, csv, None).0);
        assert!(!all(Format::Alibaba, "1,R,0,512,7\n", None).0);
    }
}
