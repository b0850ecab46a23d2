//! What a client is told of its requests, and the log with it, where answered writes may be lost.

use crate::clients::Client;
use crate::events::{Event, Log};
use crate::restart::FirstFlush;
use platter_block::bio::Op;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_disk::device::Device;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the first failure of a client was logged. Further ones are only counted.
#[derive(Default)]
pub(crate) struct FirstFailure(AtomicBool);

impl FirstFailure {
    /// The device has failed a request of the client, for this range.
    #[cold]
    pub(crate) fn tell(
        &self,
        device: &Device,
        (client, log): (&Client, &Log),
        fault: Fault,
        (op, pos, len): (Op, u64, u64),
    ) {
        if !self.0.swap(true, Ordering::Relaxed) {
            log(&Event::Failed(client, &device.error(fault, op, pos, len, String::new()).to_string()));
        }
    }
}

impl FirstFlush {
    /// Called for each flush of the client: whether it must fail. `true` at most once for a loss, with a line in the log.
    #[inline]
    pub fn fails(&self, client: &Client, log: &Log) -> bool {
        let loss = self.take();
        if let Some(loss) = loss {
            log(&Event::Owed(client, loss));
        }
        loss.is_some()
    }

    /// What the client is told of a request that the device has completed with `status`. If that shows that a flush has
    /// failed, the failure is noted and acknowledged for the device.
    #[inline]
    pub(crate) fn settle(
        &self,
        device: &Device,
        (client, log): (&Client, &Log),
        op: Op,
        status: Status,
    ) -> Status {
        match status {
            Ok(()) if op == Op::Flush => match self.fails(client, log) {
                // Another flush has failed since this one was asked for, and was acknowledged before this one began.
                true => Err(Fault::new(Kind::FlushFailed, Stage::Handle)),
                false => Ok(()),
            },
            Ok(()) => {
                if op.changes() {
                    self.wrote();
                }
                Ok(())
            }
            Err(fault) => {
                if let Some(why) = self.failed(device, op, fault) {
                    log(&Event::FlushFailed(client, &why));
                }
                Err(fault)
            }
        }
    }
}
