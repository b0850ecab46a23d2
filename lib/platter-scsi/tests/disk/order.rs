//! Ordered tags, and two ports at one target.

use crate::{fact, number, port, ram, simulated};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Kind;
use platter_block::queue::{Ordered, Settings};
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_scsi::disk::{FaultPlan, Options, ScsiTarget};
use platter_sim::World;
use platter_sim::fault::{Blow, Strike};

fn tagged(target: &ScsiTarget, options: Options) -> Device {
    let disk = target.port(options).unwrap();
    let queue = Settings { ordered: Ordered::Tag, ..Settings::default() };
    let noop = platter_block::elevator::Noop::default();
    Device::from_disk(disk, DiskSettings::default().with_queue(queue), Some(Box::new(noop))).unwrap()
}

fn drain(channel: &mut Channel, count: usize) -> Vec<Bio> {
    let mut done = Vec::new();
    while done.len() < count {
        channel.wait(&mut done, None);
    }
    done
}

/// Rounds of writes to one block with a barrier between them: the last one wins, whatever happens to commands.
#[test]
fn barriers_are_ordered_tags_and_survive_failures() {
    let plans = [
        FaultPlan::default(),
        FaultPlan { busy: 100_000, attention: 50_000, ..FaultPlan::default() },
        FaultPlan { reset: 50_000, aborted: 50_000, ..FaultPlan::default() },
    ];
    for (number_of_plan, plan) in plans.into_iter().enumerate() {
        let (_, below) = simulated(&World::new(3), 50);
        let device = tagged(&ScsiTarget::new(below), Options::default().with_faults(plan));
        assert!(fact(&device, "barriers").starts_with("tag"));
        let mut channel = device.channel(64).unwrap();
        for round in 0..40u8 {
            let mut bios = Vec::new();
            for part in 0..8u8 {
                let mut bio = Bio::write(u64::from(part) * 4096, vec![round; 4096]).unwrap();
                bio.add_flags(Flags::NOMERGE);
                bios.push(bio);
            }
            let mut last = Bio::write(0, vec![round ^ 0x80; 4096]).unwrap();
            last.add_flags(Flags::HARD_BARRIER);
            bios.push(last);
            bios.push(Bio::write(0, vec![round ^ 0x40; 4096]).unwrap());
            let count = bios.len();
            bios.into_iter().for_each(|bio| channel.submit(bio).unwrap());
            for bio in drain(&mut channel, count) {
                assert_eq!(bio.status(), Ok(()), "plan {number_of_plan}, round {round}");
            }
            let mut data = [0; 4096];
            device.read_at(&mut data, 0).unwrap();
            assert!(data == [round ^ 0x40; 4096], "plan {number_of_plan}, round {round}");
        }
        assert!(device.counters().barriers_tagged > 30, "plan {number_of_plan}");
    }
}

#[test]
fn a_port_that_loses_commands_takes_no_ordered_tags() {
    let target = ScsiTarget::new(ram());
    let options = Options::default().with_faults(FaultPlan { lost: 1, ..FaultPlan::default() });
    let disk = target.port(options).unwrap();
    let queue = Settings { ordered: Ordered::Tag, ..Settings::default() };
    assert!(Device::from_disk(disk, DiskSettings::default().with_queue(queue), None).is_err());
}

/// A read that was aborted, and that the device still has, ends while the device carries out a barrier that the queue has begun again
/// meanwhile. No ordered command is between the two then, so the barrier is not reported as ended without effect.
#[test]
fn what_the_device_carries_out_is_not_ended_behind_another() {
    let world = World::new(3);
    let (disk, below) = simulated(&world, 50);
    let device =
        tagged(&ScsiTarget::new(below), Options::default().with_command_timeout(Span::from_secs(10)));
    let mut channel = device.channel(64).unwrap();
    let mut read = Bio::read(65536, vec![0; 512]).unwrap();
    read.set_deadline(Some(Time(0) + Span::from_secs(12)));
    disk.strike(Strike { op: Some(Op::Read), blow: Blow::Spike(Span::from_secs(15)) });
    disk.strike(Strike { op: Some(Op::Write), blow: Blow::Spike(Span::from_secs(9)) });
    let mut barrier = Bio::write(0, vec![1; 512]).unwrap();
    barrier.add_flags(Flags::HARD_BARRIER);
    channel.submit(read).unwrap();
    channel.submit(barrier).unwrap();
    let status: Vec<_> = drain(&mut channel, 2).iter().map(Bio::status).collect();
    assert!(status[0].is_err_and(|fault| fault.kind == Kind::TimedOut) && status[1].is_ok(), "{status:?}");
    assert_eq!(device.counters().barriers_redone, 1);
    device.write_at(&[2; 512], 0).unwrap();
    world.clock().advance_to(Time(0) + Span::from_secs(60));
    disk.settle();
    let mut data = [0; 512];
    device.read_at(&mut data, 0).unwrap();
    assert!(data == [2; 512], "the first write of the barrier has landed over a later one");
}

/// A reset by one adapter ends the commands of the other, which sends them again.
#[test]
fn two_adapters_share_a_disk() {
    let world = World::new(3);
    let (_, below) = simulated(&world, 200);
    let target = ScsiTarget::new(below);
    let (_, one) = port(&target, FaultPlan { reset: 60_000, ..FaultPlan::default() });
    let (_, two) = port(&target, FaultPlan::default());
    let mut far = two.channel(64).unwrap();
    for round in 0..80u8 {
        for part in 0..16u64 {
            far.submit(Bio::write(512 * part, vec![round; 512]).unwrap()).unwrap();
        }
        far.poll(&mut Vec::new());
        one.write_at(&[round; 512], 65536).unwrap();
        let done = drain(&mut far, 16);
        assert!(done.iter().all(|bio| bio.status() == Ok(())), "round {round}: {done:?}");
        let mut data = [0; 8192];
        one.read_at(&mut data, 0).unwrap();
        assert!(data == [round; 8192], "round {round}");
    }
    assert!(number(&two, "sent again") > 3, "commands of the other adapter were lost");
}
