//! The gate of a layer over several lanes: it keeps barriers across members and across lanes.
//!
//! Barriers are numbered in the order in which they take their places. A bio takes its place when the plug of
//! its lane is flushed; its epoch is the number of barriers placed before it. A bio of epoch k may start once
//! k barriers are over. Barrier k may start once k barriers are over and no lane has an incomplete bio of an
//! epoch up to k. So all bios in flight at a time have the same epoch, and a lane has to publish only the
//! epoch of its oldest bio.
//!
//! A lane publishes that epoch before it reads the number of barriers, and a barrier takes its number before
//! it reads the epochs of the lanes, both sequentially consistent: at least one of the two sees the other
//! (Dekker's argument, as in the gate of a disk).
//!
//! **Barriers that fail.** A barrier fails with [`Kind::Unsettled`] if for `barrier_timeout`, the longest of the disks below, no other
//! barrier has ended before it. Its own lane may detect that, or a lane that holds bios behind it; so a lane
//! that is not run stops the others for no longer than that. A lane that was not run itself at the end of that time
//! waits a second more: the lanes of a program that was stopped are run one after the other. A barrier also fails when its submitter does not
//! wait for it any longer ([`Cancel::late`]), even if it has started, or when the device could not carry it out because an I/O timed out. All
//! bios that are held behind it, including barriers, then fail with [`Kind::Cancelled`]: the numbers up to the last one given out count as
//! over, and each lane finds the range of epochs that failed in its entry (`Registered::failed`) before it starts
//! any bio that it held.
//!
//! Example of a late one: a channel's barrier with a deadline of 50 ms has started, and a disk keeps its flush. At 50 ms the program gets
//! `TimedOut` for it and may never run the channel again. The gate opens at 50 ms: what other lanes held ends with `Cancelled`, and what they
//! submit afterwards starts at once.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering::SeqCst, lock};
use platter_block::bio::{Bio, Flags};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Bell, Cancel};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Flags of bios that no other bio may pass.
pub const BARRIER: Flags = Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER);

/// How much longer than `barrier_timeout` a barrier waits, at most a quarter of that, if its lane was not run at its end: all lanes of a
/// program that was stopped are run one after the other.
const GRACE: Span = Span::from_secs(1);

/// Published by a lane that has no bios.
const NOTHING: u64 = u64::MAX;

/// The state of a gate; one per device.
pub struct BarrierGate {
    /// Barriers that have taken their places.
    placed: AtomicU64,
    /// Barriers that are over: all with numbers below this.
    over: AtomicU64,
    lanes: Mutex<Lanes>,
    /// How long a barrier may wait for bios of other lanes, and bios for a barrier.
    timeout: Span,
}

#[derive(Default)]
struct Lanes {
    registered: Vec<Registered>,
    /// Lanes opened so far.
    opened: u64,
    /// Barriers that are not over and that no lane will end: barriers of dropped lanes, and failed barriers.
    orphans: Vec<u64>,
    /// Why the last barrier that timed out at the gate failed.
    blame: Option<String>,
}

/// A lane in the list of all lanes.
struct Registered {
    cell: Arc<Cell>,
    /// Bios of this lane that have failed and that the lane has not looked at yet. One entry is enough for
    /// several failures: the lane has placed no bio since the first.
    failed: Option<Failed>,
}

/// Bios that have failed because a barrier before them failed.
#[derive(Clone, Copy)]
struct Failed {
    /// The number of the barrier, and the kind of its fault.
    number: u64,
    kind: Kind,
    /// Bios of later epochs up to this one fail.
    last: u64,
}

/// The part of a lane that other lanes read.
struct Cell {
    /// Epoch of the oldest incomplete bio.
    oldest: AtomicU64,
    /// Not 0: `failed` of the entry is set.
    has_failed: AtomicU64,
    bell: Option<Arc<dyn Bell>>,
    /// Names the lane in errors.
    name: String,
}

impl BarrierGate {
    /// The gate of a device. `timeout`: how long a barrier may wait for lanes that are not run.
    pub fn new(timeout: Span) -> Arc<BarrierGate> {
        let (placed, over, lanes) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Arc::new(BarrierGate { placed, over, lanes, timeout })
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// The number of barriers that have taken their places, if all of them are over. What begins and ends without a door while
    /// this is the same is behind no barrier, and no barrier has come between its parts.
    pub fn open_since(&self) -> Option<u64> {
        // In this order: barriers that end meanwhile do not stand for one that is placed meanwhile.
        let placed = self.placed.load(SeqCst);
        (self.over.load(SeqCst) >= placed).then_some(placed)
    }

    /// Wakes lanes with barriers after a lane has no more bios of an epoch that it published: a barrier may
    /// have waited for that.
    #[inline]
    fn ring_barriers(&self) {
        if self.placed.load(SeqCst) != self.over.load(SeqCst) {
            self.ring_lanes();
        }
    }

    #[cold]
    fn ring_lanes(&self) {
        self.lanes().ring();
    }

    /// Marks barrier `number` as over, and the orphans that follow it. Returns `false` if it was over already
    /// because it had failed.
    fn end(&self, number: u64) -> bool {
        let mut lanes = self.lanes();
        if number < self.over.load(SeqCst) || lanes.orphans.contains(&number) {
            return false;
        }
        lanes.orphans.push(number);
        self.advance(&mut lanes);
        lanes.ring();
        true
    }

    /// Advances the number of barriers that are over past orphans.
    fn advance(&self, lanes: &mut Lanes) {
        let mut over = self.over.load(SeqCst);
        while let Some(at) = lanes.orphans.iter().position(|&orphan| orphan == over) {
            lanes.orphans.swap_remove(at);
            over += 1;
        }
        self.over.store(over, SeqCst);
    }

    /// Fails barrier `number` and all bios that any lane holds behind it. Returns `false` if the barrier was
    /// over already.
    fn fail(&self, number: u64, kind: Kind, blame: impl FnOnce(&Lanes) -> Option<String>) -> bool {
        let mut lanes = self.lanes();
        if number < self.over.load(SeqCst) || lanes.orphans.contains(&number) {
            return false;
        }
        if let Some(blame) = blame(&lanes) {
            lanes.blame = Some(blame);
        }
        // This number belongs to no barrier. It separates bios placed from now on from those that fail.
        let last = self.placed.fetch_add(1, SeqCst);
        let failed: Vec<u64> = (number..=last).filter(|number| !lanes.orphans.contains(number)).collect();
        lanes.orphans.extend(failed);
        for entry in &mut lanes.registered {
            let before = entry.failed.filter(|before| before.number < number);
            entry.failed = Some(Failed { last, ..before.unwrap_or(Failed { number, kind, last }) });
            // Stored before the gate opens: a lane that sees the gate open sees this too.
            entry.cell.has_failed.store(1, SeqCst);
        }
        self.advance(&mut lanes);
        lanes.ring();
        true
    }

    /// Why the last barrier that timed out at the gate failed.
    pub fn blame(&self) -> Option<String> {
        self.lanes().blame.clone()
    }
}

impl Lanes {
    fn ring(&self) {
        self.registered.iter().filter_map(|entry| entry.cell.bell.as_ref()).for_each(|bell| bell.ring());
    }

    /// Describes the lanes that barrier `number` waits for: those with bios placed before it.
    fn culprits(&self, number: u64) -> String {
        let busy = |entry: &&Registered| entry.cell.oldest.load(SeqCst) <= number;
        let names: Vec<&str> =
            self.registered.iter().filter(busy).map(|entry| entry.cell.name.as_str()).collect();
        match &names[..] {
            [] => "the lane that sent the barrier is not run".to_owned(),
            [one] => format!("{one} has bios that are not complete"),
            [one, rest @ ..] => format!("{one} and {} more have bios that are not complete", rest.len()),
        }
    }
}

/// A lane's side of the gate, with the bios that wait at the gate.
pub struct Door {
    gate: Arc<BarrierGate>,
    cell: Arc<Cell>,
    /// Bios that have taken their places and may not start yet, with their epochs. The epoch of a barrier is
    /// that of the bios behind it.
    held: VecDeque<(u64, Bio)>,
    /// Held bios that have failed.
    failed: Vec<Bio>,
    /// Bios that have started and are not complete.
    out: usize,
    /// Epoch of the bios counted in `out`.
    epoch: u64,
    /// The barrier among them.
    barrier: Option<Started>,
    /// Whether the lane has published an epoch in its cell.
    open: bool,
    /// The first held bio waits for another lane.
    waits: Option<Wait>,
}

/// A barrier that has started: its number, and the [identity](Bio::identity) and token of its bio.
#[derive(Clone, Copy)]
struct Started {
    number: u64,
    identity: usize,
    token: u64,
}

/// A wait for another lane.
#[derive(Clone, Copy)]
struct Wait {
    /// The number of barriers that were over when it began.
    over: u64,
    /// When the next one fails.
    until: Time,
    /// That is later than the gate's timeout, because the lane was not run then.
    is_longer: bool,
}

impl Door {
    /// Opens a lane's door; `bell` wakes the lane when the gate opens.
    pub fn new(gate: &Arc<BarrierGate>, bell: Option<Arc<dyn Bell>>) -> Door {
        let mut lanes = gate.lanes();
        lanes.opened += 1;
        let thread = std::thread::current();
        let by = thread.name().map_or_else(|| format!("{:?}", thread.id()), |name| format!("\"{name}\""));
        let cell = Arc::new(Cell {
            oldest: AtomicU64::new(NOTHING),
            has_failed: AtomicU64::new(0),
            bell,
            name: format!("lane {}, opened by thread {by},", lanes.opened),
        });
        lanes.registered.push(Registered { cell: Arc::clone(&cell), failed: None });
        drop(lanes);
        Door {
            gate: Arc::clone(gate),
            cell,
            held: VecDeque::new(),
            failed: Vec::new(),
            out: 0,
            epoch: 0,
            barrier: None,
            open: false,
            waits: None,
        }
    }

    /// Whether bios that take their places now may all start at once. After `true`, `count` bios have
    /// started; there must be no barriers among them.
    #[inline]
    pub fn pass(&mut self, count: usize) -> bool {
        let epoch = self.enter();
        let may = self.held.is_empty() && epoch == self.epoch && self.gate.over.load(SeqCst) >= epoch;
        if may {
            self.out += count;
        }
        may
    }

    /// Publishes that the lane has bios, and returns the epoch of the next one.
    #[inline]
    fn enter(&mut self) -> u64 {
        let mut epoch = self.gate.placed.load(SeqCst);
        if self.open {
            return epoch;
        }
        self.cell.oldest.swap(epoch, SeqCst);
        let again = self.gate.placed.load(SeqCst);
        if again != epoch {
            epoch = self.enter_again(again);
        }
        self.open = true;
        self.epoch = epoch;
        epoch
    }

    /// Publishes a later epoch if barriers were placed while the lane published the earlier one: they might
    /// wait for bios that the lane does not have.
    #[cold]
    fn enter_again(&self, mut epoch: u64) -> u64 {
        loop {
            self.cell.oldest.swap(epoch, SeqCst);
            let again = self.gate.placed.load(SeqCst);
            if again == epoch {
                break;
            }
            epoch = again;
        }
        self.gate.ring_barriers();
        epoch
    }

    /// Places a bio behind those that the lane has.
    pub fn place(&mut self, bio: Bio) {
        // Bios that have failed must be collected before a bio is placed that is not affected.
        self.collect_failed();
        let mut epoch = self.enter();
        // A barrier has an epoch of its own between the two; publishing the one before it is correct.
        let mut oldest = epoch;
        if bio.flags().intersects(BARRIER) {
            oldest = self.gate.placed.fetch_add(1, SeqCst);
            epoch = oldest + 1;
        }
        if self.out == 0 && self.held.is_empty() && self.cell.oldest.load(SeqCst) < oldest {
            // Other lanes placed barriers after this lane had entered: this lane has no bios that they must
            // wait for.
            self.cell.oldest.swap(oldest, SeqCst);
            self.gate.ring_barriers();
        }
        self.held.push_back((epoch, bio));
    }

    /// The next bio that may start.
    pub fn take_next(&mut self) -> Option<Bio> {
        loop {
            let &(epoch, ref bio) = self.held.front()?;
            let over = self.gate.over.load(SeqCst);
            let barrier = bio.flags().intersects(BARRIER).then(|| Started {
                number: epoch - 1,
                identity: bio.identity(),
                token: bio.token(),
            });
            if over < epoch && barrier.is_none_or(|barrier| barrier.number != over) {
                return None;
            }
            // The gate may have opened because a barrier failed.
            if self.collect_failed() {
                continue;
            }
            if let Some(Started { number, .. }) = barrier {
                if self.out > 0 {
                    return None;
                }
                // The lane has only the barrier and the bios behind it.
                self.cell.oldest.store(epoch, SeqCst);
                let is_before = |entry: &Registered| entry.cell.oldest.load(SeqCst) <= number;
                if self.gate.lanes().registered.iter().any(is_before) {
                    return None;
                }
            }
            // A barrier that has failed may still be in flight.
            self.barrier = barrier.or(self.barrier);
            self.epoch = epoch;
            self.waits = None;
            self.out += 1;
            return self.held.pop_front().map(|(_, bio)| bio);
        }
    }

    /// Moves held bios whose barrier has failed to `failed`. Returns whether there were any.
    fn collect_failed(&mut self) -> bool {
        if self.cell.has_failed.load(SeqCst) == 0 {
            return false;
        }
        let mut lanes = self.gate.lanes();
        self.cell.has_failed.store(0, SeqCst);
        let entry = lanes.registered.iter_mut().find(|entry| Arc::ptr_eq(&entry.cell, &self.cell));
        let range = entry.and_then(|entry| entry.failed.take());
        drop(lanes);
        let Some(Failed { number, kind, last }) = range else { return false };
        let before = self.failed.len();
        for (epoch, mut bio) in std::mem::take(&mut self.held) {
            if number < epoch && epoch <= last {
                let own = epoch == number + 1 && bio.flags().intersects(BARRIER);
                bio.fail(at_gate(if own { kind } else { Kind::Cancelled }));
                self.failed.push(bio);
            } else {
                self.held.push_back((epoch, bio));
            }
        }
        self.settle();
        self.failed.len() > before
    }

    /// Fails the barrier for which the lane has waited too long. To be called whenever the lane is run and
    /// [is holding](Door::is_holding), after bios that may start have been started.
    pub fn expire(&mut self, now: Time) {
        self.collect_failed();
        let Some(&(epoch, ref bio)) = self.held.front() else { return };
        let over = self.gate.over.load(SeqCst);
        let own_barrier = bio.flags().intersects(BARRIER) && epoch == over + 1;
        // A bio placed before all barriers that are not over waits only for its own lane, and so does a
        // barrier that waits for bios of its own lane.
        if over >= epoch || (own_barrier && self.out > 0) {
            self.waits = None;
            return;
        }
        match self.waits {
            Some(wait) if wait.over == over => {
                let grace = GRACE.min(Span(self.gate.timeout.0 / 4));
                if now >= wait.until && now.since(wait.until) > grace && !wait.is_longer {
                    self.waits = Some(Wait { over, until: now + grace, is_longer: true });
                } else if now >= wait.until {
                    self.waits = None;
                    let seconds = self.gate.timeout.0 as f64 / 1e9;
                    let blame = |lanes: &Lanes| {
                        Some(format!("a barrier waited for {seconds} s: {}", lanes.culprits(over)))
                    };
                    self.gate.fail(over, Kind::Unsettled, blame);
                    self.collect_failed();
                }
            }
            _ => self.waits = Some(Wait { over, until: now + self.gate.timeout, is_longer: false }),
        }
    }

    /// Removes a held bio and fails it. The number of a barrier counts as over when its turn comes.
    fn take_out(&mut self, at: usize, kind: Kind) {
        let Some((epoch, mut bio)) = self.held.remove(at) else { return };
        if bio.flags().intersects(BARRIER) {
            self.gate.end(epoch - 1);
        }
        bio.fail(at_gate(kind));
        self.failed.push(bio);
        self.settle();
    }

    /// Fails the held bios that are to be taken back. A barrier that is late fails together with what is behind it; one that
    /// is cancelled lets that in.
    pub fn cancel(&mut self, which: &Cancel) {
        self.collect_failed();
        while let Some(at) = self.held.iter().position(|(_, bio)| which.matches(bio)) {
            let (epoch, bio) = &self.held[at];
            let is_late_barrier = which.kind() == Kind::TimedOut && bio.flags().intersects(BARRIER);
            if is_late_barrier && self.gate.fail(epoch - 1, Kind::TimedOut, |_| None) {
                self.collect_failed();
                continue;
            }
            self.take_out(at, which.kind());
        }
    }

    /// Fails the barrier that has started, and what is held behind it, if its submitter does not wait for it any longer: it is late, and
    /// its lane may not be run again. To be called after what is below was asked to return it.
    pub fn give_up(&mut self, which: &Cancel) {
        if let Some(barrier) = self.barrier.filter(|barrier| which.is_of(barrier.token, barrier.identity))
            && which.kind() == Kind::TimedOut
            && self.gate.fail(barrier.number, Kind::TimedOut, |_| None)
        {
            self.collect_failed();
        }
    }

    /// Takes the held bios that have failed; they are returned to their submitter.
    pub fn take_failed(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.failed);
    }

    /// Whether a run of the lane would start or fail a held bio now, judging by the gate alone.
    pub fn is_ready(&self) -> bool {
        let Some(&(epoch, ref bio)) = self.held.front() else { return !self.failed.is_empty() };
        if self.cell.has_failed.load(SeqCst) != 0 || !self.failed.is_empty() {
            return true;
        }
        let over = self.gate.over.load(SeqCst);
        if !bio.flags().intersects(BARRIER) {
            return over >= epoch;
        }
        let is_before = |entry: &Registered| {
            !Arc::ptr_eq(&entry.cell, &self.cell) && entry.cell.oldest.load(SeqCst) < epoch
        };
        over + 1 == epoch && self.out == 0 && !self.gate.lanes().registered.iter().any(is_before)
    }

    /// When held bios must be checked even if nothing else happens.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.waits.map(|wait| wait.until)
    }

    /// Bios that have started are complete; there is at least one. If the barrier is among them, the gate opens.
    #[inline]
    pub fn complete(&mut self, bios: &mut [Bio]) {
        if let Some(barrier) = self.barrier
            && let Some(bio) = bios.iter_mut().find(|bio| bio.identity() == barrier.identity)
        {
            self.end_barrier(barrier.number, bio);
        }
        self.out -= bios.len();
        if self.out == 0 {
            self.drained();
        }
    }

    /// The barrier that was started is complete. If it timed out, or other lanes stopped waiting for it, it fails together with
    /// all bios that were held behind it.
    fn end_barrier(&mut self, number: u64, bio: &mut Bio) {
        self.barrier = None;
        let was_due = match bio.status().map_err(|fault| fault.kind) {
            Err(kind @ (Kind::TimedOut | Kind::Unsettled)) => self.gate.fail(number, kind, |_| None),
            _ => self.gate.end(number),
        };
        if !was_due {
            // Other lanes did not wait for it and may have started bios that belong behind it.
            bio.fail(at_gate(Kind::Unsettled));
        }
    }

    fn drained(&mut self) {
        let left = self.held.front().map(|&(epoch, _)| epoch);
        self.open = left.is_some();
        self.cell.oldest.swap(left.unwrap_or(NOTHING), SeqCst);
        self.gate.ring_barriers();
    }

    /// Resets the wait if the first held bio may have changed.
    fn settle(&mut self) {
        self.waits = None;
        if self.out == 0 {
            self.drained();
        }
    }

    /// Wakes the lanes that sleep, after a change of shared state.
    pub fn ring(&self) {
        self.gate.lanes().ring();
    }

    /// Whether bios wait at the gate, or have failed and must be taken.
    #[inline]
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty() || !self.failed.is_empty()
    }

    /// Bios that have started and are not complete.
    #[inline]
    pub fn out(&self) -> usize {
        self.out
    }
}

fn at_gate(kind: Kind) -> Fault {
    Fault::new(kind, Stage::Layer)
}

impl Drop for Door {
    /// The bios of the lane are dropped or complete without it.
    fn drop(&mut self) {
        let held = self.held.drain(..).filter(|(_, bio)| bio.flags().intersects(BARRIER));
        let started = self.barrier.map(|barrier| barrier.number);
        let numbers: Vec<u64> = held.map(|(epoch, _)| epoch - 1).chain(started).collect();
        self.cell.oldest.store(NOTHING, SeqCst);
        {
            let mut lanes = self.gate.lanes();
            lanes.registered.retain(|entry| !Arc::ptr_eq(&entry.cell, &self.cell));
            lanes.ring();
        }
        for number in numbers {
            self.gate.end(number);
        }
    }
}
