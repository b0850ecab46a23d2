//! `raid1`: the same data on several members, of which all but one may fail.
//!
//! A change goes to all members, and is answered when all have carried it out; a member that fails it is left out from then on, and
//! the records of the others say so, durably, before the change is answered. So a member that comes back is never taken for one
//! that has all data. `docs/raid1.md` says what is promised.
//!
//! Order of writes: the write-intent bit of a chunk is durable on all members before the chunk changes on any. Bits are cleared
//! later, behind a flush of all members, and only while no member is missing. After a power cut, chunks whose bits are set are
//! copied from the first member to the others, and until a chunk is, all reads of it go to that member. That a member is
//! recovered up to some position is recorded behind a flush of it.
//!
//! Members do not differ by what callers do: changes that overlap are carried out one after the other, and what is written is
//! copied once, so that all members get the same bytes. Each I/O of a member has a share of that copy, so a change can be
//! answered although a member that does not answer still has it.

use crate::kit::{Below, Event, Layer, LeavesSilent, Notices, Pace, Ranges, Task, Watches, all, unless};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::{LayerError, LayerType};
use format::{MAX_MEMBERS, Saved};
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::params::{Param, ParamError};
use platter_block::status::Item;
use record::{OwnRecords, Records};
use state::State;
use std::sync::Arc;

mod assemble;
mod bits;
mod create;
mod format;
mod open;
mod operations;
mod re_add;
mod read;
mod record;
mod report;
mod state;
mod upkeep;
mod write;

pub use create::{NewMirror, create};
pub use format::{COPIES as RECORDS, RECORD as RECORD_BYTES, is_record};
pub use open::{Raid1, Settings};
pub(crate) use report::PARAMS;

pub(crate) const TYPE: LayerType = LayerType {
    name: "raid1",
    summary: "the same data on several members, by the records that `platter raid create` has made on them",
    params: PARAMS,
    members: 1..=MAX_MEMBERS,
    build: |values, members| Ok(Raid1::open(members, Settings::of(values))?.device),
};

/// The layer.
struct Mirror {
    below: Below,
    state: Mutex<State>,
    records: OwnRecords,
    devices: Vec<Arc<dyn Backend>>,
    settings: Settings,
    is_read_only: bool,
    /// Changes against each other and against copies.
    ranges: Arc<Ranges>,
    /// A commit has ended.
    committed: Arc<Event>,
    /// The copying.
    pace: Arc<Pace>,
    notices: Notices,
    watches: Watches<Mirror>,
}

fn failed(kind: Kind) -> Fault {
    Fault::new(kind, Stage::Layer)
}

impl Mirror {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A member has failed: it is left, and so is what it has. Not the last one in sync. Returns whether it is out of use.
    fn fail(&self, device: usize, why: &str) -> bool {
        let mut state = self.state();
        let has_failed = state.fail(device, why);
        let is_out = !state.is_live(device);
        drop(state);
        if has_failed {
            self.below.wake_at(device);
            self.notices.tell(report::member(self, device));
            self.notices.tell(report::condition(self));
        }
        is_out
    }

    /// Waits for I/O of a member. `None`: the member has failed meanwhile, and the I/O is left behind.
    async fn attend<F>(self: &Arc<Self>, device: usize, io: F) -> Option<F::Output>
    where
        F: Future + Unpin + Send + 'static,
    {
        match unless(io, || !self.state().is_live(device)).await {
            Ok(output) => Some(output),
            Err(io) => {
                self.state().members[device].left += 1;
                let layer = Arc::clone(self);
                self.below.spawn(async move {
                    io.await;
                    layer.state().members[device].left -= 1;
                    Ok(())
                });
                None
            }
        }
    }

    /// Makes all changes of the state durable, on all members in use, that were made before this call.
    ///
    /// # Errors
    /// The last member in sync could not be written.
    async fn commit(self: &Arc<Self>) -> Status {
        let wanted = self.state().changes;
        loop {
            let ended = self.committed.wait();
            let is_busy = {
                let mut state = self.state();
                if state.durable >= wanted || self.is_read_only {
                    return Ok(());
                }
                std::mem::replace(&mut state.is_committing, true)
            };
            if is_busy {
                ended.await;
                continue;
            }
            let status = self.save(wanted).await;
            self.state().is_committing = false;
            self.committed.happen();
            status?;
        }
    }

    /// Writes the records of all members in use, again and again until none of these fails by that and they have all changes up
    /// to this one.
    async fn save(self: &Arc<Self>, wanted: u64) -> Status {
        loop {
            let (saved, changes, members) = self.state().snapshot();
            let mut status = Ok(());
            let mut has_lost = false;
            for (device, result) in members.iter().zip(self.save_to(&saved, &members).await) {
                if let Err(fault) = result {
                    match self.fail(*device, &format!("its record could not be written: {fault}")) {
                        true => has_lost = true,
                        false => status = Err(fault),
                    }
                }
            }
            let mut state = self.state();
            if status.is_err() {
                state.not_committed(saved, changes);
                return status;
            }
            state.committed(&saved, changes);
            // What this one lacks is in the next.
            if !has_lost && state.durable >= wanted {
                return Ok(());
            }
        }
    }

    /// Writes the records of members, all at the same time. A member that fails meanwhile counts as one that failed by this.
    async fn save_to(self: &Arc<Self>, saved: &Arc<Saved>, members: &[usize]) -> Vec<Status> {
        let save = |&device: &usize| {
            let place = self.state().members[device].place.unwrap_or_default();
            let save = self.records.save(&self.below, device, saved, place);
            let layer = Arc::clone(self);
            let save = async move { layer.attend(device, save).await.unwrap_or(Err(failed(Kind::Gone))) };
            Box::pin(save) as std::pin::Pin<Box<dyn Future<Output = Status> + Send>>
        };
        let saves = members.iter().map(save).collect();
        all(saves).await
    }

    /// What is answered from now on depends on the roles as they are: they are made durable.
    async fn settle(self: &Arc<Self>) -> Status {
        if self.state().is_settled() { Ok(()) } else { self.commit().await }
    }

    /// Flushes all members in use. One that fails it has failed.
    ///
    /// # Errors
    /// The last member in sync has failed it.
    async fn flush_all(self: &Arc<Self>) -> Status {
        let members = self.state().live();
        let flushes: Vec<_> = members.iter().map(|&device| (device, self.below.flush(device))).collect();
        let mut status = Ok(());
        for (device, flush) in flushes {
            if let Some(Err(fault)) = self.attend(device, flush).await
                && !self.fail(device, &format!("a flush failed: {fault}"))
            {
                status = Err(fault);
            }
        }
        status?;
        self.settle().await
    }
}

impl LeavesSilent for Mirror {
    async fn is_silent(self: Arc<Self>, device: usize) -> Status {
        self.fail(device, "it does not answer");
        self.commit().await
    }
}

impl Layer for Mirror {
    async fn run(self: Arc<Self>, task: Task) -> Status {
        match task.op() {
            Op::Read => self.read(&task).await,
            _ => self.change(&task).await,
        }
    }

    async fn flush(self: Arc<Self>, _below: Below, _port: usize) -> Status {
        if self.state().is_open { self.flush_all().await } else { Ok(()) }
    }

    async fn close(self: Arc<Self>) -> Status {
        self.end().await
    }

    fn locate(&self, _port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        let state = self.state();
        let saved = &state.saved;
        Some((state.first()?, saved.offset + pos, saved.size.checked_sub(pos)?))
    }

    fn status(&self, _port: usize) -> Vec<Item> {
        report::status(self)
    }

    fn params(&self, _port: usize) -> Vec<(Param, i64)> {
        self.pace.params(&report::COPYING)
    }

    fn set_param(&self, _port: usize, name: &str, value: i64) -> Result<(), ParamError> {
        self.pace.set_param(&report::COPYING, "raid1", name, value)
    }

    fn notices(&self) -> Option<&Notices> {
        Some(&self.notices)
    }
}

fn unfit(members: &[Arc<dyn Backend>], why: impl std::fmt::Display) -> LayerError {
    let name = crate::distributed::name_of("raid1", "", members);
    LayerError::Unfit(ParamError(format!("{name}: {why}")))
}

/// Why the array could not be opened or changed.
fn explain(mirror: &Mirror, fault: Fault) -> LayerError {
    let refusal = mirror.state().refusal.take();
    unfit(
        &mirror.devices,
        refusal.unwrap_or_else(|| format!("its records cannot be read or written: {fault}")),
    )
}

fn refuse(mirror: &Mirror, why: String) -> Fault {
    mirror.state().refusal = Some(why);
    failed(Kind::Unsupported)
}
