//! A unit over a model of a device in memory.

use super::*;
use alloc::vec;
use platter_block::limits::Limits;
use proptest::prelude::*;

const BLOCK: usize = 512;
const BLOCKS: usize = 64;

fn unit(limits: Limits) -> Unit {
    let identity = Identity {
        vendor: "PLATTER".into(),
        product: "TEST".into(),
        revision: "1".into(),
        serial: "serial".into(),
    };
    Unit::new(identity, Geometry::new((BLOCKS * BLOCK) as u64, limits))
}

/// Carries a command out on a medium; returns the response and what the initiator received.
fn run(unit: &Unit, medium: &mut [u8], cdb: &[u8], data_out: &[u8]) -> (Response, Vec<u8>) {
    let steps = match unit.plan(cdb, data_out) {
        Plan::Done(response) => {
            let data = response.data_in.clone();
            return (response, data);
        }
        Plan::Steps(steps) => steps,
    };
    let mut data_in = Vec::new();
    for step in &steps {
        let range = step.pos as usize..(step.pos + step.len) as usize;
        let part = &mut medium[range];
        match step.action {
            Action::Read { at } => {
                data_in.resize(at as usize, 0);
                data_in.extend_from_slice(part);
            }
            Action::Compare { at } => {
                if let Some(n) = (0..part.len()).find(|n| part[*n] != data_out[at as usize + n]) {
                    return (unit.failed(step, StepError::Miscompare { at: at + n as u64 }), data_in);
                }
            }
            Action::Write { at, .. } => part.copy_from_slice(&data_out[at as usize..][..part.len()]),
            Action::Fill { block } => {
                part.chunks_mut(block as usize).for_each(|to| to.copy_from_slice(&data_out[..to.len()]))
            }
            Action::WriteZeroes => part.fill(0),
            Action::Discard => part.fill(0xdd),
            Action::Verify | Action::Flush => {}
        }
    }
    (unit.done(), data_in)
}

fn sense_of(response: &Response) -> (u8, (u8, u8)) {
    let sense = crate::sense::Sense::decode(&response.sense).unwrap();
    (sense.key().0, sense.code())
}

#[test]
fn the_size_is_the_last_address_and_larger_ones_do_not_wrap() {
    let small = unit(Limits::unlimited(512).with_physical_block(4096));
    let (response, data) =
        run(&small, &mut [], Cdb::new(&cdb::READ_CAPACITY_16).with("ALLOCATION LENGTH", 32).bytes(), &[]);
    assert_eq!(response.status, Status::Good);
    let capacity = crate::page::CAPACITY_16.decode(&data);
    assert_eq!(capacity.get("RETURNED LOGICAL BLOCK ADDRESS"), Some(63));
    assert_eq!(capacity.get("LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT"), Some(3));
    let large = Unit::new(small.identity.clone(), Geometry::new(4 << 40, Limits::unlimited(512)));
    let (_, data) = run(&large, &mut [], Cdb::new(&cdb::READ_CAPACITY_10).bytes(), &[]);
    assert_eq!(
        crate::page::CAPACITY_10.decode(&data).get("RETURNED LOGICAL BLOCK ADDRESS"),
        Some(0xffff_ffff)
    );
}

#[test]
fn what_a_unit_refuses_it_names() {
    let unit = unit(Limits::unlimited(512));
    let refused = |cdb: &[u8]| {
        let (response, _) = run(&unit, &mut [], cdb, &[]);
        let sense = crate::sense::Sense::decode(&response.sense).unwrap();
        (sense.code(), sense.field_pointer().map(|pointer| (pointer.byte, pointer.bit)))
    };
    let read = Cdb::new(&cdb::READ_10);
    assert_eq!(refused(&[0xff]), ((0x20, 0), Some((0, None))));
    assert_eq!(refused(Cdb::new(&cdb::LOG_SENSE).bytes()), ((0x20, 0), Some((0, None))));
    assert_eq!(refused(&[0x9e, 0x1f, 0, 0]), ((0x24, 0), Some((1, Some(4)))));
    assert_eq!(refused(read.with("RDPROTECT", 1).bytes()), ((0x24, 0), Some((1, Some(7)))));
    assert_eq!(
        refused(read.with("LOGICAL BLOCK ADDRESS", 64).with("TRANSFER LENGTH", 1).bytes()),
        ((0x21, 0), Some((2, None)))
    );
    assert_eq!(refused(&[0, 0, 0, 0, 0, 4]), ((0x24, 0), Some((5, Some(2)))));
    let long = Cdb::new(&cdb::READ_16).with("TRANSFER LENGTH", MAX_TRANSFER / 512 + 1);
    assert_eq!(refused(long.bytes()), ((0x24, 0), Some((10, None))));
    let saved = Cdb::new(&cdb::MODE_SENSE_6).with("PC", 3).with("PAGE CODE", 8);
    assert_eq!(refused(saved.bytes()), ((0x39, 0), Some((2, Some(7)))));
}

#[test]
fn no_length_means_256_blocks_only_in_six_bytes() {
    let mut unit = unit(Limits::unlimited(512));
    unit.geometry.size = 1 << 20;
    let read = |command| unit.plan(Cdb::new(command).bytes(), &[]);
    let all = Step { action: Action::Read { at: 0 }, pos: 0, len: 256 * 512 };
    assert_eq!(read(&cdb::READ_6), Plan::Steps(vec![all]));
    assert_eq!(read(&cdb::READ_10), Plan::Done(Response::GOOD));
}

#[test]
fn a_write_with_too_little_data_changes_nothing() {
    let unit = unit(Limits::unlimited(512));
    let mut medium = vec![7; BLOCK * BLOCKS];
    let write = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 2);
    let (response, _) = run(&unit, &mut medium, write.bytes(), &[1; 1023]);
    assert_eq!(sense_of(&response), (0xb, (0x4b, 0)));
    assert!(medium.iter().all(|byte| *byte == 7));
}

#[test]
fn a_miscompare_says_where() {
    let unit = unit(Limits::unlimited(512));
    let verify = Cdb::new(&cdb::VERIFY_10).with("BYTCHK", 1).with("VERIFICATION LENGTH", 2);
    let mut data = vec![7; 1024];
    let mut medium = vec![7; BLOCK * BLOCKS];
    assert_eq!(run(&unit, &mut medium, verify.bytes(), &data).0.status, Status::Good);
    data[1000] = 8;
    let (response, _) = run(&unit, &mut medium, verify.bytes(), &data);
    let sense = crate::sense::Sense::decode(&response.sense).unwrap();
    assert_eq!((sense.key(), sense.information()), (Key::MISCOMPARE, Some(1000)));
}

#[test]
fn a_read_only_unit_says_so_and_writes_nothing() {
    let mut unit = unit(Limits::unlimited(512));
    unit.geometry.features = unit.geometry.features.with_read_only(true);
    for command in Unit::commands().filter(|command| changes_medium(command)) {
        let mut cdb = Cdb::new(command);
        let _ = cdb.set("TRANSFER LENGTH", 1)
            || cdb.set("NUMBER OF LOGICAL BLOCKS", 1)
            || cdb.set("PARAMETER LIST LENGTH", 24);
        let (response, _) = run(&unit, &mut [], cdb.bytes(), &[0; 1024]);
        assert_eq!(sense_of(&response), (7, (0x27, 0)), "{}", command.name);
    }
}

#[test]
fn faults_of_the_device_become_sense() {
    let unit = unit(Limits::unlimited(512));
    let read = Step { action: Action::Read { at: 0 }, pos: 0, len: 4096 };
    let fail = |kind| unit.failed(&read, StepError::Device { kind, pos: 1024 });
    let medium = fail(Kind::Io);
    assert_eq!(crate::sense::Sense::decode(&medium.sense).unwrap().information(), Some(2));
    assert_eq!(sense_of(&medium), (3, (0x11, 0)));
    assert_eq!(sense_of(&fail(Kind::TimedOut)), (4, (0x3e, 2)));
    assert_eq!(fail(Kind::NoMemory).status, Status::Busy);
    for kind in Kind::ALL {
        assert!(fail(kind).status != Status::Good, "{kind:?}");
    }
}

proptest! {
    /// Whatever bytes arrive, steps stay inside the device and the data, and data-in inside the allocation length.
    #[test]
    fn any_command_stays_inside(
        row in 0..Unit::commands().count(), noise in prop::collection::vec(any::<u8>(), 16), sparse in any::<bool>(),
        data_out in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..2048), granularity in 0u32..4,
    ) {
        let unit = unit(Limits::unlimited(512).with_discard_granularity(granularity * 1024));
        let command = Unit::commands().nth(row).unwrap();
        let mut cdb = Cdb::new(command);
        for (n, field) in command.fields.iter().enumerate() {
            // Small values, so that most commands are valid.
            let value = u64::from(noise[n]) % if sparse { 4 } else { 128 };
            let _ = cdb.set(field.name, value.min(field.max()));
        }
        match unit.plan(cdb.bytes(), &data_out) {
            Plan::Done(response) => {
                let room = cdb.get("ALLOCATION LENGTH").unwrap_or(8) as usize;
                prop_assert!(response.data_in.len() <= room);
                prop_assert_eq!(response.sense.is_empty(), response.status != Status::CheckCondition);
            }
            Plan::Steps(steps) => for step in steps {
                prop_assert!(step.pos + step.len <= (BLOCKS * BLOCK) as u64);
                prop_assert!(step.pos % 512 == 0 && step.len % 512 == 0);
                let used = match step.action {
                    Action::Write { at, .. } | Action::Compare { at } => at + step.len,
                    Action::Fill { block } => block,
                    _ => 0,
                };
                prop_assert!(used <= data_out.len() as u64);
            },
        }
    }

    /// Bytes that are no command never make a unit panic.
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let _ = unit(Limits::unlimited(512)).plan(&bytes, &[]);
    }

    /// Reads return what was written, by whichever commands.
    #[test]
    fn the_medium_is_that_of_a_model(
        lives in prop::collection::vec((0u8..5, 0..BLOCKS, 1usize..9, any::<u8>()), 1..40),
    ) {
        let unit = unit(Limits::unlimited(512).with_discard_granularity(1024));
        let (mut medium, mut model) = (vec![0; BLOCK * BLOCKS], vec![0; BLOCK * BLOCKS]);
        for (what, lba, blocks, byte) in lives {
            let blocks = blocks.min(BLOCKS - lba);
            let data = vec![byte; blocks * BLOCK];
            let range = lba * BLOCK..(lba + blocks) * BLOCK;
            let at = |command| Cdb::new(command).with("LOGICAL BLOCK ADDRESS", lba as u64);
            let (cdb, data) = match what {
                0 => (at(&cdb::WRITE_6).with("TRANSFER LENGTH", blocks as u64), data),
                1 => (at(&cdb::WRITE_16).with("TRANSFER LENGTH", blocks as u64).with("FUA", 1), data),
                2 => (at(&cdb::WRITE_SAME_10).with("NUMBER OF LOGICAL BLOCKS", blocks as u64), data),
                3 => {
                    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
                    list.extend((lba as u64).to_be_bytes());
                    list.extend((blocks as u32).to_be_bytes());
                    list.extend([0; 4]);
                    (Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", 24), list)
                }
                _ => {
                    let (_, read) = run(&unit, &mut medium, at(&cdb::READ_12).with("TRANSFER LENGTH", blocks as u64).bytes(), &[]);
                    prop_assert_eq!(&read[..], &model[range]);
                    continue;
                }
            };
            let (response, _) = run(&unit, &mut medium, cdb.bytes(), &data);
            prop_assert_eq!(response.status, Status::Good);
            match what {
                // Whole units of 1 KiB lose their contents.
                3 => model[(lba.next_multiple_of(2) * BLOCK).min(range.end)..range.end / 1024 * 1024].fill(0xdd),
                _ => model[range].fill(byte),
            }
        }
        prop_assert!(medium == model);
    }
}
