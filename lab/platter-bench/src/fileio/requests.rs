//! The source of requests, shared by all threads as in SysBench.
//!
//! The rules are those that traces of the system calls of SysBench 1.0.20 show. With `rndrw`, the next
//! request is a read while (reads + 1) / (writes + 1) is below the ratio, both counted when handed out. After
//! each `fsync_freq` reads and writes all files are made durable, if any of them was written to since the
//! last time; each file is a separate request.

use super::plan::{Count, Mode, Plan, SyncedBy};
use crate::stats::Seeded;

/// A request of a thread. Positions are in bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A block is read.
    Read {
        /// Number of the file.
        file: u32,
        /// Position in bytes.
        pos: u64,
    },
    /// A block is written.
    Write {
        /// Number of the file.
        file: u32,
        /// Position in bytes.
        pos: u64,
    },
    /// A file is synced.
    Sync {
        /// Number of the file.
        file: u32,
    },
}

/// Hands out requests.
pub struct Requests {
    mode: Mode,
    files: u32,
    file_size: u64,
    block: u64,
    ratio: f64,
    /// 0: never.
    freq: u64,
    synced_by: SyncedBy,
    /// Events that may still be handed out.
    left: u64,
    counts_syncs: bool,
    rng: Seeded,
    reads: u64,
    writes: u64,
    /// Something was written since the last time that files were made durable.
    dirty: bool,
    /// The next file of a round in which all threads take part.
    shared: Option<u32>,
    /// The next file of each thread that makes all files durable by itself.
    own: Vec<Option<u32>>,
    /// Where sequential requests are.
    next: u64,
}

impl Requests {
    /// The requests of a plan that has been checked.
    pub fn new(plan: &Plan) -> Requests {
        Requests {
            mode: plan.mode,
            files: plan.files,
            file_size: plan.file_size(),
            block: plan.block,
            ratio: plan.rw_ratio,
            freq: if plan.fsync_all { 0 } else { plan.fsync_freq.into() },
            synced_by: plan.synced_by,
            left: if plan.events == 0 { u64::MAX } else { plan.events },
            counts_syncs: plan.count == Count::All,
            rng: Seeded::stream(plan.seed, 0),
            reads: 0,
            writes: 0,
            dirty: false,
            shared: None,
            own: vec![None; plan.threads as usize],
            next: 0,
        }
    }

    /// The next request of a thread. `None`: the thread has finished.
    pub fn next(&mut self, thread: u32) -> Option<Request> {
        if self.counts_syncs && self.left == 0 {
            return None;
        }
        self.begin_round(thread);
        if let Some(sync) = self.next_sync(thread) {
            self.left -= u64::from(self.counts_syncs);
            return Some(sync);
        }
        self.left = self.left.checked_sub(1)?;
        let (file, pos) = self.place();
        if self.reads_next() {
            self.reads += 1;
            return Some(Request::Read { file, pos });
        }
        self.writes += 1;
        self.dirty = true;
        Some(Request::Write { file, pos })
    }

    /// Begins to make all files durable if it is time.
    fn begin_round(&mut self, thread: u32) {
        let done = self.reads + self.writes;
        if self.own[thread as usize].is_some() {
            // Another round is in progress: the next thread to ask begins this one.
            return;
        }
        if !self.dirty || self.freq == 0 || !done.is_multiple_of(self.freq) {
            return;
        }
        self.dirty = false;
        match self.synced_by {
            SyncedBy::Shared => self.shared = Some(0),
            SyncedBy::One => self.own[thread as usize] = Some(0),
        }
    }

    fn next_sync(&mut self, thread: u32) -> Option<Request> {
        let round = match self.synced_by {
            SyncedBy::Shared => &mut self.shared,
            SyncedBy::One => &mut self.own[thread as usize],
        };
        let file = (*round)?;
        *round = Some(file + 1).filter(|next| *next < self.files);
        Some(Request::Sync { file })
    }

    fn reads_next(&self) -> bool {
        match self.mode {
            Mode::SeqRd | Mode::RndRd => true,
            Mode::SeqWr | Mode::SeqRewr | Mode::RndWr => false,
            Mode::RndRw => ((self.reads + 1) as f64) < self.ratio * (self.writes + 1) as f64,
        }
    }

    fn place(&mut self) -> (u32, u64) {
        let blocks = self.file_size / self.block;
        if !self.mode.is_sequential() {
            let file = self.rng.below(self.files.into()) as u32;
            return (file, self.rng.below(blocks) * self.block);
        }
        let number = self.next;
        self.next = (number + 1) % (blocks * u64::from(self.files));
        ((number / blocks) as u32, number % blocks * self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan() -> Plan {
        Plan { files: 3, total_size: 3 << 16, fsync_freq: 10, events: 50, ..Plan::default() }
    }

    fn all(plan: &Plan) -> Vec<Request> {
        plan.check().unwrap();
        let mut requests = Requests::new(plan);
        let next = |_| requests.next(0);
        (0..100_000).map_while(next).collect()
    }

    /// R, W and the number of the file that is made durable.
    fn kinds(plan: &Plan) -> String {
        let letter = |request: &Request| match request {
            Request::Read { .. } => 'R',
            Request::Write { .. } => 'W',
            Request::Sync { file } => char::from_digit(*file, 10).unwrap(),
        };
        all(plan).iter().map(letter).collect()
    }

    /// The requests that a trace of SysBench 1.0.20 shows for these options.
    #[test]
    fn reads_writes_and_fsyncs_come_as_from_sysbench() {
        let as_sysbench = Plan { count: Count::All, ..plan() };
        assert_eq!(kinds(&as_sysbench), "RWRWRRWRWR012RWRWRRWRWR012RWRWRRWRWR012RWRWRRWRWR0");
        let ratio = |rw_ratio| kinds(&Plan { rw_ratio, events: 12, fsync_freq: 0, ..plan() });
        assert_eq!([3.0, 0.5, 0.0].map(ratio), ["RRWRRRWRRRWR", "WWRWWRWWRWWR", "WWWWWWWWWWWW"]);
        let mode = |mode| kinds(&Plan { mode, events: 12, fsync_freq: 5, ..plan() });
        assert_eq!(mode(Mode::SeqRewr), "WWWWW012WWWWW012WW");
        assert_eq!([mode(Mode::RndRd), mode(Mode::SeqRd)], ["RRRRRRRRRRRR"; 2]);
        assert_eq!(kinds(&Plan { fsync_all: true, mode: Mode::RndWr, events: 12, ..plan() }), "WWWWWWWWWWWW");
    }

    #[test]
    fn ten_thousand_requests_are_22800_of_sysbenchs_events() {
        let requests = all(&Plan::default());
        assert_eq!(requests.len(), 22_800);
        let count = |which: fn(&Request) -> bool| requests.iter().filter(|r| which(r)).count();
        assert_eq!(count(|r| matches!(r, Request::Read { .. })), 6000);
        assert_eq!(count(|r| matches!(r, Request::Write { .. })), 4000);
        let as_sysbench = Plan { count: Count::All, events: 22_800, ..Plan::default() };
        assert_eq!(all(&as_sysbench), requests);
    }

    #[test]
    fn sequential_requests_go_through_all_files_and_begin_again() {
        let plan = Plan { mode: Mode::SeqRd, events: 14, ..plan() };
        let expected = (0..14).map(|n| Request::Read { file: n / 4 % 3, pos: u64::from(n % 4) << 14 });
        assert_eq!(all(&plan), expected.collect::<Vec<_>>());
    }

    #[test]
    fn one_thread_makes_all_files_durable_while_others_go_on() {
        let plan = Plan { mode: Mode::RndWr, synced_by: SyncedBy::One, fsync_freq: 2, events: 5, ..plan() };
        let mut requests = Requests::new(&Plan { threads: 2, ..plan });
        let mut next = |thread| requests.next(thread);
        let is_write = |request| matches!(request, Some(Request::Write { .. }));
        assert!(is_write(next(0)) && is_write(next(1)));
        assert_eq!(next(0), Some(Request::Sync { file: 0 }));
        assert!(is_write(next(1)) && is_write(next(1)));
        // The fourth was thread 1's, which has time for the second round.
        assert_eq!(next(0), Some(Request::Sync { file: 1 }));
        assert_eq!(next(1), Some(Request::Sync { file: 0 }));
        assert_eq!(next(0), Some(Request::Sync { file: 2 }));
        assert!(is_write(next(0)));
        assert_eq!(next(0), None);
        assert_eq!(
            [next(1), next(1), next(1)],
            [Some(Request::Sync { file: 1 }), Some(Request::Sync { file: 2 }), None]
        );
    }

    proptest! {
        #[test]
        fn the_mix_follows_the_ratio_and_stays_within_the_files(
            seed in any::<u64>(),
            ratio in 0u32..80,
            files in 1u32..20,
            blocks in 1u64..9,
            freq in 0u32..30,
        ) {
            let ratio = f64::from(ratio) / 8.0;
            let plan = Plan {
                seed, files, rw_ratio: ratio, fsync_freq: freq, events: 1000,
                total_size: (u64::from(files) * blocks) << 14, ..Plan::default()
            };
            let (mut reads, mut writes, mut syncs) = (0u32, 0u32, 0u32);
            for request in all(&plan) {
                match request {
                    Request::Read { file, pos } | Request::Write { file, pos } => {
                        prop_assert!(file < files && pos % plan.block == 0 && pos + plan.block <= plan.file_size());
                    }
                    Request::Sync { file } => prop_assert_eq!(file, syncs % files),
                }
                match request {
                    Request::Read { .. } => reads += 1,
                    Request::Write { .. } => writes += 1,
                    Request::Sync { .. } => syncs += 1,
                }
            }
            prop_assert_eq!(reads + writes, 1000);
            let share = 1000.0 * ratio / (ratio + 1.0);
            prop_assert!((f64::from(reads) - share).abs() <= 10.0, "{reads} for {share}");
            prop_assert!(syncs % files == 0 && (freq == 0) == (syncs == 0));
        }
    }
}
