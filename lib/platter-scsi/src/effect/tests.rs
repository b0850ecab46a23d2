use super::*;
use crate::unit::{Action, Identity, Modes, Plan, Step, Unit};
use alloc::string::String;
use alloc::vec::Vec;
use platter_block::driver::Geometry;
use platter_block::limits::Limits;
use proptest::prelude::*;

const BLOCK: u64 = 512;
const BLOCKS_OF_UNIT: u64 = 4096;

fn blocks(from: u64, end: u64) -> Reach {
    Reach::Blocks(Blocks { from, end })
}

fn at(command: &'static Command, lba: u64) -> Cdb {
    Cdb::new(command).with("LOGICAL BLOCK ADDRESS", lba)
}

/// A parameter list of UNMAP.
fn list(descriptors: &[(u64, u32)]) -> Vec<u8> {
    let mut list = alloc::vec![0; 8];
    list[1] = (descriptors.len() * 16 + 6) as u8;
    list[3] = (descriptors.len() * 16) as u8;
    for (lba, blocks) in descriptors {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

#[test]
fn every_command_has_one_row_in_the_order_of_the_table() {
    let rows: Vec<&str> = ROWS.iter().map(|row| row.command.name).collect();
    let table: Vec<&str> = cdb::TABLE.iter().map(|command| command.name).collect();
    assert_eq!(rows, table);
    for row in ROWS {
        let named = match row.extent {
            Extent::Field(name) | Extent::FieldOrEnd(name) => Some(name),
            Extent::List => Some("PARAMETER LIST LENGTH"),
            _ => None,
        };
        let has = |name| Cdb::new(row.command).get(name).is_some();
        assert!(named.is_none_or(has), "{}", row.command.name);
        assert!(row.durable != Durable::Fua || has("FUA"), "{}", row.command.name);
    }
}

#[test]
fn ranges_are_those_of_the_standard() {
    let effect = |cdb: Cdb| of(cdb.bytes(), None);
    let read = effect(at(&cdb::READ_10, 7).with("TRANSFER LENGTH", 3));
    assert_eq!(read, Effect { reads: blocks(7, 10), changes: Reach::Nothing, durable: Reach::Nothing });
    // No blocks are 256 in six bytes, none elsewhere.
    assert_eq!(effect(at(&cdb::WRITE_6, 7)).changes, blocks(7, 263));
    assert_eq!(effect(at(&cdb::WRITE_16, 7)).changes, Reach::Nothing);
    assert_eq!(effect(at(&cdb::WRITE_12, 7).with("TRANSFER LENGTH", 1).with("FUA", 1)).durable, blocks(7, 8));
    let swap = effect(at(&cdb::COMPARE_AND_WRITE, 7).with("NUMBER OF LOGICAL BLOCKS", 2));
    assert_eq!((swap.reads, swap.changes), (blocks(7, 9), blocks(7, 9)));
    // No blocks are all to the end.
    assert_eq!(effect(at(&cdb::WRITE_SAME_10, 7)).changes, blocks(7, u64::MAX));
    let sync = effect(at(&cdb::SYNCHRONIZE_CACHE_16, 7));
    assert_eq!((sync.changes, sync.durable), (Reach::Nothing, blocks(7, u64::MAX)));
    // A range that goes beyond the last address ends there.
    let last = at(&cdb::READ_16, u64::MAX - 1).with("TRANSFER LENGTH", 9);
    assert_eq!(effect(last).reads, blocks(u64::MAX - 1, u64::MAX));
}

#[test]
fn what_is_not_known_may_do_anything() {
    for bytes in [&[][..], &[0x04, 0, 0, 0, 0, 0], &[0x28, 0, 0], &[0x9e, 0x1f, 0, 0], &[0xc1; 16]] {
        assert_eq!(of(bytes, Some(&[])), Effect::ANYTHING, "{bytes:02x?}");
    }
    let mut reserved = at(&cdb::READ_10, 1).bytes().to_vec();
    reserved[1] |= 1;
    assert_eq!(of(&reserved, None), Effect::ANYTHING);
    assert_eq!(of(Cdb::new(&cdb::MODE_SELECT_6).bytes(), None).changes, Reach::Anything);
    assert_eq!(of(Cdb::new(&cdb::START_STOP_UNIT).bytes(), None).durable, Reach::Anything);
    assert_eq!(of(Cdb::new(&cdb::START_STOP_UNIT).with("START", 1).bytes(), None).durable, Reach::Nothing);
}

#[test]
fn unmap_reaches_from_its_first_to_its_last_range() {
    let unmap = Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", 56);
    assert_eq!(of(unmap.bytes(), None).changes, Reach::Anything);
    let ranges = list(&[(80, 10), (8, 2), (900, 0)]);
    assert_eq!(of(unmap.bytes(), Some(&ranges)).changes, blocks(8, 90));
    let large = list(&[(1 << 40, u32::MAX)]);
    let unmap = Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", 24);
    let end = (1 << 40) + u64::from(u32::MAX);
    assert_eq!(of(unmap.bytes(), Some(&large)).changes, blocks(1 << 40, end));
    let none = Cdb::new(&cdb::UNMAP);
    assert_eq!(of(none.bytes(), None).changes, Reach::Nothing);
}

#[test]
fn commands_whose_ranges_meet_do_not_commute_unless_both_read() {
    let read = |lba| of(at(&cdb::READ_10, lba).with("TRANSFER LENGTH", 8).bytes(), None);
    let write = |lba| of(at(&cdb::WRITE_10, lba).with("TRANSFER LENGTH", 8).bytes(), None);
    assert!(read(0).commutes(read(4)));
    assert!(write(0).commutes(read(8)) && read(8).commutes(write(0)));
    for (a, b) in [(read(7), write(0)), (write(7), read(0)), (write(7), write(0))] {
        assert!(!a.commutes(b));
    }
    let inquiry = of(Cdb::new(&cdb::INQUIRY).bytes(), None);
    assert!(inquiry.commutes(Effect::ANYTHING) && !read(0).commutes(Effect::ANYTHING));
    assert_eq!(Blocks::new(3, 2).bytes(4096), (12288, 20480));
}

/// What a step does.
fn effect_of_step(step: &Step) -> Effect {
    let reach = blocks(step.pos / BLOCK, (step.pos + step.len) / BLOCK);
    let (mut reads, mut changes, mut durable) = (Reach::Nothing, Reach::Nothing, Reach::Nothing);
    match step.action {
        Action::Read { .. } | Action::Verify | Action::Compare { .. } => reads = reach,
        Action::Write { fua, .. } => (changes, durable) = (reach, if fua { reach } else { Reach::Nothing }),
        Action::Fill { .. } | Action::WriteZeroes | Action::Discard => changes = reach,
        Action::Flush => durable = reach,
    }
    Effect { reads, changes, durable }
}

fn within(step: Reach, effect: Reach) -> bool {
    match step {
        Reach::Nothing => true,
        Reach::Blocks(blocks) => effect.covers(blocks),
        Reach::Anything => effect == Reach::Anything,
    }
}

fn unit(granularity: u32, write_through: bool) -> Unit {
    let text = || String::from("TEST");
    let identity = Identity { vendor: text(), product: text(), revision: text(), serial: text() };
    let limits = Limits::unlimited(BLOCK as u32).with_discard_granularity(granularity * 1024);
    let mut geometry = Geometry::new(BLOCKS_OF_UNIT * BLOCK, limits);
    geometry.features = geometry.features.with_write_cache(true);
    let mut unit = Unit::new(identity, geometry);
    unit.set_modes(Modes { write_through, ..Modes::default() });
    unit
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// The steps by which a unit carries a command out never touch what its effect does not cover, and together they
    /// read and change all that it covers, except that UNMAP may leave the edges of its ranges alone.
    #[test]
    fn the_steps_of_a_unit_are_within_the_effect(
        row in 0..cdb::TABLE.len(),
        noise in prop::collection::vec(prop_oneof![0..4u64, 0..300u64], 16),
        ranges in prop::collection::vec((0..BLOCKS_OF_UNIT - 64, 0..64u32), 1..4),
        granularity in 0..3u32, write_through in any::<bool>(), zero in any::<bool>(),
    ) {
        let unit = unit(granularity, write_through);
        let command = cdb::TABLE[row];
        let mut cdb = Cdb::new(command);
        for (field, value) in command.fields.iter().zip(&noise) {
            let _ = cdb.set(field.name, (*value).min(field.max()));
        }
        // Protection is refused by a unit.
        for name in ["RDPROTECT", "WRPROTECT", "VRPROTECT", "ANCHOR"] {
            let _ = cdb.set(name, 0);
        }
        let data_out = match *command == cdb::UNMAP {
            true => {
                let list = list(&ranges);
                let _ = cdb.set("PARAMETER LIST LENGTH", list.len() as u64);
                list
            }
            false => alloc::vec![u8::from(zero); 600 * BLOCK as usize],
        };
        let effect = of(cdb.bytes(), Some(&data_out));
        let Plan::Steps(steps) = unit.plan(cdb.bytes(), &data_out) else { return Ok(()) };
        let (mut reads, mut changes) = (Reach::Nothing, Reach::Nothing);
        for step in &steps {
            let own = effect_of_step(step);
            prop_assert!(within(own.reads, effect.reads), "{step:?} {effect:?}");
            prop_assert!(within(own.changes, effect.changes), "{step:?} {effect:?}");
            // A unit whose cache was turned off makes more durable than the command asks for.
            prop_assert!(write_through || within(own.durable, effect.durable), "{step:?} {effect:?}");
            (reads, changes) = (reads.join(own.reads), changes.join(own.changes));
        }
        prop_assert_eq!(reads, effect.reads);
        prop_assert!(*command == cdb::UNMAP || changes == effect.changes);
    }

    /// Bytes that are no command are looked at without harm, and data makes the effect of UNMAP no larger.
    #[test]
    fn any_bytes_have_an_effect(
        bytes in prop::collection::vec(any::<u8>(), 0..20), data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (with, without) = (of(&bytes, Some(&data)), of(&bytes, None));
        prop_assert!(with.changes == without.changes || without.changes == Reach::Anything);
        prop_assert_eq!((with.reads, with.durable), (without.reads, without.durable));
    }
}
