//! What a conversion loses, counted.

/// Everything that can be lost, with the words for people.
pub const LOSSES: &[(&str, &str)] = &[
    ("events", "events that are no arrivals"),
    ("notes", "names of processes, start times and messages"),
    ("commands", "commands of the device's own set, and I/Os without a direction"),
    ("flushes", "flushes without data"),
    ("discards", "discards"),
    ("preflushes_split", "flushes before a write that became a flush of their own"),
    ("preflush_flags", "flushes before a write"),
    ("fua_flags", "marks for forced unit access"),
    ("sync_flags", "marks for synchronous I/O"),
    ("meta_flags", "marks for metadata"),
    ("ahead_flags", "marks for readahead"),
    ("zeroes_flags", "marks for writes of zeroes"),
    ("latencies", "latencies"),
    ("latencies_unknown", "I/Os whose completion is not in the trace, so that their latency stays empty"),
    ("errors", "error numbers"),
    ("processes", "numbers of processes"),
    ("processors", "numbers of processors"),
    ("details", "places, lengths and numbers that have no column in the text"),
    ("devices_renamed", "I/Os whose device has another name"),
    ("times_rounded", "times that were rounded down"),
    ("ranges_rounded", "ranges that were rounded out to whole sectors"),
    ("writes", "writes"),
];

/// How much of each was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss(Vec<u64>);

impl Loss {
    /// Counts one of a kind that is lost, if it is.
    pub(crate) fn count(&mut self, name: &str, lost: bool) {
        self.add(name, u64::from(lost));
    }

    fn add(&mut self, name: &str, number: u64) {
        self.0.resize(LOSSES.len(), 0);
        let at = LOSSES.iter().position(|known| known.0 == name);
        if let Some(place) = at.and_then(|at| self.0.get_mut(at)) {
            *place += number;
        }
    }

    /// Every kind with its words and its number.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        LOSSES
            .iter()
            .enumerate()
            .map(|(at, (name, words))| (*name, *words, self.0.get(at).copied().unwrap_or(0)))
    }
}
