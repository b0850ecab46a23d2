//! Pattern of generated reads.

use super::Read;
use crate::stats::Seeded;

/// The pattern of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other.
    Sequential,
    /// Anywhere, at multiples of the request size.
    Random,
    /// Sequences far from each other that take turns.
    Interleaved,
    /// Each so far behind the beginning of the last.
    Strided,
    /// One before the other.
    Reverse,
    /// Short sequences at random places.
    Runs,
    /// A read of a sequence, then one anywhere.
    Mixed,
}

impl Pattern {
    /// All patterns with their names on the command line.
    pub const ALL: [(&'static str, Pattern); 7] = [
        ("sequential", Pattern::Sequential),
        ("random", Pattern::Random),
        ("interleaved", Pattern::Interleaved),
        ("strided", Pattern::Strided),
        ("reverse", Pattern::Reverse),
        ("runs", Pattern::Runs),
        ("mixed", Pattern::Mixed),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Pattern::ALL.iter().find(|(_, pattern)| *pattern == self).map_or("", |(name, _)| name)
    }
}

/// Generated reads. Each thread reads in an equal share of the span; random reads are anywhere in the span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The pattern.
    pub pattern: Pattern,
    /// Bytes of each read, at least 1.
    pub request: u64,
    /// Reads of all threads together.
    pub count: u64,
    /// Where they begin, in bytes.
    pub start: u64,
    /// The range of the reads in bytes.
    pub span: u64,
    /// Sequences of each thread, of `Interleaved`.
    pub streams: u64,
    /// Bytes from one read to the next, of `Strided`.
    pub stride: u64,
    /// Reads of a sequence, of `Runs`.
    pub run: u64,
    /// Threads; read `n` is that of thread `n` modulo their number.
    pub threads: u32,
    /// Handles; thread `n` has handle `n` modulo their number.
    pub handles: u32,
    /// Seed of random positions.
    pub seed: u64,
}

impl Default for Workload {
    /// 1000 reads of 16 KiB in sequence, by one thread.
    fn default() -> Workload {
        Workload {
            pattern: Pattern::Sequential,
            request: 16 << 10,
            count: 1000,
            start: 0,
            span: 16 << 30,
            streams: 4,
            stride: 64 << 10,
            run: 8,
            threads: 1,
            handles: 1,
            seed: 1,
        }
    }
}

impl Workload {
    /// The reads, in the order in which threads reach them.
    pub fn reads(&self) -> Vec<Read> {
        let threads = u64::from(self.threads.max(1));
        let mut random = Seeded::new(self.seed);
        let mut places = vec![0; threads as usize];
        let reads = (0..self.count).map(|n| {
            let thread = n % threads;
            let pos = self.pos(thread, n / threads, &mut random, &mut places[thread as usize]);
            let (thread, handle) = (thread as u32, thread as u32 % self.handles.max(1));
            Read { thread, handle, pos: self.start.saturating_add(pos), len: self.request.max(1) }
        });
        reads.collect()
    }

    /// Where the read `n` of a thread begins, from the start of the span; `place` is where its run began.
    fn pos(&self, thread: u64, n: u64, random: &mut Seeded, place: &mut u64) -> u64 {
        let request = self.request.max(1);
        let share = (self.span / u64::from(self.threads.max(1))).max(request);
        let base = thread * share;
        let anywhere = |random: &mut Seeded| random.below((self.span / request).max(1)) * request;
        match self.pattern {
            Pattern::Sequential => base + n * request % share,
            Pattern::Random => anywhere(random),
            Pattern::Interleaved => {
                let streams = self.streams.max(1);
                // Whole requests apart, so that streams keep the alignment of the first.
                let apart = (share / streams / request).max(1) * request;
                base + n % streams * apart + n / streams * request % apart
            }
            Pattern::Strided => base + n.saturating_mul(self.stride) % share,
            Pattern::Reverse => {
                base + (share / request - 1) * request - n * request % share / request * request
            }
            Pattern::Runs => {
                if n.is_multiple_of(self.run.max(1)) {
                    *place = anywhere(random);
                }
                *place + n % self.run.max(1) * request
            }
            Pattern::Mixed => {
                if n % 2 == 1 {
                    return anywhere(random);
                }
                base + n / 2 * request % share
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(workload: Workload) -> Vec<u64> {
        workload.reads().iter().map(|read| read.pos).collect()
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        let base = Workload {
            request: 4,
            count: 6,
            span: 40,
            stride: 12,
            run: 3,
            streams: 2,
            ..Workload::default()
        };
        let of = |pattern| positions(Workload { pattern, ..base.clone() });
        assert_eq!(of(Pattern::Sequential), [0, 4, 8, 12, 16, 20]);
        assert_eq!(of(Pattern::Strided), [0, 12, 24, 36, 8, 20]);
        assert_eq!(of(Pattern::Reverse), [36, 32, 28, 24, 20, 16]);
        assert_eq!(of(Pattern::Interleaved), [0, 20, 4, 24, 8, 28]);
        assert_eq!(of(Pattern::Mixed)[..].iter().step_by(2).copied().collect::<Vec<_>>(), [0, 4, 8]);
        let runs = of(Pattern::Runs);
        assert_eq!((runs[1] - runs[0], runs[2] - runs[1], runs[4] - runs[3]), (4, 4, 4));
        let random = of(Pattern::Random);
        assert!(random.iter().all(|pos| pos % 4 == 0 && *pos < 40));
        assert_eq!(random, of(Pattern::Random));
        assert_ne!(random, positions(Workload { pattern: Pattern::Random, seed: 2, ..base }));
    }

    #[test]
    fn threads_have_their_own_part_and_share_handles() {
        let workload =
            Workload { threads: 4, handles: 2, count: 8, request: 1, span: 400, ..Workload::default() };
        let reads = workload.reads();
        assert_eq!(reads[5], Read { thread: 1, handle: 1, pos: 101, len: 1 });
        assert_eq!(reads[2], Read { thread: 2, handle: 0, pos: 200, len: 1 });
    }
}
