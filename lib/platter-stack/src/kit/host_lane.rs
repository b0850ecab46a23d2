//! A lane of a layer whose lanes share state behind one lock.
//!
//! It stands behind a [`GatedLane`], takes the lock when there is something to do, and sleeps so that one thread listens to
//! the layer's own lanes. What a bio of the layer is, and when it is over, the layer says ([`LaneTasks`]).

use super::host::{Host, Turns};
use super::lanes::LaneEntry;
use crate::barrier_gate::BarrierGate;
use crate::gated_lane::{GatedLane, LayerLane};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::deferred::Depth;
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Cancel, Lane, Left};
use platter_block::time::{Span, Time};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a layer knows of the lane that its bios come through.
pub struct LaneBase<H: Host> {
    // Dropped first: this waits for the I/O that its driver has.
    /// The lane's own lane to the first device below. Threads sleep in it.
    pub own: Box<dyn Lane>,
    /// Bios of the layer that are with it, or in `to_own`.
    pub own_out: u32,
    /// Bios that have come back from it.
    pub came: Vec<Bio>,
    /// Bios that a turn submits to it, which is done when the lock has been released.
    pub to_own: Vec<Bio>,
    /// What all lanes share.
    pub host: Arc<H>,
    /// The number of the lane in [`Lanes`](super::lanes::Lanes).
    pub number: u32,
    /// The lane is being closed: to be kept as long as devices have changes of it.
    pub left: Option<Arc<dyn Left>>,
    /// Each caller sleeps until its bios complete. So others rely on the lane to listen to the layer's own lanes.
    pub sleeps: bool,
    entry: Arc<LaneEntry>,
    /// The lane listened to the layer's own lanes and was woken.
    woke: bool,
}

impl<H: Host> LaneBase<H> {
    /// Whether the lane was woken by others, or by completions on the layer's own lanes.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.woke || self.entry.kicked.load(Ordering::SeqCst)
    }

    /// Forgets bios that a turn was to submit: it has panicked before.
    fn forget_unsubmitted(&mut self) {
        self.own_out -= self.to_own.len() as u32;
        self.to_own.clear();
    }

    /// The turn sees everything that the lane was woken for until now: a kick from here on means another turn. To be called
    /// with the lock held, before the bios of the lane are advanced or taken.
    pub fn has_seen(&mut self) {
        self.woke = false;
        self.entry.kicked.store(false, Ordering::SeqCst);
    }
}

/// The layer's part of its lanes: the bios that one lane has.
pub trait LaneTasks: Send {
    /// What all lanes share.
    type Host: Host;

    /// Takes a bio that is inside the device. Returns it if it is over already.
    fn start(&mut self, base: &LaneBase<Self::Host>, bio: Bio) -> Option<Bio>;

    /// The bios of the lane.
    fn count(&self) -> usize;

    /// Whether any of them is not over.
    fn waits(&self) -> bool;

    /// Whether a turn can advance a bio although nothing has happened.
    fn is_due(&self, now: Time) -> bool;

    /// When that is so.
    fn next_wakeup(&self) -> Option<Time>;

    /// Advances the bios as far as possible, with the lock held, and calls [`LaneBase::has_seen`]. Returns whether another
    /// turn may advance more.
    fn turn(&mut self, now: Time, base: &mut LaneBase<Self::Host>, engine: &mut EngineOf<Self>) -> bool;

    /// Own I/O has come back, and the lane was not woken by others: ends bios as far as the lock is not needed for it. Returns
    /// whether any are over now. What others wait for must not depend on it.
    fn finish_unlocked(&mut self, base: &mut LaneBase<Self::Host>) -> bool {
        let _ = base;
        false
    }

    /// Does what a turn has left to be done without the lock, and ends bios of which that was the last step.
    fn after_turn(&mut self, base: &LaneBase<Self::Host>) {
        let _ = base;
    }

    /// Gives back the bios that are over.
    fn take_over(&mut self, own_out: u32, give_back: impl FnMut(Bio));

    /// Fails the bios: the shared state is broken.
    fn fail(&mut self, base: &LaneBase<Self::Host>, fault: Fault);

    /// Takes bios back as far as that is still possible, with the lock held: see [`Lane::cancel`].
    fn cancel(&mut self, now: Time, number: u32, which: &Cancel, engine: &mut EngineOf<Self>);

    /// The lane is dropped: ends what no device carries out, waits for the rest, and removes the lane.
    fn end(&mut self, base: &mut LaneBase<Self::Host>);
}

/// The shared state of a layer, from its lanes.
pub type EngineOf<T> = <<T as LaneTasks>::Host as Host>::Engine;

/// See the module.
pub struct HostLane<T: LaneTasks> {
    base: LaneBase<T::Host>,
    tasks: T,
    geometry: Geometry,
    /// The lane is also run for the layer's own work.
    is_background: bool,
    has_bell: bool,
    /// The engine lists the lane among those that sleep until their bios complete.
    listed: bool,
    /// A thread that sleeps on the lane's descriptors listens to the layer's own lanes.
    is_listed_outside: Cell<bool>,
    done: Vec<Bio>,
    handles: Vec<i32>,
}

impl<T: LaneTasks> HostLane<T> {
    /// Opens a lane of a device with this geometry and gate, over a lane to the first device below.
    ///
    /// # Errors
    /// The shared state is broken.
    pub fn open(
        host: &Arc<T::Host>,
        own: Box<dyn Lane>,
        (geometry, gate): (Geometry, &Arc<BarrierGate>),
        lane_use: LaneUse,
        tasks: T,
    ) -> Result<GatedLane<HostLane<T>>, Fault> {
        let bell = own.bell();
        let has_bell = bell.is_some();
        let entry = LaneEntry::new(bell);
        let number = host.engine()?.join(&entry);
        let sleeps = lane_use == LaneUse::Synchronous;
        let (host, came, to_own) = (Arc::clone(host), Vec::new(), Vec::new());
        let lane = HostLane {
            base: LaneBase {
                own,
                own_out: 0,
                came,
                to_own,
                host,
                number,
                left: None,
                sleeps,
                entry,
                woke: false,
            },
            tasks,
            geometry,
            is_background: lane_use == LaneUse::Shared,
            has_bell,
            listed: false,
            is_listed_outside: Cell::new(false),
            done: Vec::new(),
            handles: Vec::new(),
        };
        Ok(GatedLane::new(lane, gate, true))
    }

    /// Returns the bios that are over.
    fn give_back(&mut self) {
        self.tasks.take_over(self.base.own_out, |bio| self.done.push(bio));
    }

    /// Whether the engine has something to do for this lane.
    fn is_needed(&self, now: Time) -> bool {
        self.tasks.is_due(now) || !self.base.came.is_empty() || self.base.is_called()
    }

    /// Runs a turn of the engine. Returns whether another one may advance more.
    fn turn(&mut self, now: Time) -> bool {
        let host = Arc::clone(&self.base.host);
        host.collect(now);
        let mut held = match host.engine() {
            Ok(held) => held,
            Err(fault) => {
                self.fail_all(fault);
                return false;
            }
        };
        let engine = &mut *held;
        engine.enter();
        engine.lanes_mut().awake(self.base.number);
        let more = self.tasks.turn(now, &mut self.base, engine);
        if !self.tasks.waits() {
            self.unlist(engine);
        }
        host.leave(now, engine);
        drop(held);
        self.base.to_own.drain(..).for_each(|bio| self.base.own.submit(now, bio));
        host.deliver(now);
        self.tasks.after_turn(&self.base);
        if self.listed && !self.tasks.waits() {
            self.resign(now);
        }
        self.give_back();
        more
    }

    /// Ends bios whose own I/O has come back without the lock, where that is possible.
    fn finish_unlocked(&mut self, now: Time) {
        let is_alone = !self.base.came.is_empty() && !self.base.is_called();
        if is_alone && self.tasks.finish_unlocked(&mut self.base) {
            if self.listed && !self.tasks.waits() {
                self.resign(now);
            }
            self.give_back();
        }
    }

    /// Fails all bios: the engine is broken.
    fn fail_all(&mut self, fault: Fault) {
        self.listed = false;
        self.base.has_seen();
        self.base.own_out -= self.base.came.len() as u32;
        self.base.came.clear();
        self.base.forget_unsubmitted();
        self.tasks.fail(&self.base, fault);
        self.give_back();
    }

    /// Advances everything as far as possible. If the caller `waits` and only has its own lane to wait for, it submits to
    /// that lane and sleeps in one call.
    fn progress(&mut self, now: Time, waits: bool) {
        // Code of the program that is deferred may wait for what turns submit, or for pages that they have taken.
        let _depth = Depth::enter();
        // The shared work is done only once, or the lane might never return.
        let board = self.base.host.board();
        let mut due = board.is_due(now) || (self.is_background && board.visit().is_some_and(|at| at <= now));
        loop {
            // A cache below may have work of its own.
            if self.base.own_out > 0 || !self.base.own.is_idle() {
                self.base.own.turn(now, &mut self.base.came);
                self.finish_unlocked(now);
            }
            // What has come back is counted until the turn has seen it.
            let before = self.base.own_out - self.base.came.len() as u32;
            if !(std::mem::take(&mut due) || self.is_needed(now)) {
                return;
            }
            let more = self.turn(now);
            let is_done = !self.tasks.is_due(now) && self.base.came.is_empty();
            if waits && before == 0 && self.waits_for_own() && is_done {
                return;
            }
            if !more && !self.is_needed(now) {
                return;
            }
        }
    }

    /// Whether all there is to wait for is on the lane's own lane.
    fn waits_for_own(&self) -> bool {
        self.base.own_out > 0 && self.tasks.count() == 1 && self.done.is_empty()
    }

    /// Lists the lane among those that sleep, until the layer is to be run at the latest, and appends the descriptors to listen to.
    /// Returns whether it listens to the layer's own lanes, and whether all that it waits for wakes it.
    fn prepare_sleep(
        &mut self,
        now: Time,
        timeout: &mut Option<Span>,
        handles: &mut Vec<i32>,
    ) -> Result<(bool, bool), Fault> {
        let host = Arc::clone(&self.base.host);
        let mut engine = host.engine()?;
        self.listed = self.base.sleeps && self.has_bell;
        let listens = !self.listed || engine.lanes_mut().sleep(self.base.number);
        let mut complete = true;
        if listens {
            if self.listed {
                // Not asleep yet: it looks once more when it has the descriptors.
                engine.lanes_mut().set_shows_completions(false, Some(Time(0)));
            }
            drop(engine);
            // Also if nothing is in flight there: another thread may submit a bio and not wait for it.
            complete = host.list_handles(handles, self.base.entry.bell());
            engine = host.engine()?;
        }
        // Another thread may have scheduled an earlier wakeup since.
        let due = engine.outlook(now).due;
        *timeout = timeout.iter().copied().chain(due.map(|at| at.since(now))).min();
        if self.listed && listens {
            engine.lanes_mut().set_shows_completions(complete, timeout.map(|span| now + span));
        }
        host.publish(now, &mut engine);
        Ok((listens, complete || !engine.is_out()))
    }

    /// Removes the lane from the engine's list, because it will not sleep again or only in its own lane: others must not
    /// rely on it to listen to the layer's own lanes.
    fn unlist(&mut self, engine: &mut EngineOf<T>) {
        if std::mem::take(&mut self.listed) {
            engine.lanes_mut().wake(self.base.number);
        }
    }

    /// As `unlist`, without the lock held.
    fn resign(&mut self, now: Time) {
        if !self.listed {
            return;
        }
        let host = Arc::clone(&self.base.host);
        if let Ok(mut engine) = host.engine() {
            self.unlist(&mut engine);
            engine.enter();
            host.leave(now, &mut engine);
        }
    }
}

impl<T: LaneTasks> Lane for HostLane<T> {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.base.own)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.base.own)
    }

    fn submit(&mut self, _now: Time, mut bio: Bio) {
        match check(&bio, &self.geometry) {
            Ok(()) => self.done.extend(self.tasks.start(&self.base, bio)),
            Err(fault) => {
                bio.fail(fault);
                self.done.push(bio);
            }
        }
    }

    fn run(&mut self, now: Time) {
        // Otherwise a completion would not be taken, and would wake the listening thread again and again.
        self.base.woke |= self.is_listed_outside.take() && self.base.host.board().is_out();
        self.progress(now, false);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        platter_block::queue::append(out, &mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let runs = self.base.own_out > 0 || !self.base.own.is_idle();
        let own = if runs { self.base.own.next_wakeup() } else { None };
        let now = self.base.is_called().then_some(Time(0));
        let visit = if self.is_background { self.base.host.board().visit() } else { None };
        let layer = [self.tasks.next_wakeup(), self.base.host.board().wakeup(), visit];
        [own, now].into_iter().chain(layer).flatten().min()
    }

    fn unplug(&mut self, now: Time) {
        if self.base.own_out > 0 {
            self.base.own.unplug(now);
        }
        if self.tasks.count() > 0 {
            self.base.host.unplug(now);
        }
    }

    /// Blocks until something has changed.
    fn sleep(&mut self, now: Time, mut timeout: Option<Span>, others: &[i32]) {
        if self.base.host.is_simulated() {
            return self.base.own.sleep(now, timeout, others);
        }
        let mut handles = std::mem::take(&mut self.handles);
        handles.extend_from_slice(others);
        let (mut listens, mut complete) = (false, false);
        // If the state is broken, the next run fails all bios.
        if let Ok(ready) = self.prepare_sleep(now, &mut timeout, &mut handles) {
            (listens, complete) = ready;
        }
        // Completions that cannot be waited for are found by the next run.
        if complete && !self.base.entry.kicked.load(Ordering::SeqCst) {
            self.base.own.sleep(now, timeout, &handles);
        }
        handles.clear();
        self.handles = handles;
        self.base.woke = listens;
        if self.tasks.count() == 0 {
            // The lane may not be run again.
            self.resign(now);
        }
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        let own = self.base.own.wait_handles(out);
        self.is_listed_outside.set(true);
        self.base.host.list_handles(out, self.base.entry.bell()) && own
    }

    fn in_flight(&self) -> u32 {
        // A lane that is run for the layer's own work counts that work too.
        let counts = self.tasks.count() > 0 || (self.is_background && self.base.host.board().has_work());
        let shared = if counts { self.base.host.in_flight() } else { 0 };
        self.base.own.in_flight() + shared
    }

    fn cancel(&mut self, now: Time, which: &Cancel) {
        let host = Arc::clone(&self.base.host);
        let depth = Depth::enter();
        if let Ok(mut engine) = host.engine() {
            engine.enter();
            self.tasks.cancel(now, self.base.number, which, &mut engine);
            if !self.tasks.waits() {
                self.unlist(&mut engine);
            }
            host.leave(now, &mut engine);
        }
        host.deliver(now);
        drop(depth);
        self.give_back();
    }

    fn closing(&mut self, left: &Arc<dyn Left>) {
        self.base.own.closing(left);
        self.base.left = Some(Arc::clone(left));
    }

    fn is_idle(&self) -> bool {
        let board = self.base.host.board();
        let works = self.is_background && (board.has_work() || board.visit().is_some());
        self.tasks.count() == 0 && self.base.own.is_idle() && !works
    }
}

impl<T: LaneTasks> LayerLane for HostLane<T> {
    fn wait_below(&mut self, now: Time, timeout: Option<Span>) -> bool {
        self.progress(now, true);
        if self.done.is_empty() && self.waits_for_own() {
            self.resign(now);
            self.base.own.wait(now, timeout);
            return true;
        }
        !self.done.is_empty()
    }
}

impl<T: LaneTasks> Drop for HostLane<T> {
    fn drop(&mut self) {
        self.base.forget_unsubmitted();
        self.tasks.end(&mut self.base);
    }
}

/// Whether a bio has the range and the memory that a device of this geometry accepts.
#[inline]
fn check(bio: &Bio, geometry: &Geometry) -> Result<(), Fault> {
    if bio.op() == Op::Flush {
        return Ok(());
    }
    let refuse = |kind| Err(Fault::new(kind, Stage::Layer));
    if bio.op() == Op::Command {
        let taken = bio.command().is_some_and(|command| geometry.features.commands.contains(command.set()));
        return if taken { Ok(()) } else { refuse(Kind::Unsupported) };
    }
    let at_layer = |fault: Fault| Fault { stage: Stage::Layer, ..fault };
    geometry.limits.check_range(bio.pos(), bio.len(), geometry.size).map_err(at_layer)?;
    let bytes = || bio.segments().map(|segment| u64::from(segment.len())).sum::<u64>();
    if bio.op().has_data() && bytes() != bio.len() {
        return refuse(Kind::BadSegments);
    }
    if bio.op().changes() && geometry.features.read_only {
        return refuse(Kind::ReadOnly);
    }
    // A layer may carry a bio out in parts.
    if bio.flags().contains(Flags::ATOMIC) {
        return refuse(Kind::Unsupported);
    }
    Ok(())
}
