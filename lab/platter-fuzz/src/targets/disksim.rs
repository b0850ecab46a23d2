//! Parameter files of DiskSim: disk, model, seek curve and system.

use super::hold;
use crate::archive::{Archive, folder};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_block::bio::Op;
use platter_sim::import;
use platter_sim::validate::{self, Traced};

pub(super) const TARGET: Target = Target {
    name: "disksim",
    summary: "DiskSim's .diskspecs, .model, .parv and seek files",
    generate: |rng| sound(rng).encode(),
    mutate: |rng, input, other| {
        let mut archive = Archive::decode(input);
        archive.mutate(rng, &Archive::decode(other), WORDS);
        *input = archive.encode();
    },
    read,
    memory: 512 << 20,
};

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    "=",
    "\"",
    "#",
    "\n",
    "source",
    "source disk.model",
    "source disk.diskspecs",
    "source disk.parv",
    "instantiate",
    "topology",
    "as",
    "disksim_disk",
    "dm_disk",
    "dm_layout_g1",
    "dm_layout_g1_zone",
    "dm_mech_g1",
    "disksim_bus",
    "[ 1, 2 ]",
    "-1",
    "0",
    "1",
    "0.5",
    "10000000",
    "4294967295",
    "1000",
    "extracted",
    "linear",
    "constant",
    "curve",
    "hpl",
    "hplplus10",
    "trackSwitchPlusRotation",
    "averageRotation",
    "sectors",
    "revolutions",
];

const FLAGS: &[&str] = &[
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
    "Immed transfer partial hit",
    "Extra write disconnect",
    "Enable caching in buffer",
];

const TIMES: &[&str] = &[
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

fn specs(rng: &mut Rng, model: &str) -> String {
    let mut text = format!(
        "# a disk\ndisksim_disk TINY {{\n Model = {model},\n Time scale for overheads = {}.0,\n",
        rng.below(3)
    );
    text += " Scheduler = disksim_ioqueue { Scheduling policy = 1 },\n";
    let segments = rng.range(1, 4);
    let numbers: [(&str, u64); 11] = [
        ("Number of buffer segments", segments),
        ("Maximum number of write segments", rng.range(1, segments)),
        ("Segment size (in blks)", rng.range(8, 64)),
        ("Buffer continuous read", rng.below(5)),
        ("Minimum read-ahead (blks)", rng.below(4)),
        ("Maximum read-ahead (blks)", rng.below(40)),
        ("Fast write level", rng.below(3)),
        ("Immediate buffer read", rng.below(3)),
        ("Immediate buffer write", rng.below(3)),
        ("Preseeking level", rng.below(3)),
        ("Low (write) water mark", rng.below(2)),
    ];
    for (key, number) in numbers {
        text += &format!(" {key} = {number},\n");
    }
    text += &format!(
        " High (read) water mark = 0.{},\n Read-ahead over requested = {},\n",
        rng.below(10),
        rng.pick(&["-1", "0", "1"])
    );
    for flag in FLAGS {
        let on = rng.one_in(2) || *flag == "Enable caching in buffer";
        text += &format!(
            " {flag} = {},\n",
            u8::from(on && (*flag != "Use separate write segment" || segments > 1))
        );
    }
    for time in TIMES {
        text += &format!(" {time} = 0.00{}1,\n", rng.below(10));
    }
    text + "}\n"
}

fn zones(rng: &mut Rng, cylinders: u64) -> String {
    let count = rng.range(1, 3).min(cylinders);
    let each = cylinders / count;
    let zone = |rng: &mut Rng, at: u64| {
        let last = if at + 1 == count { cylinders - 1 } else { (at + 1) * each - 1 };
        let unit = if rng.one_in(4) { " Skew units = revolutions," } else { "" };
        let skew = if unit.is_empty() { "2.0" } else { "0.25" };
        let (slips, defects) = match rng.below(4) {
            0 => ("7, 9", "30, 31"),
            1 => ("3", "4, 5, 8, 9"),
            _ => ("", ""),
        };
        format!(
            "dm_layout_g1_zone {{ First cylinder number = {}, Last cylinder number = {last}, Blocks per track = {},{unit} \
             Offset of first block = {skew}, Empty space at zone front = {}, Skew for track switch = {skew}, \
             Skew for cylinder switch = {skew}, Number of spares = {}, slips = [ {slips} ], defects = [ {defects} ] }}",
            at * each,
            rng.range(4, 40),
            rng.below(6),
            rng.below(6),
        )
    };
    (0..count).map(|at| zone(rng, at)).collect::<Vec<_>>().join(",\n")
}

fn mechanics(rng: &mut Rng) -> String {
    let access = *rng.pick(&["trackSwitchPlusRotation", "averageRotation", "constant"]);
    let seek = *rng.pick(&["constant", "linear", "curve", "hpl", "hplplus10", "extracted"]);
    let one = if rng.one_in(2) { "-1" } else { "0.5" };
    format!(
        "dm_mech_g1 {{ Access time type = {access}, Constant access time = 1.5, Seek type = {seek}, Constant seek time = 2.0,\n \
         Single cylinder seek time = 0.5, Average seek time = 4.0, Full strobe seek time = 8.0, Full seek curve = disk.seek,\n \
         HPL seek equation values = [ {}, 1.0, 0.5, 2.0, 0.01, {one} ], \
         First ten seek times = [ .5, .6, .7, .8, .9, 1.0, 1.1, 1.2, 1.3, 1.4 ],\n Add. write settling delay = 0.5, \
         Head switch time = 0.25, Rotation speed (in rpms) = {} }}",
        rng.below(20),
        *rng.pick(&[1000u64, 5400, 6000, 100_000]),
    )
}

fn model(rng: &mut Rng) -> String {
    let cylinders = rng.range(2, 40);
    let (zones, mechanics) = (zones(rng, cylinders), mechanics(rng));
    format!(
        "dm_disk TINY_model {{ Number of data surfaces = {}, Number of cylinders = {cylinders}, Block count = {},\n \
         Layout Model = dm_layout_g1 {{ LBN-to-PBN mapping scheme = {}, Sparing scheme used = {}, Rangesize for sparing = {},\n \
         Zones = [ {zones} ] }},\n Mechanical Model = {mechanics} }}\n",
        rng.range(1, 4),
        rng.range(1, 400),
        rng.below(3),
        rng.below(11),
        rng.range(1, 5),
    )
}

const SYSTEM: &str = "disksim_bus BUS0 { Read block transfer time = 9.0, Write block transfer time = 9.0 }
disksim_bus BUS1 { Arbitration time = 0.002, Read block transfer time = 0.5, Write block transfer time = 0.001 }
source disk.diskspecs
instantiate [ b0 ] as BUS0
instantiate [ b1 ] as BUS1
instantiate [ d0, d1 ] as TINY
topology disksim_iodriver driver0 [ disksim_bus b0 [ disksim_ctlr c0 [ disksim_bus b1 [
 disksim_disk d0 [], disksim_disk d1 [] ] ] ] ]
";

fn sound(rng: &mut Rng) -> Archive {
    // A key a line, so that changes of lines make or leave out whole ones.
    let model = model(rng).replace(", ", ",\n ");
    let mut files = Vec::new();
    if rng.one_in(3) {
        files.push(("disk.diskspecs".to_owned(), specs(rng, model.trim_end())));
    } else {
        files.push(("disk.diskspecs".to_owned(), specs(rng, "source disk.model")));
        files.push(("disk.model".to_owned(), model));
    }
    files.push(("disk.seek".to_owned(), "Seek distances measured: 2\n1,\t0.8\n5, 1.25, 0.1\n".to_owned()));
    if rng.one_in(2) {
        files.push(("disk.parv".to_owned(), SYSTEM.to_owned()));
    }
    Archive(files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect())
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let folder = folder()?;
    let archive = Archive::decode(input);
    archive.unpack(folder.path()).map_err(|error| format!("no files: {error}"))?;
    let params = match import::load(&folder.path().join("disk.diskspecs")) {
        Ok(params) => params,
        Err(error) => {
            hold(!error.expected.is_empty() && !error.found.is_empty(), || format!("{error:?}"))?;
            return Ok(Verdict::Refused(error.to_string()));
        }
    };
    let disk = match validate::disk(params) {
        Ok(disk) => disk,
        Err(error) => return Ok(Verdict::Refused(error.to_string())),
    };
    let sectors = disk.sectors();
    hold(sectors > 0, || "a disk without a sector".to_owned())?;
    let at = |sector: u64, op: Op| Traced { op, sector, sectors: 1, measured: 0, gap: 1000 };
    let trace =
        [at(0, Op::Read), at(sectors - 1, Op::Write), at(sectors / 2, Op::Read), at(sectors - 1, Op::Read)];
    let times = validate::service_times(disk, &trace);
    hold(times.len() == trace.len(), || format!("{times:?}"))?;
    Ok(Verdict::Accepted)
}
