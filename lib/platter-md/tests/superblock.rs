//! Superblocks of arrays that mdadm made on a real kernel.

use flate2::read::GzDecoder;
use platter_md::superblock::{self, Level, NoSuperblock, Place, Role, SUPERBLOCK_BYTES, Superblock, feature};
use std::io::Read;
use std::path::Path;

fn image(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/md").join(format!("{name}.gz"));
    let mut bytes = Vec::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn find(bytes: &[u8]) -> Vec<Superblock> {
    let size = bytes.len() as u64;
    let slot = |place: Place| {
        let at = usize::try_from(place.offset(size)?).ok()?;
        superblock::parse(place, size, &bytes[at..at + SUPERBLOCK_BYTES]).ok()
    };
    Place::ALL.into_iter().filter_map(slot).collect()
}

#[test]
fn superblocks_are_found_at_their_place_and_read() {
    let cases = [
        ("r0v12", 3, Place::Offset4K, Level::Raid0, 128, 0),
        ("r0v10", 2, Place::End, Level::Raid0, 32, 0),
        ("r0v11", 2, Place::Start, Level::Raid0, 8, 0),
        ("linv12", 2, Place::Offset4K, Level::Linear, 0, 0),
        ("zones", 4, Place::Offset4K, Level::Raid0, 64, feature::RAID0_LAYOUT),
    ];
    for (name, members, place, level, chunk, features) in cases {
        let mut array = None;
        for index in 0..members {
            let bytes = image(&format!("{name}.{index}"));
            let [found] = &find(&bytes)[..] else { panic!("{name}.{index}: one superblock") };
            assert_eq!((found.place, found.level, found.chunk), (place, level, chunk), "{name}.{index}");
            assert_eq!((found.members, found.index()), (members, Some(index)), "{name}");
            assert_eq!((found.features, found.is_clean()), (features, true), "{name}");
            assert!(found.name.to_string().ends_with(name), "{name}: {}", found.name);
            assert_eq!(*array.get_or_insert(found.array), found.array, "{name}");
            assert!((found.data_offset + found.data_size) * 512 <= bytes.len() as u64, "{name}: {found:?}");
            if index == 0 && level == Level::Raid0 {
                // The first sector of the array is the first of its first member.
                let at = usize::try_from(found.data_offset * 512).unwrap();
                assert_eq!(&bytes[at..at + 16], b"000000000000000\n", "{name}");
            }
        }
    }
}

const SIZE: u64 = 4 << 20;

fn parse(slot: &[u8]) -> Result<Superblock, NoSuperblock> {
    superblock::parse(Place::Offset4K, SIZE, slot)
}

fn good() -> Vec<u8> {
    image("r0v12.0")[4096..8192].to_vec()
}

fn damage(slot: &[u8]) -> String {
    match parse(slot) {
        Err(NoSuperblock::Damaged(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_and_absence_are_told_apart() {
    let good = good();
    assert!(parse(&good).is_ok());
    for at in [0x10, 0x58, 0x80, 0xc8, 0x100] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(damage(&bad).contains("checksum"), "byte {at:#x}");
    }
    let mut endless = good.clone();
    endless[0xdc..0xe0].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(damage(&endless).contains("4294967295 members; at most 1920"));
    assert_eq!(superblock::parse(Place::Start, SIZE, &[0; 4096]), Err(NoSuperblock::Nothing));
    assert_eq!(parse(&good[..100]), Err(NoSuperblock::Nothing));
    let elsewhere = superblock::parse(Place::Start, SIZE, &good);
    let Err(NoSuperblock::Damaged(said)) = elsewhere else { panic!("{elsewhere:?}") };
    assert!(said.contains("belongs at sector 8 and was found at sector 0"), "{said}");
}

/// The checksum of a superblock as the kernel computes it.
fn sign(slot: &mut [u8]) {
    let word = |at: usize| u64::from(u32::from_le_bytes(slot[at..at + 4].try_into().unwrap()));
    let members = word(0xdc) as usize;
    let sum: u64 = (0..(256 + 2 * members) / 4 * 4).step_by(4).filter(|&at| at != 0xd8).map(word).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    slot[0xd8..0xdc].copy_from_slice(&sum.to_le_bytes());
}

fn changed(at: usize, value: &[u8]) -> Vec<u8> {
    let mut slot = good();
    slot[at..at + value.len()].copy_from_slice(value);
    sign(&mut slot);
    slot
}

#[test]
fn features_have_names() {
    for (feature, name) in [
        (2, "recovery"),
        (4, "reshape"),
        (8, "bad blocks"),
        (16, "replacement"),
        (256, "cluster"),
        (512, "journal"),
        (1 << 30, "0x40000000"),
    ] {
        let found = parse(&changed(8, &u32::to_le_bytes(feature))).unwrap();
        assert_eq!(found.features, feature, "{name}");
        assert!(Superblock::names(feature).contains(name), "{}", Superblock::names(feature));
    }
    assert_eq!(Superblock::names(0), "");
}

#[test]
fn impossible_fields_are_damage() {
    for members in [1921, 65536, u32::MAX] {
        let said = damage(&changed(0x5c, &members.to_le_bytes()));
        assert!(said.contains(&members.to_string()) && said.contains("1920"), "{said}");
    }
    assert!(damage(&changed(0xff, &[2])).contains("byte 0xff is 0x02"));
    assert!(damage(&changed(0x0c, &[1])).contains("byte 0xc is 0x01"));
    assert!(damage(&changed(0xe0, &513u32.to_le_bytes())).contains("513 bytes"));
    assert!(damage(&changed(0xba, &9u16.to_le_bytes())).contains("9 sectors"));
    assert_eq!(parse(&changed(0xe0, &4096u32.to_le_bytes())).unwrap().logical_block, 4096);
}

#[test]
fn roles_are_those_of_the_table() {
    for (number, role) in [
        (0u16, Role::Member(0)),
        (2, Role::Member(2)),
        (3, Role::Faulty),
        (0xfeff, Role::Faulty),
        (0xfffd, Role::Journal),
        (0xfffe, Role::Faulty),
        (0xffff, Role::Spare),
    ] {
        let found = parse(&changed(0x100, &number.to_le_bytes())).unwrap();
        assert_eq!((found.role(), found.roles[0]), (role, role), "{number:#x}");
    }
    assert_eq!(parse(&changed(0xa0, &5000u32.to_le_bytes())).unwrap().role(), Role::Spare);
}

#[test]
fn a_name_has_nothing_that_a_terminal_obeys() {
    let slot = changed(0x20, b"a\x1b[2J\n\xff\0");
    assert_eq!(parse(&slot).unwrap().name.to_string(), "a\u{fffd}[2J\u{fffd}\u{fffd}");
}

#[test]
fn devices_too_small_for_a_superblock_have_no_place_for_one() {
    for size in [0, 512, 4095] {
        assert!(Place::ALL.iter().all(|place| place.offset(size).is_none()), "{size}");
    }
    assert_eq!(Place::End.offset(4 << 20), Some((4 << 20) - 8192));
    assert_eq!(Place::Start.offset(4096), Some(0));
}

#[test]
fn old_superblocks_are_told_in_either_order_of_bytes() {
    assert_eq!(superblock::old_offset((1 << 20) + 5000), Some((1 << 20) - 65536));
    assert_eq!(superblock::old_offset(65535), None);
    assert!(superblock::is_old(&[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0]));
    assert!(superblock::is_old(&[0xa9, 0x2b, 0x4e, 0xfc, 0, 0, 0, 0]));
    assert!(!superblock::is_old(&good()) && !superblock::is_old(&[0xfc]));
}
