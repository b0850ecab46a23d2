//! Files that are parts of a device, called synchronously.

use super::FileioError;
use super::engine::{Engine, buffers};
use super::plan::{Handles, Plan};
use super::requests::Request;
use platter_disk::device::Device;
use platter_disk::handle::Handle;
use platter_disk::pool::PoolBuf;
use std::sync::Arc;

/// A device cut into equal files, one after the other, and the open files.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) device: Device,
    pub(super) file_size: u64,
    files: u32,
    /// One for each file, or for each file of each thread.
    handles: Arc<[Handle]>,
}

impl Cut {
    /// Cuts a device on which the plan has been checked.
    pub(super) fn new(device: &Device, plan: &Plan) -> Cut {
        let sets = match plan.handles {
            Handles::Shared => 1,
            Handles::Each => plan.threads as usize,
        };
        let handles = (0..sets * plan.files as usize).map(|_| device.handle()).collect();
        Cut { device: device.clone(), file_size: plan.file_size(), files: plan.files, handles }
    }

    /// Where a position of a file is on the device.
    pub(super) fn at(&self, file: u32, pos: u64) -> u64 {
        u64::from(file) * self.file_size + pos
    }

    /// The handle through which a thread uses a file.
    pub(super) fn handle(&self, thread: u32, file: u32) -> &Handle {
        let number = thread as usize * self.files as usize + file as usize;
        &self.handles[number % self.handles.len()]
    }
}

/// A thread that calls and waits.
pub(super) struct Calls {
    cut: Cut,
    thread: u32,
    buffer: PoolBuf,
    done: Option<u32>,
}

impl Calls {
    pub(super) fn new(plan: &Plan, cut: Cut, thread: u32) -> Result<Calls, FileioError> {
        let align = cut.device.geometry().limits.memory_align;
        let buffer = buffers(plan, thread, align, 1)?.pop();
        Ok(Calls { cut, thread, buffer: buffer.expect("a pool of one buffer has it"), done: None })
    }
}

impl Engine for Calls {
    fn start(&mut self, slot: u32, request: Request) -> Result<(), FileioError> {
        let (cut, thread) = (&self.cut, self.thread);
        match request {
            Request::Read { file, pos } => {
                cut.handle(thread, file).read_at(&mut self.buffer, cut.at(file, pos))?;
            }
            Request::Write { file, pos } => {
                cut.handle(thread, file).write_at(&self.buffer, cut.at(file, pos))?;
            }
            Request::Sync { file } => {
                cut.handle(thread, file).flush_range(cut.at(file, 0), cut.file_size)?;
            }
        }
        self.done = Some(slot);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<u32>) -> Result<(), FileioError> {
        done.extend(self.done.take());
        Ok(())
    }
}
