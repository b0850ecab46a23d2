//! Commands, data in all ways that can be agreed on, and several sessions at one unit.

use crate::initiator::{Initiator, Terms, attach};
use crate::{serve, serve_with};
use platter::registry::{self, Access};
use platter_disk::device::Device;
use platter_remote::iscsi::wire::{Header, at, flag, opcode};
use platter_scsi::cdb::{self, Cdb};
use platter_serve::export::Options;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

const BLOCK: usize = 512;

fn at_block(command: &'static cdb::Command, lba: usize) -> Cdb {
    Cdb::new(command).with("LOGICAL BLOCK ADDRESS", lba as u64)
}

fn write(lba: usize, blocks: usize) -> Cdb {
    at_block(&cdb::WRITE_16, lba).with("TRANSFER LENGTH", blocks as u64)
}

fn read(lba: usize, blocks: usize) -> Cdb {
    at_block(&cdb::READ_16, lba).with("TRANSFER LENGTH", blocks as u64)
}

/// Random writes and reads of all lengths, with all ways of moving data, against a copy in memory.
#[test]
fn what_is_written_is_read_however_data_moves() {
    const BLOCKS: usize = 4096;
    let fixture = serve(Device::ram((BLOCKS * BLOCK) as u64).unwrap());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(15);
    let mut copy = vec![0; BLOCKS * BLOCK];
    for number in 0..16u8 {
        let terms = Terms {
            isid: number,
            digests: number & 1 != 0,
            initial_r2t: number & 2 != 0,
            immediate: number & 4 != 0,
            max_burst: if number & 8 != 0 { 20_000 } else { 1 << 20 },
            first_burst: 512 + random.next_u32() % 60_000,
            max_receive: 512 + random.next_u32() % 100_000,
            ..Terms::default()
        };
        let mut initiator = attach(&fixture.address, &terms);
        for _ in 0..12 {
            let blocks = 1 + random.next_u32() as usize % 700;
            let lba = random.next_u32() as usize % (BLOCKS - blocks);
            let range = lba * BLOCK..(lba + blocks) * BLOCK;
            if random.next_u32() & 1 == 0 {
                let mut data = vec![0; blocks * BLOCK];
                random.fill_bytes(&mut data);
                assert_eq!(initiator.command(&write(lba, blocks), 0, &data).unwrap().status, 0, "{terms:?}");
                copy[range].copy_from_slice(&data);
            } else {
                let answer = initiator.command(&read(lba, blocks), (blocks * BLOCK) as u32, &[]).unwrap();
                assert!(answer.status == 0 && answer.data == copy[range], "{terms:?}, block {lba}, {blocks}");
            }
        }
    }
}

#[test]
fn lengths_that_do_not_agree_are_told() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let answer = initiator.command(&read(0, 2), 4096, &[]).unwrap();
    assert_eq!((answer.data.len(), answer.residual), (1024, (flag::UNDERFLOW, 3072)));
    let answer = initiator.command(&read(0, 2), 512, &[]).unwrap();
    assert_eq!((answer.data.len(), answer.residual), (512, (flag::OVERFLOW, 512)));
    // A write is carried out as far as there is data.
    let answer = initiator.command(&write(0, 2), 0, &[7; 600]).unwrap();
    assert_eq!((answer.status, answer.residual), (0, (flag::OVERFLOW, 424)));
    let data = initiator.command(&read(0, 2), 1024, &[]).unwrap().data;
    assert_eq!((&data[..512], &data[512..]), (&[7; 512][..], &[0; 512][..]));
    let answer = initiator.command(&write(0, 1), 0, &[8; 2000]).unwrap();
    assert_eq!((answer.status, answer.residual), (0, (flag::UNDERFLOW, 1488)));
    // One that would mean something else is not.
    let swap = at_block(&cdb::COMPARE_AND_WRITE, 0).with("NUMBER OF LOGICAL BLOCKS", 1);
    assert_eq!(initiator.command(&swap, 0, &[0; 512]).unwrap().why(), (5, (0x24, 0)));
    let inquiry = Cdb::new(&cdb::INQUIRY).with("ALLOCATION LENGTH", 5);
    let answer = initiator.command(&inquiry, 255, &[]).unwrap();
    assert_eq!((answer.data.len(), answer.residual), (5, (flag::UNDERFLOW, 250)));
}

#[test]
fn a_bad_sector_is_named_and_what_comes_before_it_is_sent() {
    let spec = "error(offset=64K, length=4K, op=read, ram(1M))";
    let fixture = serve(registry::open(spec, Access::read_write()).unwrap());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let answer = initiator.command(&read(120, 16), 8192, &[]).unwrap();
    assert_eq!((answer.why(), answer.data.len()), ((3, (0x11, 0)), 8 * BLOCK));
    assert_eq!(answer.residual, (flag::UNDERFLOW, 4096));
    let sense = platter_scsi::sense::Sense::decode(&answer.sense).unwrap();
    assert_eq!(sense.information(), Some(128));
}

#[test]
fn other_units_are_absent() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let mut ask = |cdb: Cdb, expected: u32| {
        let mut header = initiator.header(cdb.bytes(), expected, false);
        header.0[9] = 3;
        initiator.send(header, &[]).unwrap();
        initiator.answer(header.task_tag(), &[]).unwrap()
    };
    assert_eq!(ask(read(0, 1), 512).why(), (5, (0x25, 0)));
    assert_eq!(ask(Cdb::new(&cdb::INQUIRY).with("ALLOCATION LENGTH", 36), 36).data[0], 0x7f);
    assert_eq!(ask(Cdb::new(&cdb::REPORT_LUNS).with("ALLOCATION LENGTH", 16), 16).data.len(), 16);
}

#[test]
fn counters_of_several_sessions_lose_no_step() {
    const STEPS: u64 = 100;
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let advance = |isid| {
        let mut initiator = attach(&fixture.address, &Terms { isid, ..Terms::default() });
        for _ in 0..STEPS {
            loop {
                let now = initiator.command(&read(5, 1), 512, &[]).unwrap().data;
                let mut next = now.clone();
                let count = u64::from_le_bytes(now[..8].try_into().unwrap());
                next[..8].copy_from_slice(&(count + 1).to_le_bytes());
                let swap = at_block(&cdb::COMPARE_AND_WRITE, 5).with("NUMBER OF LOGICAL BLOCKS", 1);
                let answer = initiator.command(&swap, 0, &[now, next].concat()).unwrap();
                if answer.status == 0 {
                    break;
                }
                assert_eq!(answer.why(), (0xe, (0x1d, 0)));
            }
        }
    };
    std::thread::scope(|scope| (1..4).for_each(|isid| _ = scope.spawn(move || advance(isid))));
    let mut initiator = attach(&fixture.address, &Terms::default());
    let data = initiator.command(&read(5, 1), 512, &[]).unwrap().data;
    assert_eq!(u64::from_le_bytes(data[..8].try_into().unwrap()), 3 * STEPS);
}

/// Begins a write and sends none of its data.
fn begin_write(initiator: &mut Initiator) -> (Header, Header) {
    let header = initiator.header(write(0, 1).bytes(), 512, true);
    initiator.send(header, &[]).unwrap();
    let (r2t, _) = initiator.receive().unwrap();
    assert_eq!((r2t.opcode(), r2t.get(at::DESIRED_LENGTH)), (opcode::R2T, 512));
    (header, r2t)
}

#[test]
fn an_aborted_write_writes_nothing_and_has_no_response() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let (header, r2t) = begin_write(&mut initiator);
    let tag = initiator.manage(1, header.task_tag());
    assert_eq!(initiator.managed(tag), 0);
    // Its data was on the way.
    let late = Header::new(opcode::DATA_OUT, flag::FINAL)
        .with(at::TASK_TAG, header.task_tag())
        .with(at::TRANSFER_TAG, r2t.get(at::TRANSFER_TAG));
    initiator.send(late, &[1; 512]).unwrap();
    assert_eq!(initiator.command(&read(0, 1), 512, &[]).unwrap().data, [0; 512]);
    let tag = initiator.manage(1, header.task_tag());
    assert_eq!(initiator.managed(tag), 1, "there is no such task");
}

#[test]
fn a_reset_drops_what_waits_and_is_an_attention_for_all() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut one = attach(&fixture.address, &Terms::default());
    let mut other = attach(&fixture.address, &Terms { isid: 2, ..Terms::default() });
    begin_write(&mut one);
    let tag = one.manage(5, 0);
    assert_eq!(one.managed(tag), 0);
    for initiator in [&mut one, &mut other] {
        assert_eq!(initiator.command(&read(0, 1), 512, &[]).unwrap().why(), (6, (0x29, 3)));
        assert_eq!(initiator.command(&read(0, 1), 512, &[]).unwrap().data, [0; 512]);
    }
    let tag = one.manage(8, 0);
    assert_eq!(one.managed(tag), 4, "no task can move to another connection");
}

#[test]
fn reservations_hold_beyond_the_session_that_made_them() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut holder = attach(&fixture.address, &Terms::default());
    let mut other = attach(&fixture.address, &Terms { isid: 2, ..Terms::default() });
    let mut order = |command, kind, keys: [u64; 2]| {
        let cdb = Cdb::new(command).with("TYPE", kind).with("PARAMETER LIST LENGTH", 24);
        let list = [&keys[0].to_be_bytes()[..], &keys[1].to_be_bytes(), &[0; 8]].concat();
        holder.command(&cdb, 0, &list).unwrap().status
    };
    assert_eq!(order(&cdb::PERSISTENT_RESERVE_OUT_REGISTER, 0, [0, 5]), 0);
    assert_eq!(order(&cdb::PERSISTENT_RESERVE_OUT_RESERVE, 1, [5, 0]), 0);
    assert_eq!(other.command(&write(0, 1), 0, &[1; 512]).unwrap().status, 0x18);
    assert_eq!(other.command(&read(0, 1), 512, &[]).unwrap().status, 0);
    drop(holder);
    assert_eq!(other.command(&write(0, 1), 0, &[1; 512]).unwrap().status, 0x18);
    let mut again = attach(&fixture.address, &Terms::default());
    assert_eq!(again.command(&write(0, 1), 0, &[1; 512]).unwrap().status, 0);
}

#[test]
fn memory_for_a_client_is_bounded() {
    let mut options = Options::default();
    options.client_memory_bytes = 32 << 20;
    let fixture = serve_with(Device::ram(64 << 20).unwrap(), &options);
    let mut initiator = attach(&fixture.address, &Terms::default());
    // Two writes of 24 MiB, of which the second finds no room while the data of the first is awaited.
    let blocks = (24 << 20) / BLOCK;
    let first = initiator.header(write(0, blocks).bytes(), 24 << 20, true);
    initiator.send(first, &[]).unwrap();
    assert_eq!(initiator.receive().unwrap().0.opcode(), opcode::R2T);
    let second = initiator.header(write(0, blocks).bytes(), 24 << 20, true);
    initiator.send(second, &[]).unwrap();
    assert_eq!(initiator.answer(second.task_tag(), &[]).unwrap().status, 0x28);
}
