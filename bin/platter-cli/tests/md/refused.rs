//! What is no array, or none that is known: each is refused by name, with what to do.

use crate::images::{Array, add_features, array, platter, refused, set};
use platter::registry::{self, Access};

fn changed(change: impl Fn(usize, &mut [u8])) -> Array {
    let mut array = array("raid5-ls-4");
    (0..4).for_each(|member| array.change(member, |superblock| change(member, superblock)));
    array
}

#[test]
fn features_that_are_not_known_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (bit, told) in [
        (4u32, "a reshape in progress"),
        (0x100, "locks of a cluster"),
        (1 << 20, "unknown features 0x100000"),
    ] {
        let array = changed(|_, superblock| add_features(superblock, bit));
        let said = refused("", &array.files(&dir));
        assert!(
            said.contains(told) && (said.contains("mdadm --assemble") || said.contains("finish")),
            "{said}"
        );
    }
    // Whether an array with a journal was stopped cleanly is not in its superblocks.
    for resync in [0, u64::MAX] {
        let array = changed(|_, superblock| {
            add_features(superblock, 0x200);
            set(superblock, 0xd0, &resync.to_le_bytes());
        });
        let said = refused("", &array.files(&dir));
        assert!(said.contains("the journal device is missing") && said.contains("force=on"), "{said}");
    }
    let array = changed(|_, superblock| set(superblock, 0x48, &7u32.to_le_bytes()));
    assert!(refused("", &array.files(&dir)).contains("level 7"));
    let array = changed(|_, superblock| set(superblock, 0x4c, &9u32.to_le_bytes()));
    assert!(refused("", &array.files(&dir)).contains("layout 9; known are 0 to 5"));
    let array = changed(|_, superblock| set(superblock, 0xe4, &[1]));
    assert!(refused("", &array.files(&dir)).contains("byte 0xe4 is 0x01"));
}

#[test]
fn members_that_do_not_belong_together_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let one = array("raid5-ls-4").files(&dir);
    let other = array("raid6-ls-4").files(&dir);
    let said = refused("", &[one[0].clone(), other[1].clone()]);
    assert!(
        said.contains("different arrays") && said.contains(&one[0]) && said.contains(&other[1]),
        "{said}"
    );
    let copy = dir.path().join("copy").to_str().unwrap().to_owned();
    std::fs::copy(&one[1], &copy).unwrap();
    let said = refused("", &[one.clone(), vec![copy]].concat());
    assert!(said.contains("the same member: one is a copy"), "{said}");
    // Each was used without the other.
    let mut split = array("raid1-4");
    split.members.truncate(2);
    split.change(0, |superblock| set(superblock, 0x102, &0xfffeu16.to_le_bytes()));
    split.change(1, |superblock| set(superblock, 0x100, &0xfffeu16.to_le_bytes()));
    let said = refused("", &split.files(&dir));
    assert!(said.contains("were used without each other"), "{said}");
    let blank = dir.path().join("blank").to_str().unwrap().to_owned();
    std::fs::write(&blank, vec![0; 1 << 20]).unwrap();
    assert!(refused("", &[blank]).contains("no superblock of md"));
}

#[test]
fn a_superblock_in_the_wrong_place_or_on_a_short_image_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut array = array("raid5-ls-4");
    let short = array.members[2].len() - 4096;
    array.members[2].truncate(short);
    let files = array.files(&dir);
    let said = refused("", &files);
    assert!(said.contains(&format!("has {short} bytes, and the array needs")), "{said}");
    // The member begins 4 KiB into the device.
    let moved = [vec![0; 4096], array.members[0][4096..].to_vec()].concat();
    let shifted = [vec![0; 4096], moved].concat();
    let at = dir.path().join("shifted").to_str().unwrap().to_owned();
    let mut start = shifted.clone();
    start.drain(..8192);
    std::fs::write(&at, &start).unwrap();
    let said = refused("", &[at]);
    assert!(said.contains("belongs at sector 8 and was found at sector 0"), "{said}");
}

#[test]
fn other_kinds_of_arrays_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk").to_str().unwrap().to_owned();
    let size = 1 << 20;
    for (at, bytes, told) in [
        (size - 65536, &[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0, 90][..], "superblock 0.90"),
        (size - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00", "IMSM"),
        (size - 512, &[0xde, 0x11, 0xde, 0x11], "DDF"),
    ] {
        let mut image = vec![0u8; size];
        set(&mut image, at, bytes);
        std::fs::write(&path, &image).unwrap();
        let said = refused("", std::slice::from_ref(&path));
        assert!(said.contains(told) && said.contains("mdadm --assemble"), "{said}");
        let (code, shown, _) = platter(&["raid", "examine", "--json", &path]);
        assert!(code == 0 && shown.contains("\"foreign\"") && shown.contains(told), "{shown}");
    }
}

#[test]
fn md_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let files = array("raid5-ls-4").files(&dir);
    let spec = format!("md({})", files.join(", "));
    let said = registry::open(&spec, Access::read_write()).map(drop).unwrap_err().to_string();
    assert!(said.contains("read only") && said.contains("mdadm"), "{said}");
    let before: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let (code, ..) = platter(&["info", &spec]);
    assert_eq!(code, 0);
    let after: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(before == after);
}
