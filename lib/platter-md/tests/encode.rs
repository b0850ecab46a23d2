//! Superblocks and bitmaps that are written are read back, and those of real arrays are written as they were.

use flate2::read::GzDecoder;
use platter_md::Uuid;
use platter_md::bitmap::{Bitmap, HEADER_BYTES};
use platter_md::superblock::{
    self, Level, Name, Place, Reshape, Role, SUPERBLOCK_BYTES, Superblock, Time, feature,
};
use proptest::prelude::*;
use std::io::Read;
use std::path::Path;

/// Members of arrays that mdadm and the kernel made, with their names.
fn members() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for dir in ["tests/md", "../../bin/platter-cli/tests/md/arrays", "../../bin/platter-cli/tests/md/logs"] {
        let list = std::fs::read_to_string(root.join(dir).join("arrays")).unwrap_or_default();
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some(name) = name.strip_suffix(".gz") else { continue };
            let mut bytes = Vec::new();
            GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
            // The members of an array, one after the other, or one.
            let line = list.lines().find(|line| line.split(' ').next() == Some(name));
            let sizes: Vec<usize> = match line {
                Some(line) => line.split(' ').skip(2).filter_map(|size| size.parse().ok()).collect(),
                None => vec![bytes.len()],
            };
            for (number, size) in sizes.into_iter().enumerate() {
                let rest = bytes.split_off(size.min(bytes.len()));
                all.push((format!("{name}.{number}"), std::mem::replace(&mut bytes, rest)));
            }
        }
    }
    all
}

fn slots(bytes: &[u8]) -> impl Iterator<Item = (Superblock, &[u8])> {
    let size = bytes.len() as u64;
    Place::ALL.into_iter().filter_map(move |place| {
        let at = place.offset(size)? as usize;
        let slot = &bytes[at..at + SUPERBLOCK_BYTES];
        Some((superblock::parse(place, size, slot).ok()?, slot))
    })
}

#[test]
fn superblocks_and_bitmaps_of_real_arrays_are_written_as_they_were() {
    let (mut superblocks, mut bitmaps) = (0, 0);
    for (name, bytes) in members() {
        for (found, slot) in slots(&bytes) {
            assert!(found.encode() == slot, "{name}: {found:?}");
            superblocks += 1;
            let Some(offset) = found.bitmap_offset else { continue };
            let at = (found.super_offset as i64 + i64::from(offset)) as usize * 512;
            let header = &bytes[at..at + HEADER_BYTES];
            assert_eq!(Bitmap::parse(header).unwrap().encode(), header, "{name}");
            bitmaps += 1;
        }
    }
    assert!(superblocks > 150 && bitmaps >= 5, "{superblocks} superblocks, {bitmaps} bitmaps");
}

fn role(members: u32) -> impl Strategy<Value = Role> {
    prop_oneof![
        4 => (0..members.max(1)).prop_map(move |number| if number < members { Role::Member(number) } else { Role::Spare }),
        1 => Just(Role::Spare),
        1 => Just(Role::Faulty),
        1 => Just(Role::Journal),
    ]
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<[u8; 16]>().prop_map(Uuid)
}

fn time() -> impl Strategy<Value = Time> {
    (0..1u64 << 40, 0..1u32 << 24).prop_map(|(s, us)| Time { s, us })
}

prop_compose! {
    fn common()(
        array in uuid(), device in uuid(), name in "[a-z:]{0,32}", created in time(), updated in time(),
        level in prop_oneof![Just(-1), Just(0), Just(1), Just(4), Just(5), Just(6), Just(10), any::<i32>()],
        numbers in any::<[u64; 8]>(), chunk in any::<u32>(), layout in any::<u32>(), number in any::<u32>(), shift in any::<u8>(),
    ) -> Superblock {
        Superblock {
            place: Place::Offset4K, super_offset: 8, features: 0, array, name: Name::new(&name).unwrap(), created, updated,
            level: Level::of(level), layout, component: numbers[0], chunk: u64::from(chunk), members: 0, bitmap_offset: None, ppl: None,
            reshape: Reshape { level, position: numbers[1], members: layout as i32, layout, chunk, offset: number as i32 },
            data_offset: numbers[2], data_size: numbers[3], recovery_offset: numbers[4], number, device,
            corrected_reads: chunk, write_mostly: chunk % 2 == 1, fails_fast: layout % 2 == 1, bad_shift: shift,
            bad_size: u16::from(shift % 9), bad_offset: number as i32, events: numbers[5], resync_offset: numbers[6], logical_block: 0,
            roles: Vec::new(),
        }
    }
}

prop_compose! {
    fn any_superblock()(
        base in common(), members in 0u32..=1920, place in 0usize..3, sectors in 24u64..1 << 40, features in any::<u32>(),
        block in prop_oneof![Just(0u32), (9u32..=20).prop_map(|bit| 1 << bit)], log in any::<(i32, i16, u16)>(),
    )(
        roles in prop::collection::vec(role(members), 0..300), base in Just(base), members in Just(members), place in Just(place),
        sectors in Just(sectors), features in Just(features), block in Just(block), log in Just(log),
    ) -> (u64, Superblock) {
        let place = Place::ALL[place];
        let has_ppl = features & (feature::PPL | feature::MULTIPLE_PPLS) != 0;
        // One place has either.
        let features = if has_ppl { features & !feature::BITMAP } else { features };
        let superblock = Superblock {
            place, super_offset: place.offset(sectors * 512).unwrap() / 512, features, members, roles, logical_block: block,
            bitmap_offset: (features & feature::BITMAP != 0).then_some(log.0), ppl: has_ppl.then_some((log.1, log.2)), ..base
        };
        (sectors * 512, superblock)
    }
}

proptest! {
    #[test]
    fn a_superblock_is_read_as_it_was_written((size, superblock) in any_superblock()) {
        let bytes = superblock.encode();
        prop_assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        let read = superblock::parse(superblock.place, size, &bytes);
        prop_assert_eq!(read, Ok(superblock));
    }

    #[test]
    fn a_name_is_kept_in_whatever_bytes_it_has(name in any::<[u8; 32]>(), (size, superblock) in any_superblock()) {
        let mut bytes = superblock.encode();
        bytes[0x20..0x40].copy_from_slice(&name);
        if let Err(superblock::NoSuperblock::Damaged(what)) = superblock::parse(superblock.place, size, &bytes) {
            // The message ends with the checksum that it should have.
            let sum = u32::from_str_radix(what.rsplit("0x").next().unwrap(), 16).unwrap();
            bytes[0xd8..0xdc].copy_from_slice(&sum.to_le_bytes());
        }
        prop_assert_eq!(superblock::parse(superblock.place, size, &bytes).unwrap().encode(), bytes);
    }
}

#[test]
fn what_no_field_has_is_written_as_zero() {
    let (_, bytes) = members().into_iter().find(|(name, _)| name == "r0v12.0.0").unwrap();
    let (found, slot) = slots(&bytes).next().unwrap();
    let used = 256 + 2 * found.roles.len();
    assert!(slot[used..].iter().all(|&byte| byte == 0), "mdadm writes zeroes");
    assert!(found.encode()[used..].iter().all(|&byte| byte == 0));
    let few = Superblock { roles: vec![Role::Member(0)], ..found };
    assert!(few.encode()[258..].iter().all(|&byte| byte == 0));
}
