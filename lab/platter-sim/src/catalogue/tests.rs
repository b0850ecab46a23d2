//! Every disk can be built, and has the right size, rates and sources.

use super::*;
use crate::closed_loop::{Host, command};
use crate::import;
use crate::rng::Rng;
use platter_block::bio::Op;
use std::path::PathBuf;

/// The folder with parameter files of real disks; if there is none, prints a line that says so and returns
/// `None`.
fn folder() -> Option<PathBuf> {
    let has_disks = |folder: &PathBuf| folder.join("cheetah9LP.diskspecs").exists();
    let found = match std::env::var_os("PLATTER_DISKS") {
        Some(folder) => Some(PathBuf::from(folder)).filter(has_disks),
        None => {
            let above = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
            let neighbours = std::fs::read_dir(above).into_iter().flatten().flatten();
            neighbours.map(|neighbour| neighbour.path().join("reference/disks")).find(has_disks)
        }
    };
    if found.is_none() {
        println!("skipped: no parameter files of disks (set PLATTER_DISKS)");
    }
    found
}

fn make(name: &str, choices: Choices) -> Box<dyn Model> {
    by_name(name).unwrap().make(choices).unwrap()
}

#[test]
fn every_disk_serves_and_every_value_has_a_source() {
    for row in TABLE {
        let mut model = make(row.name, Choices::default());
        let size = model.geometry().size;
        let mut host = Host::new(&mut *model);
        for at in [0, size - 4096] {
            assert!(host.one(command(Op::Write, at, 4096)).0 > 0, "{}", row.name);
            assert!(host.one(command(Op::Read, at, 4096)).0 > 0, "{}", row.name);
        }
        host.one(command(Op::Flush, 0, 0));
        let values = row.values();
        assert!(values.len() >= 4 && row.summary.len() > 10, "{}", row.name);
        for (value, source) in &values {
            assert!(source.is_some_and(|source| source.len() > 4), "{}: {value:?}", row.name);
        }
        for source in row.sources {
            let meant = |value: &Value| {
                source.of == value.group || source.of == format!("{}.{}", value.group, value.name)
            };
            assert!(values.iter().any(|(value, _)| meant(value)), "{}: {source:?} is of nothing", row.name);
        }
        assert!(TABLE.iter().filter(|other| other.name == row.name).count() == 1);
    }
}

#[test]
fn validated_disks_are_those_of_the_files() {
    let Some(folder) = folder() else { return };
    for (name, file) in [("hp_c2247a", "hp_c2247a"), ("cheetah9lp", "cheetah9LP"), ("ibm18es", "ibm18es")] {
        let read = import::load(&folder.join(file).with_extension("diskspecs")).unwrap();
        let Kind::Mechanical(params) = by_name(name).unwrap().kind else { panic!("{name} has an arm") };
        assert_eq!(params(), DiskParams { name: name.to_owned(), ..read }, "{name}");
    }
}

#[test]
fn mechanical_disks_have_the_size_and_rate_of_their_label() {
    // Sectors; MB/s of a long sequential read at the outer edge; mean time of a random read in microseconds: average
    // seek, half a revolution, electronics.
    for (name, sectors, rate, random) in [
        ("atlas10k", 16_988_250, 22..28, 8_600..9_200),
        ("man3367mp", 71_771_688, 41..50, 7_500..8_100),
        ("ibm9g10k", 17_916_240, 22..29, 7_900..8_500),
        ("x15", 35_843_670, 36..46, 5_900..6_500),
        ("ide2004", 156_301_488, 33..42, 12_600..13_600),
    ] {
        let mut model = make(name, Choices { queue: Some(Policy::None), ..Choices::default() });
        assert_eq!(model.geometry().size / 512, sectors, "{name}");
        let mut host = Host::new(&mut *model);
        let mut at = 0;
        let time = host.run(1, 400, || {
            at += 128 << 10;
            command(Op::Read, at - (128 << 10), 128 << 10)
        });
        let mb_per_s = 400 * (128 << 10) * 1000 / time.0;
        assert!(rate.contains(&mb_per_s), "{name}: {mb_per_s} MB/s");
        let mut rng = Rng::new(1);
        let time = host.run(1, 2000, || command(Op::Read, rng.below(sectors / 8) * 4096, 4096)).0 / 2_000_000;
        assert!(random.contains(&time), "{name}: {time} us");
    }
}

#[test]
fn choices_change_what_they_name() {
    let cached = |name, write_cache| {
        make(name, Choices { write_cache, ..Choices::default() }).geometry().features.write_cache
    };
    for name in ["man3367mp", "ide2004", "cheetah9lp", "sata_ssd", "ideal"] {
        assert_eq!((cached(name, Some(true)), cached(name, Some(false))), (true, false), "{name}");
    }
    assert!(cached("ide2004", None) && !cached("man3367mp", None) && !cached("nvme_ssd", None));
    let most = |name| make(name, Choices::default()).geometry().limits.max_transfer;
    assert_eq!((most("ide2004"), most("x15")), (256 * 512, 8192 * 512));
    let depth = |queue| make("ide2004", Choices { queue, ..Choices::default() }).depth();
    assert_eq!((depth(None), depth(Some(Policy::Sptf)), depth(Some(Policy::None))), (1, TAGS, 1));
    let read = |on_bus| {
        let mut model = make("cheetah9lp", Choices { on_bus, ..Choices::default() });
        Host::new(&mut *model).one(command(Op::Read, 0, 65536))
    };
    // 5 MB/s on the bus of the test bed, about 20 from the medium.
    assert!(read(false).0 > read(true).0 + 8_000_000);
    let cloud = |seed| {
        let mut model = make("cloud", Choices { seed, ..Choices::default() });
        Host::new(&mut *model).one(command(Op::Read, 0, 512))
    };
    assert_ne!(cloud(1), cloud(2));
    let old = |start| {
        let mut model = make("sata_ssd", Choices { start, ..Choices::default() });
        Host::new(&mut *model).one(command(Op::Read, 1 << 30, 4096))
    };
    assert!(old(None) > old(Some(Start::Erased)), "an erased disk has nothing to read");
    assert_eq!(old(None), old(Some(Start::Steady)), "disks are used unless told otherwise");
}

#[test]
fn flash_and_cloud_disks_have_the_rates_of_their_class() {
    // Name, depth, bytes, operation, commands a second.
    for (name, depth, len, op, range) in [
        ("sata_ssd", 1, 4096, Op::Read, 8_000..12_000),
        ("sata_ssd", 32, 4096, Op::Read, 80_000..125_000),
        ("sata_ssd", 32, 128 << 10, Op::Read, 4_000..4_400),
        ("nvme_ssd", 1, 4096, Op::Read, 11_000..14_000),
        ("nvme_ssd", 256, 4096, Op::Read, 400_000..670_000),
        // Written at random, the 32 units of such a read are in as many rows.
        ("nvme_ssd", 32, 128 << 10, Op::Read, 13_000..15_000),
        ("cloud", 128, 4096, Op::Read, 11_500..13_000),
    ] {
        let mut model = make(name, Choices::default());
        let size = model.geometry().size;
        let mut host = Host::new(&mut *model);
        let mut rng = Rng::new(4);
        let time = host.run(depth, 40_000, || command(op, rng.below(size / len) * len, len));
        let per_s = 40_000 * 1_000_000_000 / time.0;
        assert!(range.contains(&per_s), "{name} {depth} {len}: {per_s}");
    }
}

/// Results state facts that figures depend on and that the name of the disk does not show.
#[test]
fn results_say_how_flash_begins_and_where_an_interface_is_the_limit() {
    let facts = |name: &str, choices: &Choices| by_name(name).unwrap().facts(choices);
    let start = |start| facts("nvme_ssd", &Choices { start, ..Choices::default() })[0].1.clone();
    assert!(start(None).starts_with("steady") && start(Some(Start::Erased)).starts_with("erased"));
    let limited: Vec<&str> = TABLE
        .iter()
        .map(|row| row.name)
        .filter(|name| facts(name, &Choices::default()).iter().any(|(fact, _)| *fact == "interface"))
        .collect();
    assert_eq!(limited, ["hp_c2247a", "cheetah9lp", "ibm18es"]);
    let cheetah = facts("cheetah9lp", &Choices::default());
    assert!(cheetah[0].1.starts_with("at most 4.88 MB/s (4.65 MiB/s)"), "{cheetah:?}");
    assert!(cheetah[0].1.contains("the bus on which it was validated"), "{cheetah:?}");
    assert_eq!(facts("cheetah9lp", &Choices { on_bus: true, ..Choices::default() }), []);
}
