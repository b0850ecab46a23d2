//! The reads of a recording as the calls of an agent.

use super::recording::{Query, Recording};

/// Most bytes that one call reads, and the unit in which the database is spread over the disks.
pub const PREFETCH_BYTES: u64 = 64 << 10;

/// One call: pages of one extent of [`PREFETCH_BYTES`] that follow each other, a buffer for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The first page.
    pub page: u64,
    /// How many pages, at least one.
    pub pages: u64,
    /// Processor time of the query that goes with it, in nanoseconds.
    pub compute_ns: u64,
}

/// The calls of a query: reads of pages that follow each other within an extent become one call, as the database of the paper
/// prefetched with `readv`.
fn of(query: &Query, per_call: u64) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for read in &query.reads {
        match calls.last_mut() {
            Some(call) if read.page == call.page + call.pages && !read.page.is_multiple_of(per_call) => {
                call.pages += 1;
                call.compute_ns += read.compute_ns;
            }
            _ => calls.push(Call { page: read.page, pages: 1, compute_ns: read.compute_ns }),
        }
    }
    calls
}

/// The calls of a recording, by query.
pub(super) struct Calls {
    all: Vec<Call>,
    /// Where each query begins in `all`.
    starts: Vec<usize>,
    pub(super) page_bytes: u64,
}

impl Calls {
    pub(super) fn new(recording: &Recording) -> Calls {
        let page_bytes = u64::from(recording.page_bytes());
        let mut calls = Calls { all: Vec::new(), starts: Vec::new(), page_bytes };
        for query in recording.queries() {
            calls.starts.push(calls.all.len());
            calls.all.extend(of(query, calls.pages_per_call()));
        }
        calls
    }

    /// Pages of an extent.
    pub(super) fn pages_per_call(&self) -> u64 {
        PREFETCH_BYTES / self.page_bytes
    }

    /// Calls of all queries.
    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// The calls of an agent, from its call number `first` on and without an end: all queries over and over, agents begin with
    /// different ones.
    pub(super) fn of_agent(&self, agent: usize, first: u64) -> impl Iterator<Item = &Call> {
        let start = self.starts.get(agent % self.starts.len().max(1)).copied().unwrap_or(0);
        let skip = (start as u64 + first) % self.count().max(1);
        self.all.iter().cycle().skip(skip as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsw::Read;

    #[test]
    fn pages_in_sequence_become_one_call_within_an_extent() {
        let reads = |pages: &[u64]| pages.iter().map(|&page| Read { page, compute_ns: 10 }).collect();
        let scan: Vec<u64> = (5..40).chain([3, 4, 4, 90]).collect();
        let queries = vec![
            Query { name: "scan".into(), reads: reads(&scan) },
            Query { name: "empty".into(), reads: reads(&[]) },
            Query { name: "point".into(), reads: reads(&[7]) },
        ];
        let calls = Calls::new(&Recording::new(1.0, 4096, 100, queries).unwrap());
        let found: Vec<_> = calls.all.iter().map(|call| (call.page, call.pages)).collect();
        assert_eq!(found, [(5, 11), (16, 16), (32, 8), (3, 2), (4, 1), (90, 1), (7, 1)]);
        assert_eq!(calls.all.iter().map(|call| call.compute_ns).sum::<u64>(), 400);
        let pages =
            |agent, first| calls.of_agent(agent, first).take(3).map(|call| call.page).collect::<Vec<_>>();
        assert_eq!(pages(0, 0), [5, 16, 32]);
        assert_eq!(
            (pages(2, 0), pages(3, 0), pages(2, 8)),
            (vec![7, 5, 16], vec![5, 16, 32], vec![5, 16, 32])
        );
    }
}
