//! Commands in each way to call.

use crate::devices::SIZE;
use platter_block::bio::Bio;
use platter_block::command::{Command, CommandSet, CommandSets, MemoryUse, Outcome, Reach, Sense, Transfer};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::pool::{Pool, PoolBuf};
use std::sync::Arc;

const LEN: usize = 4096;
const DEPTH: usize = 32;

/// Answers every command at once, every other one with sense data.
struct Answers(Vec<Completion>, u64);

impl Driver for Answers {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let command = request.command().expect("only commands are sent");
        self.1 += 1;
        let fails = self.1.is_multiple_of(2);
        let sense = if fails { Sense::new(&[0x70, 0, 5]) } else { Sense::NONE };
        command.set_outcome(&Outcome { status: 2 * u16::from(fails), sense, ..Outcome::GOOD });
        self.0.push(Completion { tag: request.tag, result: if fails { -121 } else { request.len as i64 } });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.0);
    }
}

pub(crate) fn device() -> Device {
    let features = Features::default().with_commands(CommandSets::NONE.with(CommandSet::Scsi));
    let geometry = Geometry::new(SIZE, Limits::unlimited(512)).with_features(features);
    let disk = FnDisk::new("answers", geometry, |_| Ok(Box::new(Answers(Vec::with_capacity(DEPTH), 0))));
    Device::from_disk(disk, Default::default(), None).unwrap()
}

fn command(memory: MemoryUse) -> Arc<Command> {
    let command = Command::new(CommandSet::Scsi, &[0x12, 0, 0, 0x10, 0, 0]).unwrap();
    let command = command.with_transfer(Transfer::FromDevice).with_reach(Reach::Nothing);
    Arc::new(command.with_memory(memory))
}

/// A channel full of commands, which are used again.
pub(crate) struct Polled {
    channel: Channel,
    commands: Vec<Arc<Command>>,
    bios: Vec<Bio>,
    _pool: Pool,
}

impl Polled {
    pub(crate) fn new(device: &Device, memory: MemoryUse) -> Polled {
        let pool = Pool::new(DEPTH, LEN, 4096).unwrap();
        let commands: Vec<Arc<Command>> = (0..DEPTH).map(|_| command(memory)).collect();
        let bio = |command: &Arc<Command>| {
            Bio::with_command(Arc::clone(command), pool.take().expect("one for each")).unwrap()
        };
        let bios = commands.iter().map(bio).collect();
        Polled { channel: device.channel(DEPTH).unwrap(), commands, bios, _pool: pool }
    }

    pub(crate) fn round(&mut self) {
        for (mut bio, command) in self.bios.drain(..).zip(&self.commands) {
            let buffer = bio.take_buffer::<PoolBuf>().expect("it came back");
            bio.reset_command(Arc::clone(command), buffer).unwrap();
            assert!(self.channel.submit(bio).is_ok());
        }
        while self.bios.len() < DEPTH {
            self.channel.poll(&mut self.bios);
        }
        let failed = self.bios.iter().filter(|bio| bio.status().is_err()).count();
        assert_eq!(failed, DEPTH / 2);
    }
}
