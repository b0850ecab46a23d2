//! Job files of fio, with the files that they include.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_jobs::option::rows;
use platter_jobs::value::{Kind, Value};
use platter_jobs::{JobFile, Plan, Surroundings};
use std::io;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "job-file",
    summary: "job files of fio, with the files that they include, and their plans",
    generate,
    mutate,
    read,
    memory: 96 << 20,
};

/// Between the files of an input.
const CUT: &str = "\n%%\n";

/// Most jobs of a plan that is printed.
const MOST_PRINTED: u32 = 200;

const WORDS: &[&str] = &[
    "[global]\n",
    "[a]\n",
    "[]\n",
    "[",
    "]",
    "\n",
    CUT,
    "include 1\n",
    "include 2\n",
    "include\n",
    " = ",
    "=",
    "=,",
    "# note",
    ";",
    "${A}",
    "${LONG}",
    "${",
    "$pagesize",
    "*",
    "(1+2)*4k",
    "-",
    "9223372036854775808",
    "9223372036854775807",
    "18446744073709551616",
    "64k",
    "1.5k",
    "50%",
    "4kib",
    "0x",
    "1z",
    ":",
    "/",
    "stonewall\n",
    "numjobs=131072\n",
    "nrfiles=1048576\n",
    "offset_increment=8p\n",
    "kb_base=1000\n",
    "bssplit=4k/50:8k/50\n",
    "random_distribution=zoned:50/5:50/\n",
    "wait_for=a\n",
];

/// A value that an option may take, or nearly.
fn value(rng: &mut Rng, kind: Kind) -> String {
    let size = |rng: &mut Rng| {
        let unit = *rng.pick(&["", "k", "m", "K", "kb", "ki", "g", "t"]);
        format!("{}{unit}", 1 + rng.below(2000))
    };
    match kind {
        Kind::Switch | Kind::Flag => rng.below(2).to_string(),
        Kind::Integer(least, most) | Kind::Integers(least, most) => {
            (*rng.pick(&[least, most, least.saturating_add(1), most.saturating_sub(1)])).to_string()
        }
        Kind::Word(words) => (*rng.pick(words)).to_owned(),
        Kind::Blocks => format!("{},{}", size(rng), size(rng)),
        Kind::BlockRanges => format!("{}-{}", size(rng), size(rng)),
        Kind::SizeRange | Kind::TimeRange => "1-2".to_owned(),
        Kind::Split => (*rng.pick(&["4k/60:64k/40", "1k/:2k/", "8k/100,4k/50:1k/50"])).to_owned(),
        Kind::Time(_) => format!("{}{}", rng.below(100), rng.pick(&["", "s", "ms", "us", "m"])),
        Kind::Amount(_) => (*rng.pick(&["10%", "1z", "64k", "1g", "0"])).to_owned(),
        Kind::Floats(..) => "0.5".to_owned(),
        Kind::Access => (*rng.pick(&["read", "randrw", "write:4k", "randread:8", "trimwrite"])).to_owned(),
        Kind::Distribution => {
            (*rng.pick(&["zipf:1.2", "pareto:0.9:0.5", "normal:5", "zoned:50/5:50/95"])).to_owned()
        }
        Kind::Engine => (*rng.pick(&["libaio", "io_uring", "psync", "null"])).to_owned(),
        Kind::Steady => "iops_slope:0.3%".to_owned(),
        _ => size(rng),
    }
}

fn options(rng: &mut Rng, out: &mut String) {
    let all: Vec<_> = rows().filter(|row| !row.is_refused() && row.name != "wait_for").collect();
    for _ in 0..rng.below(6) {
        let row = rng.pick(&all);
        *out += &format!("{}={}\n", row.name, value(rng, row.kind));
    }
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        text +=
            *rng.pick(&["[global]\n", "[a]\n", "[b]\n", "[c d]\nstonewall\n", "; note\n[e]\nruntime=1\n"]);
        options(rng, &mut text);
        if rng.one_in(6) {
            text += "include 1\n";
        }
    }
    text += CUT;
    options(rng, &mut text);
    text.into_bytes()
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(50) {
        // A line longer than any that is read.
        input.extend(std::iter::repeat_n(b'x', 70_000));
    }
    text::mutate(rng, input, other, WORDS);
}

/// The files of an input: `0` is the job file, the others are those to include.
struct Files<'t>(Vec<&'t str>);

impl Surroundings for Files<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let number: Option<usize> = path.to_str().and_then(|name| name.parse().ok());
        let text = number.and_then(|number| self.0.get(number)).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.as_bytes().to_vec())
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "A" => Some("4k".to_owned()),
            "LONG" => Some("9".repeat(40_000)),
            _ => None,
        }
    }

    fn is_device(&self, path: &Path) -> bool {
        path == Path::new("b")
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn memory_mib(&self) -> u64 {
        16_000
    }

    fn processors(&self) -> u64 {
        2
    }
}

/// Every number is within the range of its option.
fn within_ranges(file: &JobFile) -> Result<(), String> {
    for job in &file.jobs {
        for (row, value) in job.settings() {
            let holds = match (row.kind, value) {
                (Kind::Integer(least, most), Value::Integer(n)) => (least..=most).contains(n),
                (Kind::Integers(least, most), Value::Integers(all)) => {
                    // Zero stands for a direction that no line has named.
                    all.iter().all(|n| *n == 0 || (least..=most).contains(n))
                }
                (Kind::Size(least, most), Value::Size(n)) => (least..=most).contains(n),
                (_, Value::Blocks(all)) => all.iter().all(|[low, high]| *low > 0 && low <= high),
                (_, Value::Split(all)) => {
                    all.iter().all(|parts| parts.iter().map(|part| part.1).sum::<u32>() == 100)
                }
                _ => true,
            };
            hold(holds, || format!("{}={value:?}", row.name))?;
        }
    }
    Ok(())
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    let files = Files(text.split(CUT).collect());
    let lines = |name: &Path| {
        let number: Option<usize> = name.to_str().and_then(|name| name.parse().ok());
        number.and_then(|number| files.0.get(number)).map_or(0, |text| text.split('\n').count())
    };
    let result = platter_jobs::read(&["0"], &files).and_then(|file| {
        let sound = within_ranges(&file);
        Plan::new(file, &[]).map(|plan| (plan, sound))
    });
    let (plan, sound) = match result {
        Ok(read) => read,
        Err(error) => {
            hold(error.place.line as usize <= lines(&error.place.file), || {
                format!("{error:?} is in no file")
            })?;
            return Ok(Verdict::Refused(error.to_string()));
        }
    };
    sound?;
    for warning in &plan.warnings {
        let said = warning.to_string();
        hold(said.len() < 4096 && !said.contains(char::is_control), || format!("{warning:?}"))?;
    }
    let jobs: u32 = plan.jobs.iter().map(|job| job.numjobs).sum();
    hold(plan.groups().iter().map(|group| group.members.len()).sum::<usize>() == plan.jobs.len(), || {
        "a job is in no group".to_owned()
    })?;
    if jobs <= MOST_PRINTED {
        plan.to_json();
        plan.rows();
    }
    Ok(Verdict::Accepted)
}
