//! The bios of one lane of a stateful layer: each becomes a task of the engine.

use super::engine::Engine;
use super::frame::Frame;
use super::host::{Host, PATIENCE};
use super::host_lane::{LaneBase, LaneTasks};
use super::layer::Layer;
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Stage};
use platter_block::lane::{Cancel, Holder};
use platter_block::time::Time;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

pub(super) struct Tasks<L> {
    port: usize,
    /// Bios to be given to the engine.
    fresh: Vec<Bio>,
    /// Bios that the engine has.
    out: usize,
    over: Vec<Bio>,
    layer: PhantomData<fn() -> L>,
}

impl<L> Tasks<L> {
    pub(super) fn new(port: usize) -> Tasks<L> {
        Tasks { port, fresh: Vec::new(), out: 0, over: Vec::new(), layer: PhantomData }
    }
}

impl<L: Layer> LaneTasks for Tasks<L> {
    type Host = Frame<L>;

    fn start(&mut self, _base: &LaneBase<Frame<L>>, bio: Bio) -> Option<Bio> {
        self.fresh.push(bio);
        None
    }

    fn count(&self) -> usize {
        self.fresh.len() + self.out
    }

    fn waits(&self) -> bool {
        self.out > 0
    }

    fn is_due(&self, _now: Time) -> bool {
        !self.fresh.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        (!self.fresh.is_empty()).then_some(Time(0))
    }

    fn turn(&mut self, now: Time, base: &mut LaneBase<Frame<L>>, engine: &mut Engine<L>) -> bool {
        self.out += self.fresh.len();
        for bio in self.fresh.drain(..) {
            engine.start(base.number, self.port, bio);
        }
        engine.run_tasks(now);
        base.has_seen();
        let before = self.over.len();
        engine.take_done(base.number, &mut self.over);
        self.out -= self.over.len() - before;
        false
    }

    fn take_over(&mut self, _own_out: u32, give_back: impl FnMut(Bio)) {
        self.over.drain(..).for_each(give_back);
    }

    /// Those that a device below has stay with it.
    fn fail(&mut self, base: &LaneBase<Frame<L>>, fault: Fault) {
        for mut bio in self.fresh.drain(..) {
            bio.fail(fault);
            self.over.push(bio);
        }
        let before = self.over.len();
        base.host.take_done(base.number, &mut self.over);
        self.out -= self.over.len() - before;
    }

    fn cancel(&mut self, now: Time, number: u32, which: &Cancel, engine: &mut Engine<L>) {
        for mut bio in self.fresh.extract_if(.., |bio| which.matches(bio)) {
            bio.fail(Fault::new(which.kind(), Stage::Layer));
            self.over.push(bio);
        }
        engine.cancel(now, number, which);
    }

    /// Waits for what devices carry out for this lane, because a later write of another lane must not be overtaken.
    fn end(&mut self, base: &mut LaneBase<Frame<L>>) {
        let Ok(mut engine) = base.host.engine() else { return };
        if !base.host.run_until(&mut engine, PATIENCE, |engine, _| engine.leave_lane(base.number)) {
            let holder: Weak<dyn Holder> = Arc::downgrade(&base.host) as Weak<Frame<L>>;
            let left = base.left.take();
            engine.close_lane(base.number, || left.map(|left| left.keep_all(Some(holder))));
        }
        base.host.publish(base.host.now(), &mut engine);
    }
}
