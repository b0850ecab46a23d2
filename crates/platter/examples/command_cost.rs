//! What a command costs on its way through the queue: on a disk that answers at once, beside reads of the same disk.
//!
//! `cargo run --release -p platter --example command_cost -- 1000000 32`: the number of commands, and how many are in flight.
//! For instructions, take the difference of two numbers under `valgrind --tool=callgrind`; a third argument, `commands` or
//! `reads`, leaves the other one out.

use platter::block::bio::Bio;
use platter::block::command::{Command, CommandSet, CommandSets, Outcome, Reach, Transfer};
use platter::block::disk::FnDisk;
use platter::block::driver::{Completion, Driver, Features, Geometry, Started};
use platter::block::limits::Limits;
use platter::block::time::Time;
use platter::disk::channel::Channel;
use platter::disk::device::Device;
use platter::disk::pool::{Pool, PoolBuf};
use std::sync::Arc;
use std::time::Instant;

const LEN: usize = 4096;

/// Completes everything at the next reap, and touches no memory.
struct AtOnce(Vec<Completion>);

impl Driver for AtOnce {
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

fn device(depth: usize) -> Device {
    let features = Features::default().with_commands(CommandSets::NONE.with(CommandSet::Scsi));
    let geometry = Geometry::new(1 << 40, Limits::unlimited(512)).with_features(features);
    let disk = FnDisk::new("at-once", geometry, move |_| Ok(Box::new(AtOnce(Vec::with_capacity(depth)))));
    Device::from_disk(disk, Default::default(), None).expect("it has no requirements")
}

/// READ (16) of a block.
fn command(number: usize) -> Arc<Command> {
    let mut cdb = [0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    cdb[2..10].copy_from_slice(&(number as u64 * 8).to_be_bytes());
    let command = Command::new(CommandSet::Scsi, &cdb).expect("a READ (16) has 16 bytes");
    let reach = Reach::Reads { pos: number as u64 * LEN as u64, len: LEN as u64 };
    Arc::new(command.with_transfer(Transfer::FromDevice).with_reach(reach))
}

/// Keeps `depth` bios in flight until `count` have completed; `again` makes a bio that came back ready to be sent.
fn run(channel: &mut Channel, mut bios: Vec<Bio>, count: usize, again: impl Fn(&mut Bio)) -> f64 {
    let (began, mut completed) = (Instant::now(), 0);
    while completed < count {
        for mut bio in bios.drain(..) {
            again(&mut bio);
            assert!(channel.submit(bio).is_ok(), "the channel has room for all");
        }
        channel.poll(&mut bios);
        completed += bios.len();
    }
    began.elapsed().as_nanos() as f64 / completed as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let depth: usize = args.next().map_or(Ok(32), |depth| depth.parse())?;
    let only = args.next();
    let wants = |what: &str| only.as_deref().is_none_or(|only| only == what);
    let device = device(depth);
    let mut channel = device.channel(depth)?;
    if wants("reads") {
        let pool = Pool::new(depth, LEN, 4096)?;
        let buffers: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).collect();
        let bios: Result<Vec<Bio>, _> = buffers.into_iter().map(|buffer| Bio::read(0, buffer)).collect();
        let ns = run(&mut channel, bios?, count, |bio| bio.rewind(0, LEN as u64));
        println!("read     {ns:6.1} ns");
    }
    if wants("commands") {
        let pool = Pool::new(depth, LEN, 4096)?;
        let buffers = std::iter::from_fn(|| pool.take()).enumerate();
        let bios: Result<Vec<Bio>, _> =
            buffers.map(|(number, buffer)| Bio::with_command(command(number), buffer)).collect();
        let ns = run(&mut channel, bios?, count, |bio| {
            let (command, buffer) = (bio.command().cloned(), bio.take_buffer::<PoolBuf>());
            let (Some(command), Some(buffer)) = (command, buffer) else { unreachable!("it has both") };
            bio.reset_command(command, buffer).expect("they fit each other");
        });
        println!("command  {ns:6.1} ns");
    }
    Ok(())
}
