//! What a logical unit says of itself, as real ones answer.

use super::*;
use crate::sense::Failure;

const MOST: Transport = Transport { max_transfer: 16 << 20, max_segments: 512 };

type Answers<'a> = &'a dyn Fn(&Cdb) -> Result<Vec<u8>, Vec<u8>>;

fn sense(key: Key, asc: u8, ascq: u8) -> Vec<u8> {
    Failure::new(key, asc, ascq).to_fixed().to_vec()
}

fn ask(answers: Answers<'_>) -> Result<(Found, Vec<(u8, u8)>), Refused> {
    let mut inquirer = Inquirer::of_disk();
    while let Some((cdb, _)) = inquirer.next() {
        match answers(&cdb) {
            Ok(data) => inquirer.take(Ok(&data))?,
            Err(sense) => inquirer.take(Err(&sense))?,
        }
    }
    Ok(inquirer.into_found())
}

fn page(code: u8, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut page = vec![0; 64];
    (page[1], page[3]) = (code, 60);
    for (at, bytes) in fields {
        page[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    page
}

/// A disk of 8 blocks of 4 KiB with everything, in three unit attentions.
fn full(cdb: &Cdb) -> Result<Vec<u8>, Vec<u8>> {
    Ok(match (cdb.command().name, cdb.get("PAGE CODE")) {
        ("TEST UNIT READY", _) => vec![],
        ("INQUIRY", Some(0)) if cdb.get("EVPD") == Some(0) => {
            let mut data = b"\0\0\x06\x02\x5b\0\0\x02ACME    ROADRUNNER TRAP 1.0 ".to_vec();
            data.resize(96, 0);
            data
        }
        ("INQUIRY", Some(0)) => vec![0, 0, 0, 6, 0, 0x80, 0x83, 0xb0, 0xb1, 0xb2],
        ("INQUIRY", Some(0x80)) => b"\0\x80\0\x04 S12".to_vec(),
        ("INQUIRY", Some(0x83)) => vec![0, 0x83, 0, 5, 2, 1, 0, 1, 7],
        ("INQUIRY", Some(0xb0)) => page(
            0xb0,
            &[
                (8, &16u32.to_be_bytes()),
                (12, &4u32.to_be_bytes()),
                (20, &64u32.to_be_bytes()),
                (24, &1u32.to_be_bytes()),
                (28, &2u32.to_be_bytes()),
                (36, &32u64.to_be_bytes()),
            ],
        ),
        ("INQUIRY", Some(0xb1)) => page(0xb1, &[(4, &[0, 1])]),
        ("INQUIRY", Some(0xb2)) => page(0xb2, &[(5, &[0xc0])]),
        ("READ CAPACITY (16)", _) => {
            let mut data = vec![0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 16, 0, 0, 2, 0x80, 0];
            data.resize(32, 0);
            data
        }
        ("MODE SENSE (10)", _) => {
            let mut data = vec![0, 26, 0, 0x10, 0, 0, 0, 0, 8, 18, 4];
            data.resize(28, 0);
            data
        }
        ("REPORT SUPPORTED OPERATION CODES", _) => vec![0, 3, 0, 16],
        other => panic!("{other:?}"),
    })
}

#[test]
fn everything_that_a_unit_tells_is_used() {
    let (found, attentions) = ask(&full).unwrap();
    assert_eq!(
        (found.vendor.as_str(), found.product.as_str(), found.revision.as_str()),
        ("ACME", "ROADRUNNER TRAP", "1.0")
    );
    assert_eq!((found.serial.as_str(), found.rotation, attentions.len()), ("S12", 1, 0));
    let geometry = found.geometry(true, MOST);
    let limits = &geometry.limits;
    assert_eq!((geometry.size, limits.logical_block, limits.physical_block), (32 << 10, 4096, 16 << 10));
    assert_eq!((limits.max_transfer, limits.optimal_io), (64 << 10, 16 << 10));
    assert_eq!(
        (limits.discard_granularity, limits.max_discard, limits.write_zeroes),
        (8192, 128 << 10, true)
    );
    let features = geometry.features;
    assert!(features.write_cache && features.fua && !features.read_only);
    assert!(found.geometry(false, MOST).features.read_only);
}

#[test]
fn a_unit_that_tells_little_is_used_with_care() {
    let (found, _) = ask(&|cdb| match (cdb.command().name, cdb.get("EVPD")) {
        ("INQUIRY", Some(0)) | ("TEST UNIT READY", _) => full(cdb),
        ("READ CAPACITY (10)", _) => Ok(vec![0, 0, 0, 1, 0, 0, 2, 0]),
        _ => Err(sense(Key::ILLEGAL_REQUEST, 0x20, 0)),
    })
    .unwrap();
    let geometry = found.geometry(true, MOST);
    assert_eq!((geometry.size, geometry.limits.logical_block), (1024, 512));
    assert_eq!((geometry.limits.discard_granularity, geometry.limits.write_zeroes), (0, false));
    assert!(geometry.features.write_cache && !geometry.features.fua, "it may have a cache");
}

#[test]
fn attentions_are_passed_over_and_kept() {
    let left = core::cell::Cell::new(3);
    let (_, attentions) = ask(&|cdb| match left.get() {
        0 => full(cdb),
        count => {
            left.set(count - 1);
            Err(sense(Key::UNIT_ATTENTION, 0x29, 7))
        }
    })
    .unwrap();
    assert_eq!(attentions, [(0x29, 7); 3]);
    let endless = ask(&|_| Err(sense(Key::UNIT_ATTENTION, 0x29, 0)));
    assert!(matches!(endless, Err(Refused::Unfit(why)) if why.contains("UNIT ATTENTION")));
}

#[test]
fn what_cannot_be_used_is_named() {
    let with = |name: &'static str, answer: Result<Vec<u8>, Vec<u8>>| {
        let result = ask(&|cdb| if cdb.command().name == name { answer.clone() } else { full(cdb) });
        match result.unwrap_err() {
            Refused::NotReady(why) => format!("not ready: {why}"),
            Refused::NoUnit => "no such logical unit".to_owned(),
            Refused::Unfit(why) => why,
        }
    };
    let capacity = |last: u64, block: u32, protected: u8| {
        let mut data = [&last.to_be_bytes()[..], &block.to_be_bytes(), &[protected]].concat();
        data.resize(32, 0);
        Ok(data)
    };
    for (name, answer, part) in [
        ("TEST UNIT READY", Err(sense(Key::NOT_READY, 4, 1)), "not ready: LOGICAL UNIT IS IN PROCESS"),
        ("TEST UNIT READY", Err(sense(Key::ILLEGAL_REQUEST, 0x25, 0)), "no such logical unit"),
        (
            "TEST UNIT READY",
            Err(sense(Key::HARDWARE_ERROR, 0x44, 0)),
            "HARDWARE ERROR, INTERNAL TARGET FAILURE",
        ),
        ("TEST UNIT READY", Err(vec![]), "sense data of 0 bytes"),
        ("INQUIRY", Ok(vec![0x7f, 0, 0, 0, 0]), "no such logical unit"),
        ("INQUIRY", Ok(vec![5, 0, 0, 0, 0]), "of the type 05h"),
        ("READ CAPACITY (16)", Ok(vec![0; 4]), "does not tell its capacity"),
        ("READ CAPACITY (16)", capacity(7, 520, 0), "blocks of 520 bytes"),
        ("READ CAPACITY (16)", capacity(7, 512, 1), "protection information"),
        ("READ CAPACITY (16)", capacity(u64::MAX, 512, 0), "claims"),
        ("READ CAPACITY (16)", capacity(u64::MAX / 512, 512, 0), "claims"),
    ] {
        let why = with(name, answer);
        assert!(why.contains(part), "{name}: {why}");
    }
}

#[test]
fn another_disk_is_told_from_the_same() {
    let (found, _) = ask(&full).unwrap();
    assert_eq!(found.difference(&found.clone()), None);
    type Edit = fn(&mut Found);
    let edits: [(Edit, &str); 5] = [
        (|found| found.blocks = 9, "its size was 32768 bytes in blocks of 4096 and is 36864"),
        (|found| found.serial = "S13".into(), "its serial number was S12 and is S13"),
        (|found| found.designation.push(1), "its designation"),
        (|found| found.write_protected = true, "write protected"),
        (|found| found.write_cache = Some(false), ""),
    ];
    for (edit, part) in edits {
        let mut other = found.clone();
        edit(&mut other);
        match part {
            // A cache that is off loses nothing.
            "" => assert_eq!(found.difference(&other), None),
            _ => assert!(found.difference(&other).unwrap().contains(part)),
        }
    }
}

#[test]
fn numbers_of_units_are_those_of_both_methods() {
    assert_eq!(unit(0), Some(0));
    assert_eq!(unit(0x0007_0000_0000_0000), Some(7));
    assert_eq!(unit(0x4107_0000_0000_0000), Some(0x107));
    assert_eq!(unit(0x0107_0000_0000_0000), None, "another bus");
    assert_eq!(unit(0xc101_0000_0000_0000), None, "a well-known unit");
    assert_eq!(unit(0x0000_0000_0001_0000), None, "a second level");
    let mut inquirer = Inquirer::of_units();
    let (cdb, len) = inquirer.next().unwrap();
    assert_eq!((cdb.command().name, len), ("REPORT LUNS", 8200));
    let list = [0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 3, 0, 0, 0, 0, 0, 0];
    inquirer.take(Ok(&list)).unwrap();
    assert!(inquirer.next().is_none());
    assert_eq!(inquirer.into_found().0.units, [0, 3]);
}
