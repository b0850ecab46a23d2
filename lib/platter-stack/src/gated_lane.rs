//! The lane in front of a layer: plug, gate, cancelling, wake-ups and sleeping.
//!
//! A layer is a [`LayerLane`], which gets only bios that may start and says nothing of barriers. [`GatedLane`] is the lane
//! that its users have. Bios wait in its plug until it is run, then they take their places at the gate ([`Door`]); those
//! that may start go to the layer, and what the layer returns is reported to the gate.
//!
//! Example: a lane of `raid0` gets write A, hard barrier B and read C, and is run. All three take their places. A goes to the layer,
//! B and C are held. When a later run finds that A is back, and no other lane has a bio from before B, it starts B in the same
//! call; C follows when B is back. If only A and C had come, both would have gone to the layer at once ([`Door::pass`]).

use crate::barrier_gate::{BARRIER, BarrierGate, Door};
use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::queue::{Settings, append};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// What a layer does with bios that may start.
///
/// It is a lane over the lanes below it, with these differences: [`submit`](Lane::submit) starts the bio, [`run`](Lane::run) goes on
/// until there is nothing to do, [`cancel`](Lane::cancel) is for bios that have started, and before [`sleep`](Lane::sleep) everything
/// has been run and unplugged and the timeout is at most [`next_wakeup`](Lane::next_wakeup). [`wait`](Lane::wait) is not called.
pub trait LayerLane: Lane {
    /// Whether [`admits`](LayerLane::admits) must be called before each bio.
    fn asks(&self) -> bool {
        false
    }

    /// Whether another bio may start. After `true` either one starts, or [`release`](LayerLane::release) is called.
    fn admits(&mut self) -> bool {
        true
    }

    /// A bio that was admitted has come back. Returns whether other lanes may wait for this; they are then woken.
    fn release(&mut self) -> bool {
        false
    }

    /// Starts and sleeps in one call, as [`Lane::wait`], if all there is to wait for is one lane below. Returns whether that was so.
    fn wait_below(&mut self, now: Time, timeout: Option<Span>) -> bool {
        let _ = (now, timeout);
        false
    }
}

impl BarrierGate {
    /// The gate of a layer over these devices, whose longest `barrier_timeout` it has.
    pub fn over(below: &[Arc<dyn Backend>]) -> Arc<BarrierGate> {
        let timeout = below.iter().map(|below| below.barrier_timeout()).max();
        BarrierGate::new(timeout.unwrap_or(Settings::default().barrier_timeout))
    }
}

/// See the module.
pub struct GatedLane<L> {
    // Dropped before the door, which wakes the other lanes: what the layer gives back, such as depth, is there when they look.
    layer: L,
    door: Door,
    /// Otherwise the device below keeps barriers: bios pass the door.
    is_gated: bool,
    /// The caller's plug, and whether a barrier is in it.
    plug: Vec<Bio>,
    ordered: bool,
    /// The layer did not admit the last bio.
    refused: bool,
    done: Vec<Bio>,
}

impl<L: LayerLane> GatedLane<L> {
    /// A lane of a device with this gate. `keeps_barriers`: the layer does so, and not the device below.
    pub fn new(layer: L, gate: &Arc<BarrierGate>, keeps_barriers: bool) -> GatedLane<L> {
        let (door, plug, done) = (Door::new(gate, layer.bell()), Vec::new(), Vec::new());
        GatedLane { layer, door, is_gated: keeps_barriers, plug, ordered: false, refused: false, done }
    }

    /// Gives the plugged bios their places in the order, and starts those that need none.
    #[inline(always)]
    fn flush_plug(&mut self, now: Time) {
        let count = self.plug.len();
        if count == 0 {
            return;
        }
        let passes = !self.is_gated || (!self.ordered && !self.layer.asks() && self.door.pass(count));
        // At depth 1 the loop below would cost as much as the start itself.
        if passes
            && count == 1
            && let Some(bio) = self.plug.pop()
        {
            return self.layer.submit(now, bio);
        }
        let mut plug = std::mem::take(&mut self.plug);
        if passes {
            plug.drain(..).for_each(|bio| self.layer.submit(now, bio));
        } else {
            self.ordered = false;
            plug.drain(..).for_each(|bio| self.door.place(bio));
        }
        self.plug = plug;
    }

    /// Starts the held bios that the gate and the layer admit. Returns whether there were any.
    fn start_held(&mut self, now: Time) -> bool {
        let mut any = false;
        self.refused = false;
        while self.door.is_holding() {
            if !self.layer.admits() {
                self.refused = true;
                break;
            }
            let Some(bio) = self.door.take_next() else {
                self.give_way();
                break;
            };
            any = true;
            self.layer.submit(now, bio);
        }
        any
    }

    /// Undoes the admission of a bio that is no longer in flight.
    #[inline]
    fn give_way(&mut self) {
        if self.layer.release() {
            self.door.ring();
        }
    }

    /// Takes what the layer returns.
    #[inline(always)]
    fn collect(&mut self) {
        if !self.layer.has_done() {
            return;
        }
        let first = self.done.len();
        self.layer.take_done(&mut self.done);
        if self.is_gated {
            (first..self.done.len()).for_each(|_| self.give_way());
            self.door.complete(&mut self.done[first..]);
        }
    }
}

impl<L: LayerLane> Lane for GatedLane<L> {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&self.layer)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut self.layer)
    }

    #[inline]
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.ordered |= bio.flags().intersects(BARRIER);
        self.plug.push(bio);
    }

    #[inline]
    fn run(&mut self, now: Time) {
        self.flush_plug(now);
        if self.door.is_holding() {
            self.start_held(now);
        }
        loop {
            self.layer.run(now);
            self.collect();
            if !self.door.is_holding() {
                return;
            }
            if !self.start_held(now) {
                self.door.expire(now);
                return self.door.take_failed(&mut self.done);
            }
        }
    }

    #[inline]
    fn turn(&mut self, now: Time, out: &mut Vec<Bio>) {
        self.run(now);
        append(out, &mut self.done);
    }

    #[inline]
    fn take_done(&mut self, out: &mut Vec<Bio>) {
        append(out, &mut self.done);
    }

    #[inline]
    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        // Another lane may have opened the gate; a caller that advances simulated time must not skip this.
        let now = (!self.refused && self.door.is_ready()).then_some(Time(0));
        [self.layer.next_wakeup(), self.door.next_wakeup(), now].into_iter().flatten().min()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.flush_plug(now);
        if self.door.is_holding() {
            self.start_held(now);
        }
        self.collect();
        if self.has_done() {
            return;
        }
        match !self.door.is_holding() && self.layer.wait_below(now, timeout) {
            true => self.collect(),
            false => self.sleep(now, timeout, &[]),
        }
    }

    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        self.run(now);
        self.unplug(now);
        self.run(now);
        if !self.has_done() {
            let wakeup = self.next_wakeup().map(|at| at.since(now));
            self.layer.sleep(now, timeout.into_iter().chain(wakeup).min(), others);
        }
    }

    fn cancel(&mut self, now: Time, which: &Cancel) {
        self.flush_plug(now);
        self.door.cancel(which);
        self.layer.cancel(now, which);
        self.collect();
        self.door.give_up(which);
        self.door.take_failed(&mut self.done);
        if self.is_gated && self.layer.asks() && which.kind() == Kind::TimedOut {
            // What the layer had admitted gives its place to others.
            self.door.ring();
        }
    }

    fn is_idle(&self) -> bool {
        self.plug.is_empty() && self.door.out() == 0 && !self.door.is_holding() && self.layer.is_idle()
    }
}
