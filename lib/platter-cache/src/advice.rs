//! What handles tell a cache, or one of its shards: that they are opened and closed, and how a program will read.

use super::engine::Engine;
use super::jobs::Scan;
use super::policy::Policy;
use super::shared::Shared;
use crate::readahead::Hint;
use platter_block::deferred::Depth;
use platter_block::fault::Fault;
use platter_block::handle::HandleId;
use platter_stack::kit::{EngineLock, Host, Turns};

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
            Hint::DontNeed => {
                let scan = engine.whole_pages(pos, len);
                drop(engine);
                return self.let_go(scan);
            }
            Hint::NoReuse | Hint::Normal | Hint::Sequential | Hint::Random => {
                // A handle without a place of its own shares that of the device, whose manner of reading is not its to set.
                let place = engine.handles.own_place(id);
                let Some(handle) = place.and_then(|place| engine.handles.at(place)) else { return Ok(()) };
                match hint {
                    Hint::NoReuse => handle.once = true,
                    // As in Linux (`generic_fadvise`), the other two leave it as it is.
                    Hint::Normal => handle.once = false,
                    _ => {}
                }
                let told = handle.policy.clone().filter(|_| tells && hint != Hint::NoReuse);
                drop(engine);
                told.into_iter().for_each(|policy| policy.lock().policy.advise(hint));
                return Ok(());
            }
        }
        // The first piece is read at once, the rest by the next run of the cache.
        engine.enter();
        self.run_jobs(engine);
        Ok(())
    }

    fn run_jobs(&self, mut engine: EngineLock<'_, Engine>) {
        let now = self.below.now();
        engine.run_jobs();
        engine.submit_shared();
        self.leave(now, &mut engine);
        drop(engine);
        self.deliver(now);
    }

    /// Drops what is clean before it returns, in as many turns as that takes, since a later read must find its pages. What is dirty
    /// is written by later runs of the cache.
    fn let_go(&self, mut scan: Scan) -> Result<(), Fault> {
        let (mut others, mut is_more) = (false, true);
        while is_more {
            let mut engine = self.engine()?;
            engine.enter();
            is_more = engine.drop_clean(&mut scan, &mut others);
            self.run_jobs(engine);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::device::Cache;
    use platter_disk::device::Device;
    use std::sync::Arc;

    fn cache() -> Cache {
        let below = Device::null(1 << 30).unwrap();
        Cache::new(Arc::clone(below.backend()), &Settings::default()).unwrap()
    }

    /// Whether pages that I/O with this number reads are read once.
    fn is_once(shared: &Shared, id: u32) -> bool {
        let mut engine = shared.engine().unwrap();
        let place = engine.handles.place(HandleId(id));
        engine.handles.at(place).unwrap().once
    }

    #[test]
    fn a_handle_without_a_place_does_not_advise_for_the_device() {
        let cache = cache();
        let shared = cache.shared();
        let policy = shared.policies.make();
        let last = u32::from(u16::MAX);
        (1..=last + 1).for_each(|id| shared.open_handle(HandleId(id), Arc::clone(&policy)));
        let advise = |id, hint| shared.take_hint(HandleId(id), hint, (0, 4096), true).unwrap();
        advise(last + 1, Hint::NoReuse);
        advise(last, Hint::NoReuse);
        assert!(!is_once(shared, HandleId::DEVICE.0) && is_once(shared, last));
        assert!(!is_once(shared, last + 1), "it reads as the device does");
        advise(HandleId::DEVICE.0, Hint::NoReuse);
        advise(last + 1, Hint::Normal);
        assert!(is_once(shared, HandleId::DEVICE.0));
    }

    #[test]
    fn pages_are_needed_once_until_the_handle_is_normal_again() {
        let cache = cache();
        let shared = cache.shared();
        shared.open_handle(HandleId(1), shared.policies.make());
        let advise = |hint| shared.take_hint(HandleId(1), hint, (0, 4096), true).unwrap();
        for (hint, once) in [
            (Hint::Sequential, false),
            (Hint::NoReuse, true),
            (Hint::Sequential, true),
            (Hint::Random, true),
            (Hint::WillNeed, true),
            (Hint::DontNeed, true),
            (Hint::Normal, false),
            (Hint::Random, false),
        ] {
            advise(hint);
            assert_eq!(is_once(shared, 1), once, "after {hint:?}");
        }
    }
}
