//! Members that are stale, bad in places, not rebuilt or being replaced.

use crate::images::{
    Array, add_features, array, check_contents, expected, open, read_all, refused, sector, set,
};
use platter::registry::{self, Access};

const RECOVERY: u32 = 2;
const BAD_BLOCKS: u32 = 8;
const REPLACEMENT: u32 = 0x10;

/// Gives a member a list of bad sectors of its data, and spoils these.
fn make_bad(array: &mut Array, member: usize, ranges: &[(u64, u64)]) {
    let data = array.data(member);
    array.change(member, |superblock| add_features(superblock, BAD_BLOCKS));
    let superblock = &array.members[member][4096..8192];
    let offset = i32::from_le_bytes(superblock[0xbc..0xc0].try_into().unwrap());
    let size = u16::from_le_bytes(superblock[0xba..0xbc].try_into().unwrap());
    let at = usize::try_from(4096 + i64::from(offset) * 512).unwrap();
    let end = at + usize::from(size) * 512;
    array.members[member][at..end].fill(0xff);
    for (number, &(first, count)) in ranges.iter().enumerate() {
        let entry = (data as u64 / 512 + first) << 10 | count;
        set(&mut array.members[member], at + 8 * number, &entry.to_le_bytes());
        array.spoil(member, first as usize * 512, (first + count) as usize * 512);
    }
}

/// Says how far a member is rebuilt, and spoils the rest.
fn half_rebuilt(array: &mut Array, member: usize, sectors: u64) {
    array.change(member, |superblock| {
        add_features(superblock, RECOVERY);
        set(superblock, 0x98, &sectors.to_le_bytes());
    });
    let end = array.members[member].len() - array.data(member);
    array.spoil(member, sectors as usize * 512, end);
}

#[test]
fn what_is_bad_on_one_member_comes_from_others() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["raid5-ls-4", "raid6-ls-4", "raid1-4", "raid10-n2-4", "raid10-f2-4"] {
        let mut array = array(name);
        make_bad(&mut array, 1, &[(3, 1), (16, 9), (100, 40)]);
        let device = open("", &array.files(&dir)).unwrap();
        check_contents(&device, array.size, name);
    }
}

#[test]
fn what_is_bad_on_too_many_members_is_an_error_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut array = array("raid5-parity-last-4");
    // Row 2 has the chunks 6, 7 and 8 of eight sectors; sectors 19 of members 0 and 1 are those 51 and 59 of the array.
    make_bad(&mut array, 0, &[(18, 2)]);
    make_bad(&mut array, 1, &[(19, 2)]);
    let device = open("", &array.files(&dir)).unwrap();
    for number in 0..array.size / 512 {
        let mut bytes = [0; 512];
        let read = device.read_at(&mut bytes, number * 512);
        match number {
            51 | 59 => {
                let said = read.unwrap_err().to_string();
                assert!(said.contains("the array has lost this place"), "{said}");
            }
            _ => {
                read.unwrap_or_else(|error| panic!("sector {number}: {error}"));
                assert!(bytes == *sector(number), "sector {number}");
            }
        }
    }
    let mut all = vec![0; 65536];
    device.read_at(&mut all, 0).unwrap_err();
}

#[test]
fn a_member_is_read_as_far_as_it_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["raid5-ls-4", "raid6-rs-4", "raid1-4", "raid10-n2-4"] {
        let mut array = array(name);
        half_rebuilt(&mut array, 2, 104);
        let files = array.files(&dir);
        let device = open("", &files).unwrap();
        check_contents(&device, array.size, name);
    }
    let mut array = array("raid5-ls-4");
    half_rebuilt(&mut array, 2, 104);
    let files = array.files(&dir);
    let said = refused("", &files[1..]);
    assert!(said.contains("rebuilt up to byte 53248") && said.contains("force=on"), "{said}");
    let device = open("force=on, ", &files[1..]).unwrap();
    let whole = expected(array.size);
    let mut bytes = vec![0; 104 * 512 * 3];
    device.read_at(&mut bytes, 0).unwrap();
    assert!(bytes == whole[..bytes.len()]);
    // Row 14 begins on sector 336; its parity is on member 1, so that of its three chunks two are not there.
    let failed = (336..360).filter(|&number| device.read_at(&mut [0; 512], number * 512).is_err()).count();
    assert_eq!(failed, 16, "the chunks of members 0 and 2");
}

#[test]
fn a_replacement_is_used_as_far_as_it_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let mut array = array("raid5-ls-4");
    let mut copy = array.members[1].clone();
    set(&mut copy[4096..8192], 0xa0, &9u32.to_le_bytes());
    set(&mut copy[4096..8192], 0xa8, &[0x77; 16]);
    array.members.push(copy);
    for member in 0..5 {
        array.change(member, |superblock| set(superblock, 0x100 + 2 * 9, &1u16.to_le_bytes()));
    }
    array.change(4, |superblock| add_features(superblock, REPLACEMENT));
    half_rebuilt(&mut array, 4, 104);
    let all = array.files(&dir);
    check_contents(&open("", &all).unwrap(), array.size, "both");
    // The member that is being replaced is bad where its replacement is good.
    make_bad(&mut array, 1, &[(8, 90)]);
    let files = array.files(&dir);
    check_contents(&open("", &files).unwrap(), array.size, "the member is bad");
    let without = |lost: &[usize]| -> Vec<String> {
        (0..5).filter(|member| !lost.contains(member)).map(|member| files[member].clone()).collect()
    };
    check_contents(&open("", &without(&[1])).unwrap(), array.size, "only the replacement");
    check_contents(&open("", &without(&[4])).unwrap(), array.size, "only the member");
    let said = refused("", &without(&[0, 1]));
    assert!(said.contains("rebuilt up to byte 53248"), "{said}");
}

#[test]
fn a_stale_member_is_left_out_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut array = array("raid5-stale");
    let old = array.members[1].clone();
    let end = old.len() - array.data(1);
    array.spoil(1, 0, end);
    let files = array.files(&dir);
    let device = open("", &files).unwrap();
    check_contents(&device, array.size, "stale");
    let facts = format!("{:?}", device.facts());
    assert!(facts.contains("raid5-stale.1: it is stale: it has 15 events and the newest"), "{facts}");
    drop(device);
    let said = refused("", &files[1..]);
    assert!(said.contains("these are missing: 0, 1") && said.contains("force=on"), "{said}");
    // Here nothing else was written since it left.
    array.members[1] = old;
    let files = array.files(&dir);
    let device = open("force=on, ", &files[1..]).unwrap();
    let facts = format!("{:?}", device.facts());
    assert!(facts.contains("(member 1) is used although it is 7 events behind"), "{facts}");
    check_contents(&device, array.size, "forced");
}

#[test]
fn an_array_that_was_being_written_is_read_if_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["raid5-dirty", "raid6-dirty", "raid1-dirty", "raid5-dirty-bitmap"] {
        let array = array(name);
        let files = array.files(&dir);
        check_contents(&open("", &files).unwrap(), array.size, name);
        match name {
            "raid1-dirty" => check_contents(&open("", &files[1..]).unwrap(), array.size, name),
            _ => {
                let said = refused("", &files[1..]);
                assert!(said.contains("was being written") && said.contains("force=on"), "{name}: {said}");
                let device = open("force=on, ", &files[1..]).unwrap();
                check_contents(&device, array.size, name);
                assert!(format!("{:?}", device.facts()).contains("computed may be wrong"), "{name}");
            }
        }
    }
    let array = array("raid5-dirty-bitmap");
    let said = refused("", &array.files(&dir)[1..]);
    assert!(said.contains("bytes of each member that the bitmap names"), "{said}");
}

/// Members with bad sectors that are in no list.
#[test]
fn reads_that_fail_are_answered_from_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["raid5-ls-4", "raid6-ls-4", "raid1-4", "raid10-o2-4"] {
        let array = array(name);
        let files = array.files(&dir);
        let data = array.data(0);
        // Each at another place of the same chunk.
        let failing: Vec<String> = (0..2)
            .map(|at| format!("error({}, op=read, offset={}, length=512)", files[at], data + 8192 + 512 * at))
            .chain(files[2..].iter().cloned())
            .collect();
        let device = open("", &failing).unwrap();
        check_contents(&device, array.size, name);
        let facts = device.facts();
        let errors = facts.iter().find(|fact| fact.0 == "read errors").unwrap();
        assert_ne!(errors.1, "0", "{name}");
    }
}

#[test]
fn the_block_of_the_array_is_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let mut array = array("raid5-ls-4");
    for member in 0..4 {
        array.change(member, |superblock| set(superblock, 0xe0, &4096u32.to_le_bytes()));
    }
    let device = open("", &array.files(&dir)).unwrap();
    assert_eq!(device.geometry().limits.logical_block, 4096);
    check_contents(&device, array.size, "4 KiB");
}

#[test]
fn an_array_is_the_base_of_other_devices() {
    let dir = tempfile::tempdir().unwrap();
    let array = array("raid5-ls-4");
    let files = array.files(&dir);
    let spec = format!("verify(md({}))", files[1..].join(", "));
    let whole = expected(array.size);
    match registry::open(&spec, Access::read()) {
        Ok(device) => assert!(read_all(&device) == whole),
        Err(error) => panic!("{error}"),
    }
}
