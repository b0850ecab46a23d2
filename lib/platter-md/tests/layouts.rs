//! New arrays are laid out as mdadm lays them out.

use platter_md::Uuid;
use platter_md::create::{NewArray, NewDevice, Plan, plan};
use platter_md::superblock::{self, Level, Name, Place, Time, feature};

const TABLE: &str = include_str!("layouts.txt");

fn place(version: &str) -> Place {
    Place::ALL.into_iter().find(|place| place.version() == version).unwrap()
}

fn level(text: &str) -> Level {
    if text == "linear" { Level::Linear } else { Level::of(text.parse().unwrap()) }
}

fn array(level: Level, place: Place, sectors: &[u64]) -> NewArray {
    let members = (1u16..)
        .zip(sectors)
        .map(|(at, sectors)| NewDevice { size: sectors * 512, uuid: Uuid([at as u8; 16]) });
    NewArray {
        place,
        level,
        layout: None,
        chunk: None,
        name: Name::new("any:x").unwrap(),
        array: Uuid([0xaa; 16]),
        members: members.collect(),
        spares: Vec::new(),
        has_bitmap: false,
        is_clean: true,
        created: Time { s: 1_800_000_000, us: 5 },
        block: 512,
    }
}

/// What a plan makes of the members, in the form of the table.
fn described(plan: &Plan) -> String {
    let mut text = (plan.size() / 512).to_string();
    for device in &plan.devices {
        let own = &device.superblock;
        let (sync, chunk) = plan.bitmap_chunk.map_or((0, 0), |chunk| (plan.sync_size(), chunk));
        text += &format!(
            " {},{},{},{},{},{sync},{chunk}",
            own.data_offset,
            own.data_size,
            own.component,
            own.bitmap_offset.unwrap_or(0),
            own.bad_offset
        );
    }
    text
}

#[test]
fn offsets_and_sizes_are_those_that_mdadm_chose() {
    let mut count = 0;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.splitn(7, ' ').collect();
        let [version, number, layout, chunk, bitmap, sizes, made] = words[..] else { panic!("{line}") };
        let sizes: Vec<u64> = sizes.split(',').map(|size| size.parse().unwrap()).collect();
        let level = level(number);
        let chunk: u64 = chunk.parse().unwrap();
        let new = NewArray {
            layout: Some(layout.parse().unwrap()),
            chunk: (chunk > 0).then_some(chunk << 10),
            has_bitmap: bitmap == "internal",
            ..array(level, place(version), &sizes)
        };
        let plan = plan(&new).unwrap_or_else(|why| panic!("{line}: {why}"));
        assert_eq!(described(&plan), made, "{line}");
        count += 1;
    }
    assert!(count > 100, "{count} lines");
}

/// Where everything of a plan lies: nothing overlaps, all of it is on the device, and what is written reads as what was planned.
fn check(new: &NewArray) {
    let plan = plan(new).unwrap_or_else(|why| panic!("{new:?}: {why}"));
    let sizes: Vec<u64> = new.members.iter().chain(&new.spares).map(|device| device.size).collect();
    assert_eq!(plan.devices.len(), sizes.len());
    for (device, size) in plan.devices.iter().zip(sizes) {
        let own = &device.superblock;
        assert_eq!(superblock::parse(new.place, size, &own.encode()).as_ref(), Ok(own));
        let mut areas = vec![
            (own.position(), own.position() + 4096),
            (own.data_offset * 512, (own.data_offset + own.data_size) * 512),
        ];
        areas.extend(device.beside.iter().map(|(at, bytes)| (*at, at + bytes.len() as u64)));
        areas.sort_unstable();
        assert!(areas.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{areas:?}");
        assert!(areas.iter().all(|area| area.1 <= size && area.0 % 512 == 0), "{areas:?} of {size}");
        assert!(own.component <= own.data_size);
        assert_eq!(own.has(feature::BITMAP), own.bitmap_offset.is_some());
    }
}

#[test]
fn nothing_overlaps_on_any_size() {
    let levels =
        [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10];
    for place in Place::ALL {
        for level in levels {
            for (at, mib) in (0..).zip([4u64, 5, 64, 1000, 9000, 205_000, 3_000_000, 1 << 27, 1 << 30]) {
                let sectors = mib * 2048 + at * 3;
                let mut new = array(level, place, &[sectors, sectors + 100, sectors, sectors + 7]);
                new.is_clean = at % 2 == 0;
                check(&new);
                if !level.is_bare() {
                    new.has_bitmap = true;
                    new.spares = vec![NewDevice { size: (sectors + 55) * 512, uuid: Uuid([77; 16]) }];
                    check(&new);
                }
            }
        }
    }
}

#[test]
fn what_is_not_known_to_be_in_sync_is_marked() {
    for is_clean in [true, false] {
        let new = NewArray {
            has_bitmap: true,
            is_clean,
            ..array(Level::Raid1, Place::Offset4K, &[4 << 20, 4 << 20])
        };
        let plan = plan(&new).unwrap();
        let own = &plan.devices[1].superblock;
        assert_eq!((own.resync_offset, own.is_clean()), if is_clean { (u64::MAX, true) } else { (0, false) });
        let bits: u32 = plan.devices[1].beside[0].1[256..].iter().map(|byte| byte.count_ones()).sum();
        // 2 GiB less the offset, in chunks of 64 MiB.
        assert_eq!(bits, if is_clean { 0 } else { 32 });
    }
    let new = NewArray { is_clean: false, ..array(Level::Raid0, Place::Offset4K, &[1 << 20, 1 << 20]) };
    assert!(plan(&new).unwrap().devices[0].superblock.is_clean(), "there is nothing that could differ");
}

#[test]
fn the_layout_of_an_unequal_raid0_is_recorded() {
    let recorded = |sizes: &[u64]| {
        plan(&array(Level::Raid0, Place::Offset4K, sizes)).unwrap().devices[0].superblock.clone()
    };
    assert!(!recorded(&[1 << 20, (1 << 20) + 8]).has(feature::RAID0_LAYOUT), "the same in chunks");
    let unequal = recorded(&[1 << 20, 2 << 20]);
    assert!(unequal.has(feature::RAID0_LAYOUT) && unequal.layout == 1, "{unequal:?}");
}

#[test]
fn a_member_that_is_too_small_for_the_offset_of_the_first_brings_its_own() {
    let made = plan(&array(Level::Raid1, Place::Offset4K, &[600 << 20, 40_960])).unwrap();
    assert!(made.devices.iter().all(|device| device.superblock.data_offset == 2048), "{made:?}");
}

#[test]
fn what_is_impossible_is_named_with_what_is_possible() {
    let base = |level, count: usize| array(level, Place::Offset4K, &vec![1 << 20; count]);
    let spare = NewDevice { size: 512 << 20, uuid: Uuid([9; 16]) };
    let small = NewDevice { size: 100 << 20, uuid: Uuid([9; 16]) };
    let cases = [
        (base(Level::Raid6, 3), "raid6 of 3 members is not possible; 4 to 257"),
        (base(Level::Raid5, 1), "raid5 of 1 members is not possible; 2 to 1920"),
        (base(Level::Raid0, 0), "raid0 of 0 members is not possible; 1 to 1920"),
        (base(Level::Raid1, 1921), "raid1 of 1921 members"),
        (base(Level::Other(7), 4), "level 7 cannot be made; linear, 0, 1, 4, 5, 6 and 10"),
        (
            NewArray { chunk: Some(3 << 10), ..base(Level::Raid5, 3) },
            "3072 bytes; powers of two from 4096 to 1073741824",
        ),
        (
            NewArray { chunk: Some(12 << 10), ..base(Level::Raid10, 3) },
            "12288 bytes; powers of two from 4096",
        ),
        (
            NewArray { chunk: Some(6 << 10), ..base(Level::Raid0, 3) },
            "6144 bytes; multiples of 4096 to 1073741824",
        ),
        (NewArray { chunk: Some(2 << 30), ..base(Level::Raid4, 3) }, "2147483648 bytes; powers of two"),
        (
            NewArray { chunk: Some(4096), block: 8192, ..base(Level::Raid4, 3) },
            "a logical block of the members has 8192",
        ),
        (NewArray { chunk: Some(4096), ..base(Level::Raid1, 3) }, "raid1 has no chunk; one of 4096"),
        (NewArray { layout: Some(6), ..base(Level::Raid5, 3) }, "layout 6; known are 0 to 5"),
        (NewArray { layout: Some(2), ..base(Level::Raid1, 3) }, "raid1 has the layout 2; 0 is the only one"),
        (NewArray { layout: Some(0x104), ..base(Level::Raid10, 3) }, "4 copies on 3 members"),
        (NewArray { layout: Some(0x101), ..base(Level::Raid10, 3) }, "fewer than 2 copies"),
        (
            NewArray { layout: Some(3), ..base(Level::Raid0, 3) },
            "raid0 has the layout 3; 1 (original) and 2 (alternate)",
        ),
        (NewArray { spares: vec![spare.clone()], ..base(Level::Raid0, 3) }, "raid0 has no spares"),
        (NewArray { spares: vec![small], ..base(Level::Raid1, 2) }, "device 2, a spare, has room for"),
        (NewArray { has_bitmap: true, ..base(Level::Linear, 2) }, "linear has no bitmap"),
        (
            array(Level::Raid5, Place::Offset4K, &[4096; 3]),
            "device 0 has 2097152 bytes; a member of this array takes 2621440",
        ),
        (array(Level::Raid5, Place::End, &[1 << 20, 1000, 1 << 20]), "device 1 has 512000 bytes"),
    ];
    for (new, why) in cases {
        let said = plan(&new).unwrap_err();
        assert!(said.contains(why), "{said}, not {why}");
    }
    // What is refused by one sector less.
    for place in Place::ALL {
        let said = plan(&array(Level::Raid5, place, &[100, 100])).unwrap_err();
        let least: u64 = said.rsplit("takes ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
        check(&array(Level::Raid5, place, &[least / 512; 3]));
        assert!(plan(&array(Level::Raid5, place, &[least / 512 - 1; 3])).is_err());
    }
    assert!(Name::new(&"n".repeat(33)).unwrap_err().contains("33 bytes; up to 32"));
    assert!(Name::new("a\0").unwrap_err().contains("NUL"));
}
