//! The history of each process: a bounded table of records, found by process number, of which the one idle
//! for longest is reused.

use super::mean::Mean;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Records beyond one for each possible request: the memory of processes without requests.
const IDLE: usize = 64;

/// One process. Times in ticks, positions in sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    task: u64,
    /// Whether it has not exited.
    pub(super) running: bool,
    /// Whether it has sent a synchronous request (`iostarted`).
    pub(super) started: bool,
    /// Whether one of its synchronous requests has completed (`iorunning`).
    pub(super) served: bool,
    /// Requests in the elevator.
    pub(super) queued: u32,
    /// Requests with the driver.
    pub(super) dispatched: u32,
    /// When its last synchronous request completed.
    pub(super) last_end: u64,
    /// Just past its last synchronous request.
    pub(super) last_pos: u64,
    pub(super) think_time: Mean,
    pub(super) seek: Mean,
    /// The next record of the same bucket.
    chain: u32,
    /// Neighbours in the list of idle records, and whether it is in that list.
    older: u32,
    newer: u32,
    idle: bool,
}

impl Process {
    fn new(task: u64) -> Process {
        Process {
            task,
            running: true,
            started: false,
            served: false,
            queued: 0,
            dispatched: 0,
            last_end: 0,
            last_pos: 0,
            think_time: Mean::default(),
            seek: Mean::default(),
            chain: NONE,
            older: NONE,
            newer: NONE,
            idle: false,
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.queued + self.dispatched
    }
}

/// The records.
#[derive(Clone, Debug)]
pub(super) struct Processes {
    records: Vec<Process>,
    /// First record of each bucket; a power of two of them.
    buckets: Vec<u32>,
    shift: u32,
    bound: usize,
    oldest: u32,
    newest: u32,
}

impl Default for Processes {
    fn default() -> Self {
        Processes { records: Vec::new(), buckets: Vec::new(), shift: 0, bound: 0, oldest: NONE, newest: NONE }
    }
}

impl Processes {
    /// Makes room for the processes of `requests` requests.
    pub(super) fn reserve(&mut self, requests: usize) {
        let bound = requests.saturating_add(IDLE);
        if bound <= self.bound {
            return;
        }
        self.bound = bound;
        self.records.reserve(bound - self.records.len());
        let buckets = (2 * bound).next_power_of_two();
        self.shift = u64::BITS - buckets.trailing_zeros();
        self.buckets.clear();
        self.buckets.resize(buckets, NONE);
        for at in 0..self.records.len() as u32 {
            self.link(at);
        }
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &Process {
        &self.records[at as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Process {
        &mut self.records[at as usize]
    }

    #[inline]
    pub(super) fn is(&self, at: u32, task: u64) -> bool {
        self.records[at as usize].task == task
    }

    /// The record of a process. It is a fresh one if the process has none or its number is that of a process
    /// that has exited. `keep` is not reused for another process.
    #[inline]
    pub(super) fn enter(&mut self, task: u64, keep: Option<u32>) -> u32 {
        let Some(at) = self.find(task) else { return self.make(task, keep) };
        let process = &mut self.records[at as usize];
        if !process.running {
            let Process { queued, dispatched, chain, older, newer, idle, .. } = *process;
            *process = Process { queued, dispatched, chain, older, newer, idle, ..Process::new(task) };
        }
        at
    }

    /// Marks the processes for which `ended` returns true as exited.
    pub(super) fn exit(&mut self, ended: impl Fn(u64) -> bool) {
        self.records.iter_mut().filter(|process| ended(process.task)).for_each(|p| p.running = false);
    }

    /// A request of the process entered the elevator.
    #[inline]
    pub(super) fn queue(&mut self, at: u32) {
        self.wake(at);
        self.records[at as usize].queued += 1;
    }

    /// A request of the process left the elevator: to the driver, or into another request.
    #[inline]
    pub(super) fn unqueue(&mut self, at: u32, dispatched: bool) {
        let process = &mut self.records[at as usize];
        process.queued -= 1;
        process.dispatched += u32::from(dispatched);
        self.rest(at);
    }

    /// A request of the process completed.
    #[inline]
    pub(super) fn complete(&mut self, at: u32) {
        self.records[at as usize].dispatched -= 1;
        self.rest(at);
    }

    #[inline]
    fn bucket(&self, task: u64) -> usize {
        (task.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    fn find(&self, task: u64) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.buckets[self.bucket(task)];
        while let Some(process) = self.records.get(at as usize) {
            if process.task == task {
                return Some(at);
            }
            at = process.chain;
        }
        None
    }

    #[cold]
    fn make(&mut self, task: u64, keep: Option<u32>) -> u32 {
        if self.buckets.is_empty() {
            self.reserve(0);
        }
        let free = (self.records.len() >= self.bound).then(|| self.longest_idle(keep)).flatten();
        let at = match free {
            Some(at) => {
                self.unlink(at);
                self.wake(at);
                self.records[at as usize] = Process::new(task);
                at
            }
            None => {
                self.records.push(Process::new(task));
                self.records.len() as u32 - 1
            }
        };
        self.link(at);
        self.rest(at);
        at
    }

    fn longest_idle(&self, keep: Option<u32>) -> Option<u32> {
        let first = self.oldest;
        let choice = if Some(first) == keep { self.records.get(first as usize)?.newer } else { first };
        (choice != NONE).then_some(choice)
    }

    fn link(&mut self, at: u32) {
        let bucket = self.bucket(self.records[at as usize].task);
        self.records[at as usize].chain = self.buckets[bucket];
        self.buckets[bucket] = at;
    }

    fn unlink(&mut self, at: u32) {
        let Process { task, chain, .. } = self.records[at as usize];
        let bucket = self.bucket(task);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = chain;
            return;
        }
        let mut before = self.buckets[bucket];
        while let Some(process) = self.records.get_mut(before as usize) {
            if process.chain == at {
                process.chain = chain;
                return;
            }
            before = process.chain;
        }
    }

    /// Puts a process without requests at the end of the idle list.
    #[inline]
    fn rest(&mut self, at: u32) {
        let newest = self.newest;
        let process = &mut self.records[at as usize];
        if process.idle || process.in_flight() > 0 {
            return;
        }
        (process.idle, process.older, process.newer) = (true, newest, NONE);
        match self.records.get_mut(newest as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    /// Removes a process from the idle list.
    #[inline]
    fn wake(&mut self, at: u32) {
        let Process { idle, older, newer, .. } = self.records[at as usize];
        if !idle {
            return;
        }
        self.records[at as usize].idle = false;
        match self.records.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.records.get_mut(newer as usize) {
            Some(behind) => behind.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes records of processes with these numbers, each idle at once.
    fn visit(table: &mut Processes, tasks: core::ops::Range<u64>) {
        for task in tasks {
            let at = table.enter(task, None);
            table.queue(at);
            table.get_mut(at).last_pos = task;
            table.unqueue(at, false);
        }
    }

    #[test]
    fn the_longest_idle_is_forgotten() {
        let mut table = Processes::default();
        table.reserve(0);
        visit(&mut table, 0..IDLE as u64);
        visit(&mut table, 0..1);
        visit(&mut table, 1000..1001);
        assert_eq!(table.records.len(), IDLE);
        assert_eq!(table.find(1), None, "idle for longest");
        let kept = table.find(0).expect("seen again since");
        assert_eq!(table.get(kept).last_pos, 0);
        for task in (2..IDLE as u64).chain([1000]) {
            let at = table.find(task).expect("a record");
            assert!(table.is(at, task) && table.get(at).last_pos == task);
        }
    }

    #[test]
    fn neither_busy_processes_nor_the_awaited_one_are_forgotten() {
        let mut table = Processes::default();
        table.reserve(0);
        let busy = table.enter(7, None);
        table.queue(busy);
        let awaited = table.enter(8, None);
        for task in 100..1000 {
            table.enter(task, Some(awaited));
        }
        assert_eq!((table.find(7), table.find(8)), (Some(busy), Some(awaited)));
        assert_eq!(table.records.len(), IDLE);
        visit(&mut table, 2000..2000 + IDLE as u64);
        assert_eq!(table.find(8), None);
    }

    #[test]
    fn with_all_of_them_busy_there_is_still_another() {
        let mut table = Processes::default();
        for task in 0..500 {
            let at = table.enter(task, None);
            table.queue(at);
        }
        assert!((0..500).all(|task| table.find(task).is_some_and(|at| table.is(at, task))));
        table.reserve(1000);
        assert!((0..500).all(|task| table.find(task).is_some_and(|at| table.is(at, task))));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut table = Processes::default();
        let at = table.enter(1 << 16 | 5, None);
        table.queue(at);
        table.get_mut(at).started = true;
        table.exit(|task| task >> 16 == 1);
        assert!(!table.get(at).running);
        assert_eq!(table.enter(1 << 16 | 5, None), at);
        let again = table.get(at);
        assert_eq!((again.running, again.started, again.queued), (true, false, 1));
    }
}
