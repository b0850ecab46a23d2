//! What a command costs: through the queue to a target that answers at once, and as a read of `scsi` over a device that
//! does nothing.
//!
//!     cargo run --release -p platter-scsi --features disk --example command_cost -- queue 20000000
//!     cargo run --release -p platter-scsi --features disk --example command_cost -- disk 2000000
//!
//! Each keeps 32 commands under way on one thread. `perf stat -e instructions:u` counts what is printed as time.

use platter_block::bio::{Bio, Op};
use platter_block::command::{Command, CommandSet, CommandSets, Outcome, Reach};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_scsi::disk::{Options, ScsiTarget};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const DEPTH: usize = 32;
const SIZE: u64 = 1 << 40;

/// Answers every command, and carries out every read, at once.
#[derive(Default)]
struct Null(Vec<Completion>);

impl Driver for Null {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        if let Some(command) = request.command() {
            command.set_outcome(&Outcome::GOOD);
        }
        self.0.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.0);
    }

    fn is_prompt(&self) -> bool {
        true
    }
}

fn null(commands: CommandSets) -> Result<Device, platter_block::fault::Error> {
    let features = Features::NONE.with_commands(commands);
    let geometry = Geometry::new(SIZE, Limits::unlimited(512)).with_features(features);
    let disk = FnDisk::new("null", geometry, |_| Ok(Box::new(Null::default()) as Box<dyn Driver>));
    Device::from_disk(disk, DiskSettings::default(), None)
}

/// Keeps the bios under way until `count` have come back; `again` prepares one for its next use.
fn run(
    channel: &mut Channel,
    bios: Vec<Bio>,
    count: u64,
    mut again: impl FnMut(&mut Bio) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    for bio in bios {
        channel.submit(bio).map_err(|_| "the channel is full")?;
    }
    let (mut done, mut over, began) = (Vec::new(), 0, Instant::now());
    while over < count {
        channel.poll(&mut done);
        over += done.len() as u64;
        for mut bio in done.drain(..) {
            bio.status().map_err(|fault| fault.kind.to_string())?;
            again(&mut bio)?;
            channel.submit(bio).map_err(|_| "the channel is full")?;
        }
    }
    Ok(began.elapsed().as_nanos() as f64 / over as f64)
}

fn through_the_queue(count: u64) -> Result<f64, Box<dyn Error>> {
    let device = null(CommandSets::NONE.with(CommandSet::Scsi))?;
    let test_unit_ready = || {
        Command::new(CommandSet::Scsi, &[0; 6]).map(|command| Arc::new(command.with_reach(Reach::Nothing)))
    };
    let mut bios = Vec::new();
    for _ in 0..DEPTH {
        bios.push(Bio::with_command(test_unit_ready()?, ()).map_err(|fault| fault.kind.to_string())?);
    }
    run(&mut device.channel(DEPTH)?, bios, count, |bio| {
        let command = bio.command().map(Arc::clone).ok_or("no command")?;
        bio.reset_command(command, ()).map_err(|fault| fault.kind.to_string().into())
    })
}

fn as_a_disk(count: u64) -> Result<f64, Box<dyn Error>> {
    let target = ScsiTarget::new(Arc::clone(null(CommandSets::NONE)?.backend()));
    let device = Device::from_disk(target.port(Options::default())?, DiskSettings::default(), None)?;
    let mut bios = Vec::new();
    for at in 0..DEPTH as u64 {
        // Apart, so that they do not merge.
        bios.push(Bio::read(at << 20, vec![0u8; 4096]).map_err(|fault| fault.kind.to_string())?);
    }
    run(&mut device.channel(DEPTH)?, bios, count, |bio| {
        let at = bio.pos() - 4096;
        debug_assert!(bio.op() == Op::Read);
        bio.rewind(at, 4096);
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (what, count) = (args.next().unwrap_or_default(), args.next());
    let count = count.map_or(Ok(1_000_000), |count| count.parse())?;
    let nanos = match what.as_str() {
        "queue" => through_the_queue(count)?,
        "disk" => as_a_disk(count)?,
        other => return Err(format!("`{other}` is neither `queue` nor `disk`").into()),
    };
    println!("{nanos:.1} ns for each of {count} commands at depth {DEPTH}");
    Ok(())
}
