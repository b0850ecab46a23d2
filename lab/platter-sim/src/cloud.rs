//! A network volume with limits on I/Os and bytes per second, as cloud providers sell them.
//!
//! A command waits, first come first served, until two token buckets admit it, one of I/Os and one of bytes;
//! then it takes a time drawn from the seed: a base time, a jitter and occasionally a long tail. Admitted
//! commands do not wait for each other, so they may complete out of order.

use crate::model::{Command, Ended, Model};
use crate::rng::Rng;
use platter_block::bio::Op;
use platter_block::driver::Geometry;
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

/// Parameters of a network volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudParams {
    /// Bytes, a multiple of 512.
    pub size: u64,
    /// Least time of a read.
    pub read: Span,
    /// Least time of a write, discard or flush.
    pub write: Span,
    /// Upper bound of the jitter, evenly distributed.
    pub jitter: Span,
    /// Commands per million that take the additional time of the tail.
    pub tail_per_million: u32,
    /// Additional time of the tail.
    pub tail: Span,
    /// Limit of I/Os.
    pub iops: Bucket,
    /// Bytes that count as one I/O; a larger command counts as several.
    pub io_unit: u32,
    /// Limit of bytes.
    pub throughput: Bucket,
    /// Most commands at once.
    pub depth: u32,
    /// Decides the times.
    pub seed: u64,
}

/// A token bucket: a long-term rate, and an amount that can be saved for bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens that are added each second.
    pub per_second: u64,
    /// Most tokens in the bucket, which is full at the start. A command that needs more is admitted when the
    /// bucket is full, and the level is then negative by the difference.
    pub burst: u64,
}

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudError {
    /// The parameter.
    pub what: &'static str,
    /// Its value.
    pub found: u64,
    /// The allowed values.
    pub expected: &'static str,
}

impl fmt::Display for CloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: expected {}", self.what, self.found, self.expected)
    }
}

impl std::error::Error for CloudError {}

/// A token is this many parts, so that a nanosecond adds a whole number of them.
const PARTS: i128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Level {
    bucket: Bucket,
    /// Level of the bucket; negative while a command larger than the bucket is paid off.
    parts: i128,
    at: Time,
}

impl Level {
    fn new(bucket: Bucket) -> Level {
        Level { bucket, parts: i128::from(bucket.burst) * PARTS, at: Time(0) }
    }

    /// The level at `now`, which must not be before the last time.
    fn at(&self, now: Time) -> i128 {
        let added = i128::from(now.since(self.at).0) * i128::from(self.bucket.per_second);
        (self.parts + added).min(i128::from(self.bucket.burst) * PARTS)
    }

    /// When the bucket has `tokens` tokens or is full; not before `now`.
    fn ready(&self, now: Time, tokens: u64) -> Time {
        let wanted = i128::from(tokens.min(self.bucket.burst)) * PARTS;
        let missing = u128::try_from(wanted - self.at(now)).unwrap_or(0);
        now + Span(u64::try_from(missing.div_ceil(u128::from(self.bucket.per_second))).unwrap_or(u64::MAX))
    }

    fn take(&mut self, now: Time, tokens: u64) {
        self.parts = self.at(now) - i128::from(tokens) * PARTS;
        self.at = now;
    }
}

/// The disk.
#[derive(Debug)]
pub struct CloudDisk {
    params: CloudParams,
    iops: Level,
    throughput: Level,
    /// Commands that the buckets have not admitted yet.
    waiting: VecDeque<Command>,
    /// When the first of them is admitted.
    admission: Option<Time>,
    under_way: BinaryHeap<Reverse<(Time, u64, u32)>>,
    let_through: u64,
    random: Rng,
}

impl CloudDisk {
    /// A volume with these parameters and full buckets.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn new(params: CloudParams) -> Result<CloudDisk, CloudError> {
        let check = |ok: bool, what, found: u64, expected| match ok {
            true => Ok(()),
            false => Err(CloudError { what, found, expected }),
        };
        let size = params.size;
        check(size > 0 && size.is_multiple_of(512), "size", size, "a multiple of 512")?;
        for (what, bucket) in [("rate of I/Os", params.iops), ("throughput", params.throughput)] {
            check(bucket.per_second > 0, what, bucket.per_second, "more than 0 a second")?;
            check(bucket.burst > 0, "burst", bucket.burst, "more than 0")?;
        }
        check(params.io_unit >= 512, "bytes of an I/O", params.io_unit.into(), "at least 512")?;
        check(params.depth > 0, "depth", 0, "at least 1")?;
        let tail = params.tail_per_million;
        check(tail <= 1_000_000, "commands of a million in the tail", tail.into(), "at most 1000000")?;
        Ok(CloudDisk {
            iops: Level::new(params.iops),
            throughput: Level::new(params.throughput),
            waiting: VecDeque::new(),
            admission: None,
            under_way: BinaryHeap::new(),
            let_through: 0,
            random: Rng::new(params.seed),
            params,
        })
    }

    /// Tokens for a command: I/Os and bytes.
    fn cost(&self, command: &Command) -> (u64, u64) {
        let bytes = if command.op.has_data() { u64::from(command.sectors) * 512 } else { 0 };
        (bytes.div_ceil(self.params.io_unit.into()).max(1), bytes)
    }

    /// Computes when the first waiting command is admitted.
    fn plan(&mut self, now: Time) {
        self.admission = self.waiting.front().map(|command| {
            let (ios, bytes) = self.cost(command);
            self.iops.ready(now, ios).max(self.throughput.ready(now, bytes))
        });
    }

    /// Admits the first waiting command.
    fn admit(&mut self, at: Time) {
        if let Some(command) = self.waiting.pop_front() {
            let (ios, bytes) = self.cost(&command);
            self.iops.take(at, ios);
            self.throughput.take(at, bytes);
            let end = at + self.time_of(&command);
            self.under_way.push(Reverse((end, self.let_through, command.tag)));
            self.let_through += 1;
        }
        self.plan(at);
    }

    fn time_of(&mut self, command: &Command) -> Span {
        let base = if command.op == Op::Read { self.params.read } else { self.params.write };
        let jitter = self.random.below(self.params.jitter.0.saturating_add(1));
        let tail = self.random.chance(self.params.tail_per_million);
        Span(base.0.saturating_add(jitter).saturating_add(if tail { self.params.tail.0 } else { 0 }))
    }
}

impl Model for CloudDisk {
    fn geometry(&self) -> Geometry {
        let limits = Limits::unlimited(512)
            .with_physical_block(4096)
            .with_max_transfer(1 << 20)
            .with_max_segments(256)
            .with_discard_granularity(4096);
        Geometry::new(self.params.size, limits)
    }

    fn depth(&self) -> u32 {
        self.params.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        if self.waiting.len() + self.under_way.len() >= self.params.depth as usize {
            return false;
        }
        self.waiting.push_back(*command);
        if self.admission.is_none() {
            self.plan(now);
        }
        true
    }

    fn next_event(&self) -> Option<Time> {
        Time::earliest(self.admission, self.under_way.peek().map(|Reverse((end, ..))| *end))
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            if self.admission == Some(at) {
                self.admit(at);
            } else if let Some(Reverse((at, _, tag))) = self.under_way.pop() {
                ended.push(Ended { tag, at });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Host, command};

    fn params() -> CloudParams {
        CloudParams {
            size: 1 << 30,
            read: Span::from_micros(500),
            write: Span::from_micros(800),
            jitter: Span::ZERO,
            tail_per_million: 0,
            tail: Span::from_millis(50),
            iops: Bucket { per_second: 3000, burst: 1 },
            io_unit: 256 << 10,
            throughput: Bucket { per_second: 128 << 20, burst: 1 << 20 },
            depth: 64,
            seed: 1,
        }
    }

    fn disk(change: impl FnOnce(&mut CloudParams)) -> CloudDisk {
        let mut params = params();
        change(&mut params);
        CloudDisk::new(params).unwrap()
    }

    #[test]
    fn commands_are_let_through_at_exact_times() {
        let mut disk = disk(|params| params.iops.burst = 2);
        let mut host = Host::new(&mut disk);
        for _ in 0..6 {
            host.issue(command(Op::Read, 0, 4096));
        }
        let mut ends = Vec::new();
        while !host.inside.is_empty() {
            ends.extend(host.step().iter().map(|(end, _)| end.at.0));
        }
        // A third of a millisecond each, rounded up once and not each time.
        let admitted = [0, 0, 333_334, 666_667, 1_000_000, 1_333_334];
        assert_eq!(ends, admitted.map(|at| at + 500_000));
    }

    #[test]
    fn bursts_use_what_was_saved_and_no_more() {
        let mut disk = disk(|params| params.iops.burst = 100);
        let mut host = Host::new(&mut disk);
        // 100 at once, 64 at a time; the 300 after them at 3000/s.
        let time = host.run(64, 100, || command(Op::Write, 0, 512));
        assert_eq!(time, Span::from_micros(1600));
        let time = host.run(64, 304, || command(Op::Write, 0, 512));
        // 4.8 tokens were saved meanwhile; the last command is let through with the 304th.
        assert_eq!(time.0, (304_000_000_000u64 - 4_800_000_000).div_ceil(3000) + 800_000);
        // A pause fills the bucket completely.
        host.now += Span::from_secs(10);
        assert_eq!(host.run(64, 100, || command(Op::Write, 0, 512)), Span::from_micros(1600));
    }

    #[test]
    fn bytes_have_a_bucket_of_their_own() {
        let mut disk = disk(|params| params.iops.per_second = 1_000_000);
        let mut host = Host::new(&mut disk);
        // The bucket has 1 MiB; then 128 MiB a second.
        let time = host.run(64, 129, || command(Op::Read, 0, 1 << 20));
        assert_eq!(time.0, 1_000_000_000 + 500_000);
    }

    #[test]
    fn large_commands_count_as_several() {
        let mut disk = disk(|params| {
            params.throughput = Bucket { per_second: 1 << 40, burst: 1 << 40 };
            params.iops = Bucket { per_second: 1000, burst: 4 };
        });
        let mut host = Host::new(&mut disk);
        let time = host.run(64, 11, || command(Op::Read, 0, 1 << 20));
        assert_eq!(time.0, 40_000_000 + 500_000);
        // Larger than the bucket: let through when it is full, and paid off afterwards.
        let mut disk = self::disk(|params| {
            params.throughput = Bucket { per_second: 1 << 40, burst: 1 << 40 };
            params.iops = Bucket { per_second: 1000, burst: 1 };
        });
        let mut host = Host::new(&mut disk);
        assert_eq!(host.run(64, 11, || command(Op::Read, 0, 1 << 20)).0, 40_000_000 + 500_000);
    }

    #[test]
    fn times_vary_as_the_seed_says() {
        let times = |seed| {
            let mut disk = disk(|params| {
                params.iops = Bucket { per_second: 1_000_000_000, burst: 1_000_000 };
                params.jitter = Span::from_micros(200);
                params.tail_per_million = 10_000;
                params.seed = seed;
            });
            let mut host = Host::new(&mut disk);
            (0..10_000).map(|_| host.one(command(Op::Read, 0, 512)).0).collect::<Vec<u64>>()
        };
        let (one, two) = (times(1), times(2));
        assert_eq!(one, times(1));
        assert_ne!(one, two);
        let tail = one.iter().filter(|&&time| time >= 50_500_000).count();
        assert!((60..140).contains(&tail), "{tail}");
        let usual = one.iter().filter(|&&time| time < 50_000_000);
        assert!(usual.clone().all(|time| (500_000..=700_000).contains(time)));
        let mean = usual.clone().sum::<u64>() / usual.count() as u64;
        assert!(mean.abs_diff(600_000) < 3_000, "{mean}");
    }

    #[test]
    fn the_longest_times_end_with_the_clock() {
        let mut disk = disk(|params| (params.jitter, params.tail) = (Span(u64::MAX), Span(u64::MAX)));
        assert!(disk.accept(Time(u64::MAX - 1), &command(Op::Write, 0, 512)));
        let mut ended = Vec::new();
        disk.advance(Time(u64::MAX), &mut ended);
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn the_disk_is_full_at_its_depth() {
        let mut disk = disk(|params| params.depth = 2);
        let read = command(Op::Read, 0, 512);
        assert!(disk.accept(Time(0), &read) && disk.accept(Time(0), &read));
        assert!(!disk.accept(Time(0), &read));
        disk.advance(Time(500_000), &mut Vec::new());
        assert!(disk.accept(Time(500_000), &read));
    }

    #[test]
    fn what_no_disk_can_have_is_refused_by_name() {
        let wrong = |change: fn(&mut CloudParams)| {
            let mut params = params();
            change(&mut params);
            CloudDisk::new(params).err().map(|error| error.what)
        };
        assert_eq!(wrong(|p| p.size = 7), Some("size"));
        assert_eq!(wrong(|p| p.iops.per_second = 0), Some("rate of I/Os"));
        assert_eq!(wrong(|p| p.throughput.burst = 0), Some("burst"));
        assert_eq!(wrong(|p| p.depth = 0), Some("depth"));
        assert_eq!(wrong(|p| p.tail_per_million = 1_000_001), Some("commands of a million in the tail"));
        assert_eq!(wrong(|p| p.io_unit = 0), Some("bytes of an I/O"));
        assert_eq!(wrong(|_| ()), None);
    }
}
