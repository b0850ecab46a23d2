//! The cost of I/Os.

use super::{Io, Outcome};

/// The cost of a device's I/Os, in microseconds.
///
/// The cost of a result is the sum of `wait` for each wait of a thread, `io` for each I/O, `page` for each
/// page read, used or not, and for each I/O that does not begin where the last one ended `seek`, or the time
/// to read the pages between if that is less and they are ahead. It ignores what concurrent I/Os save, and
/// the processor time of policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Name.
    pub name: &'static str,
    /// Each wait: the time in which the device is idle, or has not responded yet.
    pub wait: f64,
    /// Each I/O: command and completion.
    pub io: f64,
    /// Each page: its transfer.
    pub page: f64,
    /// Each I/O that does not continue the last one.
    pub seek: f64,
}

/// A disk of 7200 revolutions a minute, 160 MB/s: half a revolution is lost with each wait, 4 ms with each seek.
pub const DISK: Cost = Cost { name: "disk", wait: 4000.0, io: 100.0, page: 25.0, seek: 4000.0 };

/// A flash disk, 1 GB/s: a read that a thread waits for takes 80 us, 8 us of them for the command.
pub const SSD: Cost = Cost { name: "ssd", wait: 72.0, io: 8.0, page: 4.0, seek: 0.0 };

impl Cost {
    /// The cost of an outcome, in microseconds.
    pub fn of(&self, outcome: &Outcome) -> f64 {
        let seeks: f64 = outcome.ios.windows(2).map(|pair| self.way(pair[0], pair[1])).sum();
        let first = if outcome.ios.is_empty() { 0.0 } else { self.seek };
        self.wait * outcome.waits as f64
            + self.io * outcome.ios.len() as f64
            + self.page * outcome.pages_read as f64
            + first
            + seeks
    }

    /// From the end of one I/O to the beginning of the next.
    fn way(&self, from: Io, to: Io) -> f64 {
        match to.page.checked_sub(from.page + u64::from(from.pages)) {
            Some(between) => self.seek.min(self.page * between as f64),
            None => self.seek,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_cache::readahead::Counters;

    #[test]
    fn each_wait_io_page_and_way_is_paid() {
        let io = |page| Io { page, pages: 2, sync: true, round: 0 };
        let outcome = Outcome {
            // On, 3 pages skipped, far away, back.
            ios: [0, 2, 7, 1000, 0].map(io).to_vec(),
            windows: Vec::new(),
            counters: Counters::default(),
            reads: 5,
            pages_read: 10,
            pages_used: 10,
            evicted_unused: 0,
            waits: 3,
            rounds: 0,
        };
        assert_eq!(DISK.of(&outcome), 3.0 * 4000.0 + 5.0 * 100.0 + 10.0 * 25.0 + 3.0 * 4000.0 + 75.0);
        assert_eq!(SSD.of(&outcome), 3.0 * 72.0 + 5.0 * 8.0 + 10.0 * 4.0);
    }
}
