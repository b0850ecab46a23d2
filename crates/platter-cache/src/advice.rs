//! What handles tell a cache, or one of its shards: that they are opened and closed, and how a program will read.

use super::policy::Policy;
use super::shared::Shared;
use crate::readahead::Hint;
use platter_block::deferred::Depth;
use platter_block::fault::Fault;
use platter_block::handle::HandleId;
use platter_stack::kit::{Host, Turns};

impl Shared {
    /// Adds a handle with its readahead.
    pub(super) fn open_handle(&self, id: HandleId, policy: Policy) {
        if let Ok(mut engine) = self.engine() {
            engine.handles.open(id, policy);
        }
    }

    pub(super) fn close_handle(&self, id: HandleId) {
        if let Ok(mut engine) = self.engine()
            && let Some((place, waiters)) = engine.handles.close(id)
        {
            engine.jobs.forget_handle(place);
            waiters.into_iter().for_each(|lane| engine.lanes.kick(lane));
        }
    }

    /// Carries a hint out: for the pages of a range, or for the handle, whose policy is told if `tells`.
    ///
    /// # Errors
    /// The engine is broken.
    pub(super) fn take_hint(
        &self,
        id: HandleId,
        hint: Hint,
        (pos, len): (u64, u64),
        tells: bool,
    ) -> Result<(), Fault> {
        // Code of the program that is deferred may wait for what is submitted here.
        let _depth = Depth::enter();
        let mut engine = self.engine()?;
        match hint {
            Hint::WillNeed => engine.will_need(id, pos, len),
            Hint::DontNeed => engine.dont_need(pos, len),
            Hint::NoReuse | Hint::Normal | Hint::Sequential | Hint::Random => {
                let place = engine.handles.place(id);
                let Some(handle) = engine.handles.at(place) else { return Ok(()) };
                handle.once = hint == Hint::NoReuse;
                let told = handle.policy.clone().filter(|_| tells && !handle.once);
                drop(engine);
                told.into_iter().for_each(|policy| policy.lock().policy.advise(hint));
                return Ok(());
            }
        }
        // The first piece is read at once, the rest by the next run of the cache.
        let now = self.below.now();
        engine.enter();
        engine.run_jobs();
        engine.submit_shared();
        self.leave(now, &mut engine);
        drop(engine);
        self.deliver(now);
        Ok(())
    }
}
