//! Data goes there and back, by the layer's own operations and by commands.

use crate::{SIZE, fact, number, port, ram, simulated};
use platter_block::bio::Flags;
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_disk::device::Device;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_scsi::cdb::{self, Cdb};
use platter_scsi::disk::{FaultPlan, ScsiTarget};
use platter_scsi::sense::{Key, Sense};
use platter_sim::World;
use std::sync::Arc;

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 512) as u8 ^ (at as u8) ^ seed).collect()
}

/// Every operation of a device.
fn uses(device: &Device) {
    let data = pattern(1, 128 << 10);
    device.write_at(&data, 4096).unwrap();
    let mut read = vec![0; data.len()];
    device.read_at(&mut read, 4096).unwrap();
    assert!(read == data);
    let durable = IoOptions::default().with_flags(Flags::FUA | Flags::HARD_BARRIER);
    device.write_at_with(&pattern(2, 700), 512, durable).unwrap();
    device.read_at(&mut read[..700], 512).unwrap();
    assert!(read[..700] == pattern(2, 700), "it ends inside a block");
    device.write_zeroes(8192, 65536).unwrap();
    device.read_at(&mut read[..4096], 8192).unwrap();
    assert_eq!(read[..4096], [0; 4096]);
    device.discard(0, SIZE).unwrap();
    device.flush().unwrap();
    let (mut one, mut two) = ([0; 512], [0; 1024]);
    let mut vectors = [std::io::IoSliceMut::new(&mut one), std::io::IoSliceMut::new(&mut two)];
    device.read_vectored_at(&mut vectors, 512).unwrap();
    assert!(device.read_at(&mut read[..512], SIZE).is_err(), "past the end");
}

#[test]
fn every_operation_works_in_real_and_in_virtual_time() {
    let target = ScsiTarget::new(ram());
    let (_, device) = port(&target, FaultPlan::default());
    uses(&device);
    assert!(number(&device, "commands") >= 8);
    let world = World::new(7);
    let (_, below) = simulated(&world, 100);
    let (_, device) = port(&ScsiTarget::new(below), FaultPlan::default());
    uses(&device);
    assert!(world.clock().now().0 > 800_000, "time has passed in the device below");
    assert_eq!((fact(&device, "port").as_str(), number(&device, "failed commands")), ("running", 0));
}

#[test]
fn commands_reach_the_same_target() {
    let target = ScsiTarget::with_serial(ram(), "serial-7");
    let (_, device) = port(&target, FaultPlan::default());
    device.write_at(&pattern(3, 4096), 0).unwrap();
    let send = |cdb: Cdb, transfer, reach, data: CommandData<'_>| {
        let command = Command::new(CommandSet::Scsi, cdb.bytes()).unwrap();
        let command = Arc::new(command.with_transfer(transfer).with_reach(reach));
        let sent = device.command(&command, data, IoOptions::default());
        (sent.map(|outcome| outcome.residual), command.outcome())
    };
    let mut page = [0; 200];
    let inquiry =
        Cdb::new(&cdb::INQUIRY).with("EVPD", 1).with("PAGE CODE", 0x80).with("ALLOCATION LENGTH", 200);
    let (sent, _) = send(inquiry, Transfer::FromDevice, Reach::Nothing, CommandData::FromDevice(&mut page));
    assert_eq!((sent.unwrap(), &page[4..12]), (200 - 12, &b"serial-7"[..]));
    let mut block = [0; 1024];
    let read = Cdb::new(&cdb::READ_10).with("LOGICAL BLOCK ADDRESS", 1).with("TRANSFER LENGTH", 2);
    let reach = Reach::Reads { pos: 512, len: 1024 };
    let (sent, _) = send(read, Transfer::FromDevice, reach, CommandData::FromDevice(&mut block));
    assert_eq!((sent.unwrap(), &block[..]), (0, &pattern(3, 4096)[512..1536]));
    let swap = Cdb::new(&cdb::COMPARE_AND_WRITE)
        .with("LOGICAL BLOCK ADDRESS", 1)
        .with("NUMBER OF LOGICAL BLOCKS", 1);
    let reach = Reach::Changes { pos: 512, len: 512 };
    let both = [pattern(3, 4096)[512..1024].to_vec(), pattern(4, 512)].concat();
    send(swap, Transfer::ToDevice, reach, CommandData::ToDevice(&both)).0.unwrap();
    device.read_at(&mut block[..512], 512).unwrap();
    assert!(block[..512] == pattern(4, 512));
    let (sent, outcome) = send(swap, Transfer::ToDevice, reach, CommandData::ToDevice(&both));
    let outcome = outcome.unwrap();
    let sense = Sense::decode(outcome.sense.bytes()).unwrap();
    assert_eq!((sense.key(), sense.information()), (Key::MISCOMPARE, Some(0)));
    assert!(sent.unwrap_err().to_string().contains("SCSI status 0x02"));
}

#[test]
fn threads_share_a_port() {
    let target = ScsiTarget::new(ram());
    let (_, device) = port(&target, FaultPlan::default());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..200u64 {
                    let at = (thread * 200 + round) * 1024 % SIZE;
                    let data = pattern((thread * 31 + round) as u8, 1024);
                    device.write_at(&data, at).unwrap();
                    let mut read = vec![0; 1024];
                    device.read_at(&mut read, at).unwrap();
                    assert!(read == data, "thread {thread}, round {round}");
                    if round % 50 == 0 {
                        device.flush().unwrap();
                    }
                }
            });
        }
    });
}
