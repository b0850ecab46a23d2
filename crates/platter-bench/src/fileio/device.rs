//! Files that are parts of a device, called synchronously.

use super::FileioError;
use super::engine::{Engine, buffers};
use super::plan::Plan;
use super::requests::Request;
use platter_disk::device::Device;
use platter_disk::pool::PoolBuf;

/// A device cut into equal files, one after the other.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) device: Device,
    pub(super) file_size: u64,
}

impl Cut {
    /// Where a position of a file is on the device.
    pub(super) fn at(&self, file: u32, pos: u64) -> u64 {
        u64::from(file) * self.file_size + pos
    }
}

/// A thread that calls and waits.
pub(super) struct Calls {
    cut: Cut,
    buffer: PoolBuf,
    done: Option<u32>,
}

impl Calls {
    pub(super) fn new(plan: &Plan, cut: Cut, thread: u32) -> Result<Calls, FileioError> {
        let align = cut.device.geometry().limits.memory_align;
        let buffer = buffers(plan, thread, align, 1)?.pop();
        Ok(Calls { cut, buffer: buffer.expect("a pool of one buffer has it"), done: None })
    }
}

impl Engine for Calls {
    fn start(&mut self, slot: u32, request: Request) -> Result<(), FileioError> {
        let device = &self.cut.device;
        match request {
            Request::Read { file, pos } => device.read_at(&mut self.buffer, self.cut.at(file, pos))?,
            Request::Write { file, pos } => device.write_at(&self.buffer, self.cut.at(file, pos))?,
            Request::Sync { .. } => device.flush()?,
        }
        self.done = Some(slot);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<u32>) -> Result<(), FileioError> {
        done.extend(self.done.take());
        Ok(())
    }
}
