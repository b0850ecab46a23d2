//! How the members of a mirror keep its state: what must be durable, and Platter's own form of it.

use super::format::{COPIES, RECORD, Record, Saved};
use crate::kit::{Below, Buffer};
use crate::sync::{Mutex, lock};
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Status};
use std::pin::Pin;
use std::sync::Arc;

/// Records on the members of a mirror, of some form.
///
/// The mirror saves one state after the other. What a form must keep: a state that was saved on all members in use, and after a
/// power cut either that or a later one, on each member. Where a state is written in several pieces, bits that are set come
/// first, then roles and events, then bits that are cleared, each durable before the next; the form knows what it has written last
/// to a member.
pub(super) trait Records {
    /// Writes the state to the member at a place, durably. One save of a member at a time.
    fn save(&self, below: &Below, device: usize, saved: &Arc<Saved>, place: usize) -> Saving;
}

/// A save under way.
pub(super) type Saving = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Which copy of a member is written next, and with which number.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    copy: usize,
    sequence: u64,
}

/// Platter's own form: the whole state in one record, in two copies that are written in turn.
pub(super) struct OwnRecords {
    next: Arc<Mutex<Vec<Next>>>,
}

impl OwnRecords {
    pub(super) fn new(devices: usize) -> OwnRecords {
        OwnRecords { next: Arc::new(Mutex::new(vec![Next::default(); devices])) }
    }

    /// Reads both copies of a device, and returns the newest. The next save overwrites the other one.
    pub(super) async fn load(&self, below: &Below, device: usize) -> Result<Option<Record>, Fault> {
        let mut newest: Option<(usize, Record)> = None;
        for (copy, pos) in COPIES.into_iter().enumerate() {
            let buffer = below.read(device, pos, Buffer::new(RECORD)).await?;
            let Some(record) = Record::decode(buffer.bytes()) else { continue };
            if newest.as_ref().is_none_or(|(_, other)| record.sequence > other.sequence) {
                newest = Some((copy, record));
            }
        }
        let next = newest
            .as_ref()
            .map_or(Next::default(), |(copy, record)| Next { copy: 1 - copy, sequence: record.sequence + 1 });
        lock(&self.next)[device] = next;
        Ok(newest.map(|(_, record)| record))
    }

    /// The next save to a device makes it a member: whatever copy it has is older.
    pub(super) fn begin(&self, device: usize, sequence: u64) {
        lock(&self.next)[device].sequence = sequence;
    }
}

impl Records for OwnRecords {
    fn save(&self, below: &Below, device: usize, saved: &Arc<Saved>, place: usize) -> Saving {
        let (below, saved, next) = (below.clone(), Arc::clone(saved), Arc::clone(&self.next));
        Box::pin(async move {
            let Next { copy, sequence } = lock(&next)[device];
            let record = Record { saved: Saved::clone(&saved), place, sequence };
            let mut buffer = Buffer::new(RECORD);
            buffer.bytes_mut().copy_from_slice(&record.encode());
            below.write(device, COPIES[copy], buffer, Flags::FUA).await?;
            // A save that has failed may have damaged this copy, so the next one takes the same.
            lock(&next)[device] = Next { copy: 1 - copy, sequence: sequence + 1 };
            Ok(())
        })
    }
}
