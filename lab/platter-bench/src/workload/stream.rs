//! The I/Os of one job, one after the other.

use super::{JobOptions, Offsets, RandomMap, RandomOffsets, ReadWriteMix, Region, Sequential};
use crate::stats::Seeded;

/// One I/O of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// Read at this byte offset.
    Read(u64),
    /// Write at this byte offset.
    Write(u64),
    /// Discard at this byte offset.
    Trim(u64),
}

impl Io {
    /// The byte offset.
    #[inline]
    pub fn offset(self) -> u64 {
        match self {
            Self::Read(offset) | Self::Write(offset) | Self::Trim(offset) => offset,
        }
    }
}

/// The endless stream of I/Os of one job; each is `bs` bytes long.
///
/// As with fio, a sequential mix goes forward in each direction on its own, and a random mix visits each block
/// once per pass in either direction.
///
/// ```
/// use platter_bench::workload::{Io, IoStream, JobOptions, Region};
/// let job = JobOptions::default();
/// let region = Region::new(0, 1 << 20, job.bs).unwrap();
/// let mut ios = IoStream::new(&job, region, 1, 0);
/// assert_eq!((ios.next_io(), ios.next_io()), (Io::Read(0), Io::Read(4096)));
/// ```
#[derive(Debug, Clone)]
pub struct IoStream {
    offsets: Offsets,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Read,
    Write,
    Trim,
    /// Both directions draw from the same offsets.
    RandomMix(ReadWriteMix),
    /// `offsets` are those of the reads; the writes have their own.
    SequentialMix(ReadWriteMix, Sequential),
}

impl IoStream {
    /// The I/Os of job number `index` of the run of `seed` ([`JobOptions::effective_seed`]) over `region`.
    /// Jobs of one run have random streams of their own.
    pub fn new(job: &JobOptions, region: Region, seed: u64, index: u32) -> Self {
        let stream = |which: u64| Seeded::stream(seed, u64::from(index) * 2 + which);
        let offsets = match (job.rw.is_random(), job.norandommap) {
            (false, _) => Offsets::Sequential(Sequential::new(region)),
            (true, true) => Offsets::Random(RandomOffsets::new(region, stream(0))),
            (true, false) => Offsets::RandomMap(RandomMap::new(region, stream(0))),
        };
        let mix = ReadWriteMix::new(job.rwmixread, stream(1));
        let kind = match job.rw {
            rw if rw.is_mixed() && rw.is_random() => Kind::RandomMix(mix),
            rw if rw.is_mixed() => Kind::SequentialMix(mix, Sequential::new(region)),
            rw if rw.trims() => Kind::Trim,
            rw if rw.writes() => Kind::Write,
            _ => Kind::Read,
        };
        Self { offsets, kind }
    }

    /// The offsets alone, if all I/Os have one direction: a loop that knows this need not check each time.
    pub fn into_offsets(self) -> Option<Offsets> {
        match self.kind {
            Kind::Read | Kind::Write | Kind::Trim => Some(self.offsets),
            Kind::RandomMix(_) | Kind::SequentialMix(..) => None,
        }
    }

    /// The next I/O.
    #[inline]
    pub fn next_io(&mut self) -> Io {
        match &mut self.kind {
            Kind::Read => Io::Read(self.offsets.next_offset()),
            Kind::Write => Io::Write(self.offsets.next_offset()),
            Kind::Trim => Io::Trim(self.offsets.next_offset()),
            Kind::RandomMix(mix) => {
                let offset = self.offsets.next_offset();
                if mix.next_is_read() { Io::Read(offset) } else { Io::Write(offset) }
            }
            Kind::SequentialMix(mix, writes) => {
                if mix.next_is_read() {
                    Io::Read(self.offsets.next_offset())
                } else {
                    Io::Write(writes.next_offset())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rw;
    use super::*;

    fn ios(rw: Rw, seed: u64, index: u32, n: usize) -> Vec<Io> {
        let job = JobOptions { rw, rwmixread: 70, ..JobOptions::default() };
        let mut stream = IoStream::new(&job, Region::new(0, 1000 * 4096, 4096).unwrap(), seed, index);
        (0..n).map(|_| stream.next_io()).collect()
    }

    #[test]
    fn each_rw_issues_its_directions() {
        for rw in Rw::ALL {
            let all = ios(rw, 1, 0, 2000);
            assert_eq!(all.iter().any(|io| matches!(io, Io::Read(_))), rw.reads(), "{rw}");
            assert_eq!(all.iter().any(|io| matches!(io, Io::Write(_))), rw.writes(), "{rw}");
            assert_eq!(all.iter().any(|io| matches!(io, Io::Trim(_))), rw.trims(), "{rw}");
        }
    }

    #[test]
    fn a_sequential_mix_is_sequential_in_each_direction() {
        let all = ios(Rw::ReadWrite, 1, 0, 1000);
        let (reads, writes): (Vec<Io>, Vec<Io>) = all.iter().partition(|io| matches!(io, Io::Read(_)));
        assert!(reads.len().abs_diff(700) < 60, "{}", reads.len());
        for part in [reads, writes] {
            let offsets: Vec<u64> = part.iter().map(|io| io.offset()).collect();
            assert_eq!(offsets, (0..part.len() as u64).map(|i| i * 4096).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_random_mix_touches_each_block_once_per_pass() {
        let mut offsets: Vec<u64> = ios(Rw::RandRw, 1, 0, 1000).iter().map(|io| io.offset()).collect();
        assert!(!offsets.is_sorted());
        offsets.sort_unstable();
        assert_eq!(offsets, (0..1000).map(|i| i * 4096).collect::<Vec<_>>());
    }

    #[test]
    fn offsets_alone_are_those_of_the_ios() {
        for rw in Rw::ALL {
            let job = JobOptions { rw, ..JobOptions::default() };
            let mut stream = IoStream::new(&job, Region::new(0, 1000 * 4096, 4096).unwrap(), 1, 0);
            let Some(mut alone) = stream.clone().into_offsets() else {
                assert!(rw.is_mixed());
                continue;
            };
            assert!(!rw.is_mixed());
            assert!((0..100).all(|_| alone.next_offset() == stream.next_io().offset()));
        }
    }

    #[test]
    fn a_seed_repeats_and_jobs_differ() {
        for rw in [Rw::RandRead, Rw::RandRw] {
            assert_eq!(ios(rw, 3, 1, 100), ios(rw, 3, 1, 100));
            assert_ne!(ios(rw, 3, 1, 100), ios(rw, 3, 2, 100));
            assert_ne!(ios(rw, 3, 1, 100), ios(rw, 4, 1, 100));
        }
        // The positions of a random job do not depend on the direction.
        let places = |rw| ios(rw, 3, 0, 100).iter().map(|io| io.offset()).collect::<Vec<_>>();
        assert_eq!(places(Rw::RandRead), places(Rw::RandRw));
    }
}
