//! Positions of requests.

use super::cell::Pattern;
use crate::stats::Seeded;

/// A stream of places: chunks at random multiples of their size, requests in sequence within.
#[derive(Clone, Debug)]
pub(super) struct Places {
    rng: Seeded,
    chunks: u64,
    chunk: u64,
    request: u64,
    random: bool,
    /// Next request of the chunk, and the chunk's end.
    next: u64,
    end: u64,
}

impl Places {
    /// Places on a device of `size` bytes, which holds at least one chunk.
    pub(super) fn new(pattern: Pattern, request: u64, size: u64, seed: u64, stream: u64) -> Places {
        let chunk = match pattern {
            Pattern::Chunks(bytes) => bytes,
            Pattern::Stream => size - size % request,
        };
        Places {
            rng: Seeded::stream(seed, stream),
            chunks: size / chunk.max(1),
            chunk,
            request,
            random: pattern != Pattern::Stream,
            next: 0,
            end: 0,
        }
    }

    /// Offset of the next request.
    pub(super) fn next(&mut self) -> u64 {
        if self.next == self.end {
            let chunk = if self.random { self.rng.below(self.chunks) } else { 0 };
            self.next = chunk * self.chunk;
            self.end = self.next + self.chunk;
        }
        let offset = self.next;
        self.next += self.request;
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_in_sequence_and_lie_on_the_device() {
        let mut places = Places::new(Pattern::Chunks(4096), 1024, 10_000, 1, 0);
        let mut seen = [false; 2];
        for _ in 0..100 {
            let first = places.next();
            assert!(first.is_multiple_of(4096) && first + 4096 <= 10_000);
            seen[(first / 4096) as usize] = true;
            assert_eq!([places.next(), places.next(), places.next()], [1, 2, 3].map(|n| first + n * 1024));
        }
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn a_stream_goes_round() {
        let mut places = Places::new(Pattern::Stream, 4096, 10_000, 1, 0);
        assert_eq!([0; 5].map(|_| places.next()), [0, 4096, 0, 4096, 0]);
    }
}
