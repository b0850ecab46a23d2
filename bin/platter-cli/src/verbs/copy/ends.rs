//! The two devices of a copy, each with a channel, and the buffers that go between them.

use super::plan::Plan;
use super::stop::{Stopped, Stopper};
use crate::cli::CliError;
use platter_block::bio::{Bio, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::time::Span;
use platter_disk::channel::{Channel, Full};
use platter_disk::device::Device;
use platter_disk::pool::{PAGE, Pool, PoolBuf, Registration};

/// How long to wait for one device while the other has something in flight too.
const BRIEFLY: Span = Span::from_millis(1);
/// How long to wait before checking for a stop request.
const LONG: Span = Span::from_millis(100);

/// One device with a channel.
pub(super) struct End {
    pub(super) device: Device,
    channel: Channel,
    done: Vec<Bio>,
}

impl End {
    fn new(device: &Device, depth: u32) -> Result<End, CliError> {
        let channel = device.channel(depth as usize)?;
        Ok(End { device: device.clone(), channel, done: Vec::with_capacity(depth as usize) })
    }

    /// Submits a bio; the channel has room for the number requested when it was opened.
    pub(super) fn submit(&mut self, bio: Bio) -> Result<(), Error> {
        self.channel.submit(bio).map_err(|Full(bio)| {
            let fault = Fault::new(Kind::Contract, Stage::Handle);
            self.error(fault, bio.op(), bio.pos(), bio.len())
        })
    }

    /// Bios completed since the last call.
    pub(super) fn completed(&mut self) -> Vec<Bio> {
        self.channel.poll(&mut self.done);
        std::mem::take(&mut self.done)
    }

    /// Returns the vector of [`completed`](End::completed) for reuse.
    pub(super) fn recycle(&mut self, mut done: Vec<Bio>) {
        done.clear();
        if self.done.is_empty() {
            self.done = done;
        }
    }

    /// Why a bio failed, or nothing.
    pub(super) fn check(&self, bio: &Bio) -> Result<(), Error> {
        let failed = |fault| self.error(fault, bio.op(), bio.pos() - bio.done(), bio.len() + bio.done());
        bio.status().map_err(failed)
    }

    /// An error about this device.
    pub(super) fn error(&self, fault: Fault, op: Op, offset: u64, len: u64) -> Error {
        Error { fault, op, device: self.device.name(), offset, len, detail: String::new() }
    }

    /// The error of a read for which there is no buffer.
    pub(super) fn no_buffer(&self, pos: u64, len: u64) -> Error {
        // There are as many as reads and writes at once: those of I/Os that timed out stay with the driver.
        let detail = "all buffers are with I/Os that timed out and that the device has not returned";
        let error = self.error(Fault::new(Kind::NoMemory, Stage::Handle), Op::Read, pos, len);
        Error { detail: detail.to_owned(), ..error }
    }

    fn wait(&mut self, time: Span) {
        self.channel.wait(&mut self.done, Some(time));
    }
}

/// The number of the bio that flushes the destination.
pub(super) const FLUSH: u64 = u64::MAX;

/// Both devices and the buffers.
pub(super) struct Ends {
    pub(super) source: End,
    pub(super) destination: End,
    pool: Pool,
    /// How many buffers there are.
    pub(super) depth: usize,
    /// The device to wait for next.
    turn: bool,
    _registered: [Registration; 2],
}

impl Ends {
    /// Opens channels and takes memory for `depth` blocks of `bs` bytes, or as many as the source has.
    pub(super) fn open(plan: &Plan, bs: u64, depth: u32) -> Result<Ends, CliError> {
        let blocks = u32::try_from(plan.size.div_ceil(bs)).unwrap_or(u32::MAX);
        let depth = depth.min(blocks.max(1).saturating_mul(2));
        let align =
            plan.source.geometry().limits.memory_align.max(plan.destination.geometry().limits.memory_align);
        let pool = Pool::new(depth as usize, bs as usize, PAGE.max(align as usize))
            .map_err(|error| CliError::failed(error.to_string()))?;
        // Before the channels, so that they register the buffers as they open.
        let registered = [pool.register(plan.source.backend()), pool.register(plan.destination.backend())];
        Ok(Ends {
            source: End::new(&plan.source, depth)?,
            // One more for the flush.
            destination: End::new(&plan.destination, depth.saturating_add(1))?,
            pool,
            depth: depth as usize,
            turn: false,
            _registered: registered,
        })
    }

    /// A free buffer of `len` bytes.
    pub(super) fn take(&self, len: u64) -> Option<PoolBuf> {
        let mut buffer = self.pool.take()?;
        buffer.truncate(len as usize);
        Some(buffer)
    }

    /// Starts a flush of the destination; its bio has the number [`FLUSH`].
    pub(super) fn start_flush(&mut self) -> Result<(), Error> {
        let mut bio = Bio::flush();
        bio.set_token(FLUSH);
        self.destination.submit(bio)
    }

    /// Makes all completed writes to the destination durable, while nothing else is in flight. `waits` is
    /// called regularly, with whether the user requested a stop.
    pub(super) fn flush(
        &mut self,
        stop: &mut Stopper<'_>,
        mut waits: impl FnMut(bool),
    ) -> Result<(), Stopped> {
        self.start_flush().map_err(|error| Stopped::destination(&error))?;
        loop {
            let done = self.destination.completed();
            if let Some(bio) = done.iter().find(|bio| bio.token() == FLUSH) {
                let outcome = self.destination.check(bio);
                self.destination.recycle(done);
                return outcome.map_err(|error| Stopped::destination(&error));
            }
            let left = || "the flush of the destination".to_owned();
            waits(stop.asked());
            if stop.asked() && stop.is_over(left) {
                return Err(Stopped::Abandoned(left()));
            }
            self.wait();
        }
    }

    /// Waits until a bio may have completed. With I/O in flight on both devices, waits for each in turn for a
    /// short time; completions on the other device are seen afterwards.
    pub(super) fn wait(&mut self) {
        let out = |end: &End| end.channel.outstanding() > 0;
        match (out(&self.source), out(&self.destination)) {
            (true, true) => {
                self.turn = !self.turn;
                let end = if self.turn { &mut self.destination } else { &mut self.source };
                end.wait(BRIEFLY);
            }
            (true, false) => self.source.wait(LONG),
            (false, _) => self.destination.wait(LONG),
        }
    }
}
