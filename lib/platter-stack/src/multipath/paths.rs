//! The paths of a disk and which of them the next I/O takes.

use super::access::Access;
use platter_block::time::Span;

/// Which of several paths an I/O takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest I/Os.
    QueueLength,
    /// The one that is expected to have carried out the I/O first, by the bytes that it has and the time that it took for
    /// earlier ones.
    ServiceTime,
}

/// The policies by their values as a parameter.
pub(super) const POLICIES: &[&str] = &["round-robin", "queue-length", "service-time"];

impl Policy {
    pub(super) fn of(value: i64) -> Policy {
        match value {
            0 => Policy::RoundRobin,
            1 => Policy::QueueLength,
            _ => Policy::ServiceTime,
        }
    }
}

/// What a policy counts of an I/O besides its bytes, as if these were some more: seeking, a round trip.
const OVERHEAD: u64 = 4096;

/// Of how many I/Os the time per byte is a mean.
const MEMORY: u64 = 8;

/// A path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) is_up: bool,
    /// The target port group that it reaches, if the target tells, and how well that reaches the unit.
    pub(super) group: Option<u16>,
    pub(super) access: Access,
    /// Why it is not.
    pub(super) why: String,
    /// I/Os and bytes that it has.
    pub(super) ios: u32,
    pub(super) bytes: u64,
    /// What it has carried out, how often it has failed, and whether it has carried writes since the last flush.
    pub(super) done: u64,
    pub(super) failures: u64,
    pub(super) dirty: bool,
    /// Picoseconds for each byte.
    rate: u64,
}

/// The paths.
pub(super) struct Paths {
    all: Vec<Path>,
    pub(super) policy: Policy,
    last: usize,
}

impl Paths {
    pub(super) fn new(count: usize, policy: Policy) -> Paths {
        let path = Path {
            is_up: true,
            group: None,
            access: Access::Optimized,
            why: String::new(),
            ios: 0,
            bytes: 0,
            done: 0,
            failures: 0,
            dirty: false,
            rate: 0,
        };
        Paths { all: vec![path; count], policy, last: count.saturating_sub(1) }
    }

    pub(super) fn all(&self) -> &[Path] {
        &self.all
    }

    pub(super) fn get(&mut self, path: usize) -> &mut Path {
        &mut self.all[path]
    }

    /// Takes a path for an I/O of `len` bytes, but none of `tried`. `None`: there is none.
    pub(super) fn take(&mut self, len: u64, tried: &[usize]) -> Option<usize> {
        let count = self.all.len();
        // In turn from the last one on, also among paths that are equally good.
        let turns = (1..=count).map(|step| (self.last + step) % count);
        let fit = turns.filter(|path| self.all[*path].is_up && !tried.contains(path));
        let cost = |path: &usize| {
            let path = &self.all[*path];
            match self.policy {
                Policy::RoundRobin => 0,
                Policy::QueueLength => u128::from(path.ios),
                Policy::ServiceTime => u128::from(path.bytes + len + OVERHEAD) * u128::from(path.rate),
            }
        };
        // Paths with worse access are used only while there are no others (SPC-4, 5.15).
        let path = fit.min_by_key(|path| (self.all[*path].access, cost(path)))?;
        self.last = path;
        let taken = &mut self.all[path];
        taken.ios += 1;
        taken.bytes += len + OVERHEAD;
        Some(path)
    }

    /// The I/O is back, after `took`.
    pub(super) fn give_back(&mut self, path: usize, len: u64, took: Option<Span>) {
        let path = &mut self.all[path];
        path.ios -= 1;
        path.bytes -= len + OVERHEAD;
        if let Some(took) = took {
            path.done += 1;
            let now = took.0.saturating_mul(1000) / (len + OVERHEAD);
            let sum = u128::from(path.rate) * u128::from(MEMORY - 1) + u128::from(now);
            path.rate = if path.rate == 0 { now } else { (sum / u128::from(MEMORY)) as u64 };
        }
    }

    /// Whether any path is up.
    pub(super) fn any(&self) -> bool {
        self.all.iter().any(|path| path.is_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(paths: &mut Paths, count: usize) -> Vec<usize> {
        (0..count).map(|_| paths.take(4096, &[]).unwrap()).collect()
    }

    #[test]
    fn paths_take_turns_and_those_that_are_down_are_left_out() {
        let mut paths = Paths::new(3, Policy::RoundRobin);
        assert_eq!(takes(&mut paths, 5), [0, 1, 2, 0, 1]);
        paths.get(2).is_up = false;
        assert_eq!(takes(&mut paths, 3), [0, 1, 0]);
        assert_eq!(paths.take(4096, &[0]), Some(1));
        assert_eq!(paths.take(4096, &[0, 1]), None);
        (0..3).for_each(|path| paths.get(path).is_up = false);
        assert!(!paths.any() && paths.take(0, &[]).is_none());
    }

    #[test]
    fn better_access_goes_before_the_policy() {
        for policy in [Policy::RoundRobin, Policy::QueueLength, Policy::ServiceTime] {
            let mut paths = Paths::new(4, policy);
            paths.get(0).access = Access::Unreachable;
            paths.get(2).access = Access::NonOptimized;
            let both = takes(&mut paths, 4);
            assert!(both.iter().all(|path| [1, 3].contains(path)) && both[0] != both[1], "{both:?}");
            [1, 3].into_iter().for_each(|path| paths.get(path).is_up = false);
            assert_eq!(takes(&mut paths, 2), [2, 2]);
            paths.get(2).is_up = false;
            assert_eq!(takes(&mut paths, 1), [0]);
        }
    }

    #[test]
    fn the_shorter_queue_is_taken() {
        let mut paths = Paths::new(2, Policy::QueueLength);
        assert_eq!(takes(&mut paths, 4), [0, 1, 0, 1]);
        paths.give_back(1, 4096, Some(Span(5)));
        paths.give_back(1, 4096, Some(Span(5)));
        assert_eq!(takes(&mut paths, 3), [1, 1, 0]);
        assert_eq!(paths.all()[1].done, 2);
    }

    #[test]
    fn the_faster_path_gets_more() {
        let mut paths = Paths::new(2, Policy::ServiceTime);
        for path in takes(&mut paths, 2) {
            paths.give_back(path, 4096, Some(Span([1_000_000, 4_000_000][path])));
        }
        let fast = takes(&mut paths, 10).into_iter().filter(|path| *path == 0).count();
        assert_eq!(fast, 8);
    }
}
