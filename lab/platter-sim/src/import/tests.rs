//! A small disk in files, and the errors for damaged ones.

use super::{load, load_with};
use crate::disk::params::{Access, DiskParams, Keep, ReadAhead, SeekCurve, Skew, Sparing, WriteBack};
use std::path::PathBuf;
use tempfile::TempDir;

const FLAGS: [&str; 15] = [
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Allow almost read hits",
    "Allow sneaky full read hits",
    "Allow read hits on write data",
    "Allow write prebuffering",
    "Never disconnect",
    "Use separate write segment",
    "Set watermark by reqsize",
    "Read-ahead on idle hit",
    "Read any free blocks",
    "Combine seq writes",
    "Stop prefetch in sector",
    "Write hit stop prefetch",
    "Read directly to buffer",
];
const TIMES: [&str; 24] = [
    "Per-request overhead time",
    "Read hit over. after read",
    "Read hit over. after write",
    "Read miss over. after read",
    "Read miss over. after write",
    "Write hit over. after read",
    "Write hit over. after write",
    "Write miss over. after read",
    "Write miss over. after write",
    "Read completion overhead",
    "Write completion overhead",
    "Data preparation overhead",
    "First reselect overhead",
    "Other reselect overhead",
    "Read disconnect afterread",
    "Read disconnect afterwrite",
    "Write disconnect overhead",
    "Extradisc command overhead",
    "Extradisc disconnect overhead",
    "Extradisc inter-disconnect delay",
    "Extradisc 2nd disconnect overhead",
    "Extradisc seek delta",
    "Minimum seek delay",
    "Bulk sector transfer time",
];
const ZONE: &str = "dm_layout_g1_zone {
    First cylinder number = 0, Last cylinder number = 9, Blocks per track = 20,
    Offset of first block = 1.000000, Empty space at zone front = 5,
    Skew for track switch = 2.0, Skew for cylinder switch = 3,
    Number of spares = 4, slips = [ 7, 9 ], defects = [ 30, 399 ] }";

/// The files of a disk.
struct Files {
    specs: String,
    model: String,
    seek: String,
    system: String,
}

impl Files {
    fn new() -> Files {
        let mut specs = String::from(
            "# a disk
disksim_disk TINY {
   Model = source tiny.model,
   Time scale for overheads = 2.0,
   Scheduler = disksim_ioqueue { Scheduling policy = 1, Cylinder mapping strategy = 0 },
   Number of buffer segments = 3, Maximum number of write segments = 2,
   Segment size (in blks) = 64,
   Low (write) water mark = 0.5, High (read) water mark = 0.25,
   Enable caching in buffer = 1,
   Buffer continuous read = 4,
   Minimum read-ahead (blks) = 1, Maximum read-ahead (blks) = 30,
   Read-ahead over requested = -1,
   Fast write level = 2,
   Immediate buffer read = 0, Immediate buffer write = 1,
   Immed transfer partial hit = 1,
   Preseeking level = 2,
   Extra write disconnect = 0,
",
        );
        for flag in FLAGS {
            specs += &format!("   {flag} = 1,\n");
        }
        for (number, time) in TIMES.iter().enumerate() {
            specs += &format!("   {time} = 0.00{}1,\n", number % 10);
        }
        specs += "} # end\n";
        Files {
            specs,
            model: format!(
                "dm_disk TINY_model {{
   Number of data surfaces = 2, Number of cylinders = 10, Block count = 380,
   Layout Model = dm_layout_g1 {{
      LBN-to-PBN mapping scheme = 1, Sparing scheme used = 9, Rangesize for sparing = 1,
      Zones = [ {ZONE} ]
   }},
   Mechanical Model = dm_mech_g1 {{
      Access time type = trackSwitchPlusRotation, Seek type = extracted,
      Full seek curve = tiny.seek, Add. write settling delay = 0.5, Head switch time = 0.25,
      Rotation speed (in rpms) = 6000, Percent error in rpms = 0.0
   }}
}}
"
            ),
            seek: "Seek distances measured: 2\n1,\t0.8\n5, 1.25, 0.1\n".into(),
            system: "disksim_bus BUS0 { Read block transfer time = 9.0, Write block transfer time = 9.0 }
disksim_bus BUS1 { Arbitration time = 0.002, Read block transfer time = 0.5, Write block transfer time = 0.001 }
source tiny.diskspecs
instantiate [ b0 ] as BUS0
instantiate [ b1 ] as BUS1
instantiate [ d0, d1 ] as TINY
topology disksim_iodriver driver0 [ disksim_bus b0 [ disksim_ctlr c0 [ disksim_bus b1 [
   disksim_disk d0 [], disksim_disk d1 [] ] ] ] ]
"
            .into(),
        }
    }

    fn write(&self) -> (TempDir, PathBuf) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("tiny.diskspecs");
        std::fs::write(&path, &self.specs).unwrap();
        std::fs::write(dir.path().join("tiny.model"), &self.model).unwrap();
        std::fs::write(dir.path().join("tiny.seek"), &self.seek).unwrap();
        std::fs::write(dir.path().join("tiny.parv"), &self.system).unwrap();
        (dir, path)
    }

    fn load(&self) -> DiskParams {
        let (_dir, path) = self.write();
        load(&path).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The error without the directory of its file.
    fn error(&self) -> String {
        let (dir, path) = self.write();
        let error = load(&path).unwrap_err().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    }
}

/// The line, from 1, on which a text stands.
fn line(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).unwrap() + 1
}

#[test]
fn a_disk_is_read_from_its_files() {
    let params = Files::new().load();
    assert_eq!(params.name, "TINY");
    let layout = &params.layout;
    assert_eq!((layout.heads, layout.cylinders, layout.sectors), (2, 10, Some(380)));
    assert_eq!(layout.sparing, Sparing::ZoneEnd);
    let zone = &layout.zones[0];
    assert_eq!((zone.first_offset, zone.track_skew), (Skew::Sectors(1), Skew::Sectors(2)));
    assert_eq!((zone.reserved, zone.spares), (5, 4));
    assert_eq!((zone.slips.as_slice(), zone.remaps.as_slice()), ([7, 9].as_slice(), [(30, 399)].as_slice()));
    let mechanics = &params.mechanics;
    assert_eq!((mechanics.access, mechanics.rpm), (Access::Positioned, 6000));
    assert_eq!((mechanics.head_switch, mechanics.write_settle), (250_000, 500_000));
    assert_eq!(mechanics.seek, SeekCurve::Table(vec![(1, 800_000), (5, 1_250_000)]));
    assert_eq!((params.control.read_hit.read, params.control.read_hit.write), (2 * 1_100, 2 * 2_100));
    assert_eq!(params.control.minimum_seek, 2_100);
    assert_eq!(params.control.extra_disconnect, None);
    let cache = &params.cache;
    assert_eq!((cache.read_ahead, cache.keep), (ReadAhead::NextTrack, Keep::Discard));
    assert_eq!((cache.write_back, cache.zero_latency_write), (WriteBack::On, true));
    assert_eq!((cache.read_watermark, cache.write_watermark), (250_000, 500_000));
}

#[test]
fn the_bus_is_the_one_above_the_disk() {
    let files = Files::new();
    let bus = files.load().bus;
    // The disk's own 3.1 µs count if the bus is faster.
    assert_eq!((bus.read_sector, bus.write_sector, bus.arbitration), (500_000_000, 3_100_000, 2_000));
    let (_dir, path) = files.write();
    let bus = load_with(&path, None).unwrap().bus;
    assert_eq!((bus.read_sector, bus.write_sector, bus.arbitration), (3_100_000, 3_100_000, 0));
    let whole = load(&path.with_extension("parv")).unwrap();
    assert_eq!(whole, files.load());
}

#[test]
fn a_model_may_stand_in_the_same_file() {
    let mut files = Files::new();
    let model = files.model.replacen("dm_disk TINY_model", "dm_disk", 1);
    files.specs = files.specs.replace("source tiny.model", &model);
    assert_eq!(files.load(), Files::new().load());
}

#[test]
fn the_label_never_claims_more_than_there_is() {
    let mut files = Files::new();
    files.model = files.model.replace("Block count = 380", "Block count = 392");
    assert_eq!(files.load().layout.sectors, None);
}

/// A change of the files and the resulting error; `{}` is the line with the given part.
fn broken(change: impl Fn(&mut Files), part: &str, expected: &str) {
    let mut files = Files::new();
    change(&mut files);
    let of = |text: &str| if text.contains(part) { Some(line(text, part)) } else { None };
    let line = of(&files.model).or(of(&files.specs)).or(of(&files.seek)).unwrap_or(0);
    let error = files.error();
    let expected = expected.replace("{}", &line.to_string());
    assert!(error.starts_with(&expected), "{error:?} should begin with {expected:?}");
}

/// The text to replace, its replacement, a part of the line named in the error, and the beginning of the
/// error.
type Broken = (&'static str, &'static str, &'static str, &'static str);

const BROKEN_MODELS: &[Broken] = &[
    (
        "rpms) = 6000",
        "rpms) = 60",
        "rpms)",
        "tiny.model:{}: expected a whole number from 1000 to 100000 as `Rotation speed (in rpms)`, found `60`",
    ),
    ("rpms) = 6000", "rpms) = fast", "rpms)", "tiny.model:{}: expected a whole number from 1000"),
    (
        "type = extracted",
        "type = guessed",
        "Seek type",
        "tiny.model:{}: expected `constant`, `linear`, `curve`, `hpl`, `hplplus10` or `extracted` as `Seek type`, found `guessed`",
    ),
    (
        "= trackSwitchPlusRotation",
        "= magic",
        "Access time",
        "tiny.model:{}: expected `trackSwitchPlusRotation`",
    ),
    (
        "dm_layout_g1 {",
        "dm_layout_g4 {",
        "dm_layout_g4",
        "tiny.model:{}: expected a layout of type `dm_layout_g1`, the only one supported, found a block `dm_layout_g4`",
    ),
    ("dm_mech_g1 {", "dm_mech_g9 {", "dm_mech_g9", "tiny.model:{}: expected mechanics of type `dm_mech_g1`"),
    (
        "used = 9",
        "used = 11",
        "Sparing",
        "tiny.model:{}: expected a whole number from 0 to 10 as `Sparing scheme used`, found `11`",
    ),
    (
        "slips = [ 7, 9 ]",
        "slips = [ 7, 400 ]",
        "Layout Model",
        "tiny.model:{}: expected a slip of zone 0 to be a sector of the zone, less than 400, found 400",
    ),
    (
        "defects = [ 30, 399 ]",
        "defects = [ 30 ]",
        "defects",
        "tiny.model:{}: expected pairs of defect and replacement in `defects`, found a list of 1",
    ),
    (
        "Last cylinder number = 9",
        "Last cylinder number = 11",
        "Last cylinder",
        "tiny.model:{}: expected a whole number from 0 to 10 as `Last cylinder number`, found `11`",
    ),
    (
        "spares = 4",
        "spares = 400",
        "Layout Model",
        "tiny.model:{}: expected reserved and spare space of zone 0 to be less than",
    ),
    (
        "Zones = [ dm",
        "Zones = [ ], Rest = [ dm",
        "Zones",
        "tiny.model:{}: expected at least one zone in `Zones`, found a list of 0",
    ),
    (
        "Blocks per track = 20,",
        "",
        "dm_layout_g1_zone",
        "tiny.model:{}: expected `Blocks per track` in `dm_layout_g1_zone`, found none",
    ),
    (
        "Head switch time = 0.25",
        "Head switch time = -1",
        "Head switch",
        "tiny.model:{}: expected a number from 0 to 1000000 as `Head switch time`, found `-1`",
    ),
    (
        "Full seek curve = tiny.seek",
        "Full seek curve = gone.seek",
        "gone.seek",
        "tiny.model:{}: expected a file that can be read, found gone.seek: ",
    ),
    ("Block count = 380", "Block count = none", "Block count", "tiny.model:{}: expected a whole number"),
];

const BROKEN_SPECS: &[Broken] = &[
    (
        "segments = 3",
        "segments = 0",
        "segments = 0",
        "tiny.diskspecs:{}: expected a whole number from 1 to 65535 as `Number of buffer segments`, found `0`",
    ),
    (
        "write segments = 2",
        "write segments = 4",
        "write segments = 4",
        "tiny.diskspecs:{}: expected a whole number from 1 to 3 as `Maximum number of write segments`, found `4`",
    ),
    (
        "Enable caching in buffer = 1",
        "Enable caching in buffer = 0",
        "Buffer continuous",
        "tiny.diskspecs:{}: expected 0 as `Buffer continuous read`, since `Enable caching in buffer` is 0, found `4`",
    ),
    (
        "water mark = 0.25",
        "water mark = 1.5",
        "water mark = 1.5",
        "tiny.diskspecs:{}: expected a number from 0 to 1 as `High (read) water mark`, found `1.5`",
    ),
    ("over requested = -1", "over requested = 2", "over requested", "tiny.diskspecs:{}: expected -1, 0 or 1"),
    (
        "source tiny.model",
        "source gone.model",
        "gone.model",
        "tiny.diskspecs:{}: expected a file that can be read, found gone.model: ",
    ),
    (
        "source tiny.model",
        "source tiny.diskspecs",
        "source tiny",
        "tiny.diskspecs:{}: expected files that do not name each other in a circle",
    ),
    ("disksim_disk", "disksim_simpledisk", "", "tiny.diskspecs: expected a block `disksim_disk`, found none"),
    (
        "Fast write level = 2,",
        "",
        "disksim_disk",
        "tiny.diskspecs:{}: expected `Fast write level` in `disksim_disk TINY`, found none",
    ),
];

#[test]
fn wrong_values_are_named_with_file_and_line() {
    for (from, to, part, expected) in BROKEN_MODELS {
        broken(|files| files.model = files.model.replace(from, to), part, expected);
    }
    for (from, to, part, expected) in BROKEN_SPECS {
        broken(|files| files.specs = files.specs.replace(from, to), part, expected);
    }
}

#[test]
fn wrong_syntax_is_named_with_file_and_line() {
    for (from, to, part, expected) in [
        ("Fast write level = 2,", "Fast write level = 2", "Fast write", "tiny.diskspecs:{}: expected"),
        (
            "Fast write level = 2,",
            "Fast write level 2,",
            "Fast write",
            "tiny.diskspecs:{}: expected `name = value`, found `Fast write level 2,`",
        ),
        (
            "} # end",
            "",
            "",
            "tiny.diskspecs:60: expected `}` at the end of `disksim_disk`, found the end of the file",
        ),
    ] {
        let mut files = Files::new();
        files.specs = files.specs.replace(from, to);
        let lines = files.specs.lines().count();
        let error = files.error();
        let at = if part.is_empty() { lines + 1 } else { line(&files.specs, part) };
        let expected = expected.replace("{}", &at.to_string()).replace(":60:", &format!(":{at}:"));
        // A missing comma shows on the line after it.
        let later = expected.replace(&format!(":{at}:"), &format!(":{}:", at + 1));
        assert!(error.starts_with(&expected) || error.starts_with(&later), "{error:?}, not {expected:?}");
    }
    broken(
        |files| files.model = files.model.replace("slips = [ 7, 9 ]", "slips = [ 7, 9 "),
        "slips",
        "tiny.model:",
    );
}

#[test]
fn zones_that_overlap_are_named() {
    let mut files = Files::new();
    let second = ZONE.replace("number = 0, Last cylinder number = 9", "number = 5, Last cylinder number = 9");
    let first = ZONE.replace("Last cylinder number = 9", "Last cylinder number = 5");
    files.model = files.model.replace(ZONE, &format!("{first},\n{second}"));
    let at = line(&files.model, "number = 5, Last");
    let expected =
        format!("tiny.model:{at}: expected a whole number from 6 to 9 as `First cylinder number`, found `5`");
    assert_eq!(files.error(), expected);
}

/// The zones of DiskSim's HP C2490A end with the number of its cylinders.
#[test]
fn a_last_zone_that_ends_with_the_number_of_cylinders_is_read_with_all_of_its_sectors() {
    let mut files = Files::new();
    let whole = files.load();
    files.model = files
        .model
        .replace("Number of cylinders = 10, Block count = 380", "Number of cylinders = 9, Block count = 380");
    let params = files.load();
    assert_eq!(params.layout, whole.layout);
    files.model = files.model.replace("Number of cylinders = 9,", "Number of cylinders = 8,");
    assert!(
        files.error().contains("expected a whole number from 0 to 8 as `Last cylinder number`, found `9`")
    );
}

/// DiskSim's DEC RZ26 and HP C2490A: writes settle sooner than reads.
#[test]
fn a_negative_settling_of_writes_makes_their_moves_shorter_and_not_less_than_nothing() {
    use crate::disk::mech::{Arm, Mechanics};
    let moves = |settle: &str| {
        let mut files = Files::new();
        files.model = files.model.replace("settling delay = 0.5", &format!("settling delay = {settle}"));
        let params = files.load();
        let mechanics = Mechanics::new(&params.mechanics, params.layout.cylinders).unwrap();
        let [here, there] = [0, 5].map(|cylinder| Arm { cylinder, head: 0 });
        [false, true].map(|write| mechanics.move_time(here, there, write))
    };
    assert_eq!(moves("-0.483"), [1_250_000, 767_000]);
    assert_eq!(moves("-20.0"), [1_250_000, 0]);
    assert_eq!(moves("0.07"), [1_250_000, 1_320_000]);
}

#[test]
fn a_device_or_an_endless_file_is_not_read() {
    let mut files = Files::new();
    files.specs = files.specs.replace("source tiny.model", "source /dev/zero");
    let error = files.error();
    assert!(error.ends_with("/dev/zero: it is not a regular file"), "{error}");
    let error = load(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.ends_with("longer than 16777216 bytes"), "{error}");
}

#[test]
fn a_seek_table_that_goes_back_is_named() {
    for (seek, expected) in [
        (
            "1, 0.8\n5, 1.0\n4, 1.2\n",
            "tiny.seek:3: expected a distance of more than 5, that of the line before, found `4, 1.2`",
        ),
        ("1, 0.8\nfive, 1.0\n", "tiny.seek:2: expected a distance in cylinders and a time"),
        (
            "1, \u{1b}[2J\n",
            "tiny.seek:1: expected a distance in cylinders and a time in milliseconds, `12, 1.5`, found `1, \u{fffd}[2J`",
        ),
        ("1, -0.8\n", "tiny.seek:1: expected a distance in cylinders and a time"),
        ("", "tiny.seek: expected distances and times of seeks, found none"),
    ] {
        let mut files = Files::new();
        files.seek = seek.into();
        let error = files.error();
        assert!(error.starts_with(expected), "{error:?}, not {expected:?}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let dir = TempDir::new().unwrap();
    let error = load(&dir.path().join("none.diskspecs")).unwrap_err();
    assert_eq!(error.line, 0);
    assert!(error.to_string().contains("none.diskspecs: expected a file that can be read"), "{error}");
}

#[test]
fn a_zone_that_is_missing_is_named() {
    // The disk has 60 cylinders, and its zones end at the tenth.
    let longer = |files: &mut Files| {
        files.model = files.model.replace("Number of cylinders = 10", "Number of cylinders = 60");
    };
    broken(longer, "Zones = ", "tiny.model:{}: expected zones up to cylinder 59, the last; they end at 9");
    let hole = |files: &mut Files| {
        let second = ZONE.replace("number = 9", "number = 59").replace("number = 0", "number = 40");
        files.model = files.model.replace("Number of cylinders = 10", "Number of cylinders = 60");
        files.model = files.model.replace(&format!("[ {ZONE} ]"), &format!("[ {ZONE}, {second} ]"));
    };
    broken(
        hole,
        "number = 40",
        "tiny.model:{}: expected a zone from cylinder 10 on, or at most 16 cylinders further",
    );
}

#[test]
fn a_label_far_beyond_the_zones_is_named() {
    let label = |files: &mut Files| {
        files.model = files.model.replace("Block count = 380", "Block count = 9999");
    };
    broken(label, "Block count", "tiny.model:{}: expected `Block count` to be at most the");
}

#[test]
fn files_that_name_each_other_over_and_over_are_an_error() {
    let dir = TempDir::new().unwrap();
    for number in 0..12 {
        let next = format!("source f{}\nsource f{}\n", number + 1, number + 1);
        std::fs::write(dir.path().join(format!("f{number}")), next).unwrap();
    }
    std::fs::write(dir.path().join("f12"), "").unwrap();
    let error = load(&dir.path().join("f0")).unwrap_err().to_string();
    assert!(error.contains("at most 64 files in all"), "{error}");
}
