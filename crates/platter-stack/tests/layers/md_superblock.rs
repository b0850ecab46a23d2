//! Superblocks of arrays that mdadm made on a real kernel.

use flate2::read::GzDecoder;
use platter_stack::array_metadata::md::{self, Level, NoSuperblock, Place, Superblock, Zones};
use std::io::Read;
use std::path::Path;

fn image(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/md").join(format!("{name}.gz"));
    let mut bytes = Vec::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn find(bytes: &[u8]) -> Vec<Superblock> {
    let slot = |place: Place| {
        let at = usize::try_from(place.offset(bytes.len() as u64)?).ok()?;
        md::parse(place, &bytes[at..at + md::SUPERBLOCK_BYTES]).ok()
    };
    Place::ALL.into_iter().filter_map(slot).collect()
}

#[test]
fn superblocks_are_found_at_their_place_and_read() {
    let cases = [
        ("r0v12", 3, Place::Offset4K, Level::Raid0, 64 << 10, Zones::Unsaid),
        ("r0v10", 2, Place::End, Level::Raid0, 16 << 10, Zones::Unsaid),
        ("r0v11", 2, Place::Start, Level::Raid0, 4 << 10, Zones::Unsaid),
        ("linv12", 2, Place::Offset4K, Level::Linear, 0, Zones::Unsaid),
        ("zones", 4, Place::Offset4K, Level::Raid0, 32 << 10, Zones::Original),
    ];
    for (name, members, place, level, chunk, zones) in cases {
        let mut array = None;
        for index in 0..members {
            let bytes = image(&format!("{name}.{index}"));
            let [found] = &find(&bytes)[..] else { panic!("{name}.{index}: one superblock") };
            assert_eq!((found.place, found.level, found.chunk), (place, level, chunk), "{name}.{index}");
            assert_eq!((found.members, found.index), (members, Some(index)), "{name}");
            assert_eq!((found.zones, found.unknown_features), (zones, 0), "{name}");
            assert!(found.name.ends_with(name), "{name}: {}", found.name);
            assert_eq!(*array.get_or_insert(found.array), found.array, "{name}");
            assert!(found.data_offset + found.data_size <= bytes.len() as u64, "{name}: {found:?}");
            if index == 0 && level == Level::Raid0 {
                // The first sector of the array is the first of its first member.
                let at = usize::try_from(found.data_offset).unwrap();
                assert_eq!(&bytes[at..at + 16], b"000000000000000\n", "{name}");
            }
        }
    }
}

#[test]
fn damage_and_absence_are_told_apart() {
    let good = image("r0v12.0");
    let slot = &good[4096..8192];
    assert!(md::parse(Place::Offset4K, slot).is_ok());
    for at in [0x10, 0x58, 0x80, 0xc8, 0x100] {
        let mut bad = slot.to_vec();
        bad[at] ^= 1;
        let damaged = md::parse(Place::Offset4K, &bad);
        assert!(matches!(damaged, Err(NoSuperblock::Damaged(_))), "byte {at:#x}: {damaged:?}");
    }
    let mut endless = slot.to_vec();
    endless[0xdc..0xe0].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(md::parse(Place::Offset4K, &endless), Err(NoSuperblock::Damaged(_))));
    assert_eq!(md::parse(Place::Start, &[0; 4096]), Err(NoSuperblock::Nothing));
    assert_eq!(md::parse(Place::Start, &slot[..100]), Err(NoSuperblock::Nothing));
}

/// The checksum of a superblock as the kernel computes it.
fn sign(slot: &mut [u8]) {
    let word = |at: usize| u64::from(u32::from_le_bytes(slot[at..at + 4].try_into().unwrap()));
    let members = word(0xdc) as usize;
    let sum: u64 = (0..(256 + 2 * members) / 4 * 4).step_by(4).filter(|&at| at != 0xd8).map(word).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    slot[0xd8..0xdc].copy_from_slice(&sum.to_le_bytes());
}

/// Bit 8 of the features says that the member has a non-empty list of bad blocks. These cannot be read, and
/// this reader would not know it.
#[test]
fn what_an_array_needs_that_is_not_here_has_a_name() {
    let good = image("r0v12.0")[4096..8192].to_vec();
    for (feature, name) in [
        (2, "recovery"),
        (4, "reshape"),
        (8, "bad blocks"),
        (16, "replacement"),
        (256, "cluster"),
        (512, "journal"),
        (1 << 30, "0x40000000"),
    ] {
        let mut slot = good.clone();
        slot[8..12].copy_from_slice(&u32::to_le_bytes(1 | feature));
        sign(&mut slot);
        let found = md::parse(Place::Offset4K, &slot).unwrap();
        assert_eq!(found.unknown_features, feature, "{name}");
        assert!(found.needs().contains(name), "{feature}: {}", found.needs());
    }
    let plain = md::parse(Place::Offset4K, &good).unwrap();
    assert_eq!((plain.unknown_features, plain.needs()), (0, String::new()));
}

#[test]
fn a_number_of_members_that_md_cannot_have_is_damage() {
    for members in [1921, 65536, u32::MAX] {
        let mut slot = image("r0v12.0")[4096..8192].to_vec();
        slot[0x5c..0x60].copy_from_slice(&members.to_le_bytes());
        sign(&mut slot);
        let Err(NoSuperblock::Damaged(said)) = md::parse(Place::Offset4K, &slot) else { panic!("{members}") };
        assert!(said.contains(&members.to_string()) && said.contains("1920"), "{said}");
    }
}

#[test]
fn a_name_has_nothing_that_a_terminal_obeys() {
    let mut slot = image("r0v12.0")[4096..8192].to_vec();
    slot[0x20..0x28].copy_from_slice(b"a\x1b[2J\n\xff\0");
    sign(&mut slot);
    assert_eq!(md::parse(Place::Offset4K, &slot).unwrap().name, "a\u{fffd}[2J\u{fffd}\u{fffd}");
}

#[test]
fn devices_too_small_for_a_superblock_have_no_place_for_one() {
    for size in [0, 512, 4095] {
        assert!(Place::ALL.iter().all(|place| place.offset(size).is_none()), "{size}");
    }
    assert_eq!(Place::End.offset(4 << 20), Some((4 << 20) - 8192));
    assert_eq!(Place::Start.offset(4096), Some(0));
}
