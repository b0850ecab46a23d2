//! What a panic of the layer leaves: its bios complete with an error, nothing more goes below, and later bios are refused.

use super::{BROKEN, Engine};
use crate::kit::core::BoxFuture;
use crate::kit::layer::Layer;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a caught panic says of its cause, in one line.
fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or(payload.downcast_ref::<String>().map(String::as_str))
        .and_then(|text| text.lines().next())
        .unwrap_or("no message")
        .to_owned()
}

/// Runs code of the layer.
///
/// # Errors
/// It panicked; what the panic said.
pub(super) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| message(payload.as_ref()))
}

impl<L: Layer> Engine<L> {
    /// Whether the layer has panicked.
    pub(in crate::kit) fn is_broken(&self) -> bool {
        self.panic.get().is_some()
    }

    /// Ends the layer. Bios that no device has complete at once, the others when they come back.
    pub(in crate::kit) fn break_off(&mut self, cause: &str) {
        let _ = self.panic.set(cause.to_owned());
        self.progress = true;
        let futures = std::mem::take(&mut self.futures);
        futures.into_iter().flatten().for_each(drop_quietly);
        self.drop_spawned();
        self.own_tasks = 0;
        let mut core = self.below.core();
        core.timers.clear();
        while core.next_ready().is_some() {}
        let staged = std::mem::take(&mut core.staged);
        let waits = |task: &super::TaskState| task.is_in_use() && !task.routed && task.ended.is_none();
        let slots: Vec<u32> =
            (0..).zip(&core.tasks).filter(|(_, task)| waits(task)).map(|(slot, _)| slot).collect();
        drop(core);
        slots.into_iter().for_each(|slot| self.end(slot, Err(BROKEN)));
        for (_, mut bio) in staged {
            bio.fail(BROKEN);
            self.came_back(bio);
        }
    }

    /// Drops tasks that were to be started.
    pub(super) fn drop_spawned(&mut self) {
        let spawned = std::mem::take(&mut self.below.core().spawned);
        spawned.into_iter().for_each(drop_quietly);
    }
}

/// Drops a task. The panic hook reports a panic of what it owns.
fn drop_quietly(future: BoxFuture) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
}
