//! The bios of a thread of an export: those that it uses again, and those that are complete.

use crate::buffers::Buffers;
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Kind, Stage};
use platter_disk::channel::Channel;
use platter_disk::pool::PoolBuf;

#[derive(Default)]
pub(crate) struct Bios {
    spare: Vec<Bio>,
    /// Complete, and not finished by the thread.
    pub(crate) done: Vec<Bio>,
}

impl Bios {
    /// A bio to set and submit.
    pub(crate) fn spare(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    /// Takes a bio back that was finished.
    pub(crate) fn put(&mut self, bio: Bio) {
        self.spare.push(bio);
    }

    /// Takes a bio back that was finished. Returns its memory, of `capacity` bytes, unless it had none or the device keeps it.
    pub(crate) fn put_from(
        &mut self,
        mut bio: Bio,
        buffers: &mut Buffers,
        capacity: usize,
    ) -> Option<PoolBuf> {
        let buffer = bio.take_buffer();
        if bio.op().has_data() && buffer.is_none() {
            buffers.lost(capacity);
        }
        self.put(bio);
        buffer
    }

    /// Gives a bio to the device. One that could not be `set`, or that the channel does not take, has failed at once.
    pub(crate) fn submit(
        &mut self,
        channel: &mut Channel,
        token: impl Into<u64>,
        mut bio: Bio,
        set: Result<(), Fault>,
    ) {
        bio.set_token(token.into());
        let refused = match set {
            // The channel has room for as many bios as there are slots, and a slot has one at a time.
            Ok(()) => {
                channel.submit(bio).err().map(|full| (full.0, Fault::new(Kind::Contract, Stage::Handle)))
            }
            Err(fault) => Some((bio, fault)),
        };
        if let Some((mut bio, fault)) = refused {
            bio.fail(fault);
            self.done.push(bio);
        }
    }

    /// Awaits what the device has, and forgets it.
    pub(crate) fn forget_all(&mut self, channel: &mut Channel) {
        while channel.outstanding() > 0 {
            channel.wait(&mut self.done, None);
            self.done.clear();
        }
    }
}

/// Finishes all bios of a worker that are complete, also those that fail before they are submitted meanwhile. Returns how many.
pub(crate) fn finish_all<W>(
    worker: &mut W,
    bios: impl Fn(&mut W) -> &mut Bios,
    finish: impl Fn(&mut W, Bio),
) -> usize {
    let mut count = 0;
    while !bios(worker).done.is_empty() {
        let mut done = std::mem::take(&mut bios(worker).done);
        count += done.len();
        done.drain(..).for_each(|bio| finish(worker, bio));
        // Its memory is used again.
        done.append(&mut bios(worker).done);
        bios(worker).done = done;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bio_that_fails_while_others_are_finished_is_finished_too() {
        let mut worker = (Bios::default(), 0);
        worker.0.done.push(Bio::flush());
        let finish = |worker: &mut (Bios, u32), bio: Bio| {
            worker.1 += 1;
            if worker.1 == 1 {
                // The next step of the request could not be submitted.
                worker.0.done.push(Bio::flush());
            }
            worker.0.put(bio);
        };
        assert_eq!(finish_all(&mut worker, |worker| &mut worker.0, finish), 2);
        assert!(worker.0.done.is_empty());
    }
}
