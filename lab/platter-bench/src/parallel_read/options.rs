//! Options of the test.

use super::ParallelReadError;
use crate::ladder::Ladder;
use crate::report::units::{bytes, bytes_short};
use platter_disk::device::Device;

/// The rung of the ladder that reads as a raw device of 2.4 did on a machine without high memory: units of a sector,
/// one lock for all queues, no bounce buffers.
pub const RAW_RUNG: &str = "SB";

/// A way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Small reads through a cache.
    Normal,
    /// Large reads of the device.
    Direct,
    /// Large reads as a raw device of Linux 2.4 carried them out.
    Raw,
}

impl Mode {
    /// All of them, in the order of the mail.
    pub const ALL: [Mode; 3] = [Mode::Normal, Mode::Direct, Mode::Raw];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Normal => "normal",
            Mode::Direct => "direct",
            Mode::Raw => "raw",
        }
    }
}

/// A device that was opened for a mode.
pub enum Opened {
    /// For `normal`, with a cache, and for `direct`, without one.
    Device(Device),
    /// For `raw`.
    Ladder(Ladder),
}

impl Opened {
    /// The device.
    pub fn device(&self) -> &Device {
        match self {
            Opened::Device(device) => device,
            Opened::Ladder(ladder) => ladder.device(),
        }
    }
}

/// Opens a device for a mode.
pub type Open<'a> = Box<dyn Fn(Mode) -> Result<Opened, ParallelReadError> + Sync + 'a>;

/// A device that is read.
pub struct Disk<'a> {
    /// Its name in the report.
    pub name: String,
    /// Opens it.
    pub open: Open<'a>,
}

impl<'a> Disk<'a> {
    /// A device of that name.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn(Mode) -> Result<Opened, ParallelReadError> + Sync + 'a,
    ) -> Disk<'a> {
        Disk { name: name.into(), open: Box::new(open) }
    }
}

/// How to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The ways, in their order.
    pub modes: Vec<Mode>,
    /// Bytes that are read of each device, from its beginning; `None`: as many as whole blocks fit.
    pub size: Option<u64>,
    /// Bytes of a read with [`Mode::Normal`].
    pub normal_block: u64,
    /// Bytes of a read with the other two.
    pub block: u64,
    /// Rounds; results are medians.
    pub repeat: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { modes: Mode::ALL.to_vec(), size: None, normal_block: 512, block: 4 << 20, repeat: 3 }
    }
}

/// The largest read.
const MOST: u64 = 1 << 30;

impl Options {
    /// Bytes of a read.
    pub fn block_of(&self, mode: Mode) -> u64 {
        if mode == Mode::Normal { self.normal_block } else { self.block }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// The first invalid one: its name, its value, the allowed values.
    pub(super) fn check(&self) -> Result<(), ParallelReadError> {
        let refuse = |message: String| Err(ParallelReadError::Option(message));
        for (name, block) in [("normal-block", self.normal_block), ("block", self.block)] {
            if !(512..=MOST).contains(&block) || !block.is_multiple_of(512) {
                let (block, most) = (bytes_short(block), bytes_short(MOST));
                return refuse(format!("--{name} {block}: allowed are multiples of 512 from 512 to {most}"));
            }
        }
        if self.repeat == 0 {
            return refuse("--repeat 0: allowed is at least 1".to_owned());
        }
        if self.modes.is_empty() {
            return refuse("no mode to measure: give at least one of normal, direct, raw".to_owned());
        }
        Ok(())
    }

    /// Bytes to read of a device in a mode: whole blocks.
    pub(super) fn bytes_of(&self, mode: Mode, device: &Device) -> Result<u64, ParallelReadError> {
        let (block, size) = (self.block_of(mode), device.size());
        let refuse = |message: String| Err(ParallelReadError::Unfit(message));
        let wanted = self.size.unwrap_or(size);
        if wanted > size {
            let name = device.name();
            let (wanted, size) = (bytes_short(wanted), bytes_short(size));
            return refuse(format!("--size {wanted}: allowed is up to {size}, the size of {name}"));
        }
        match wanted / block * block {
            0 => refuse(format!(
                "{} of {}: {} reads blocks of {} and needs one at least; lower --{}",
                bytes(wanted),
                device.name(),
                mode.name(),
                bytes_short(block),
                if mode == Mode::Normal { "normal-block" } else { "block" }
            )),
            whole => Ok(whole),
        }
    }
}
