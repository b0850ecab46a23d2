//! The list of file locks, and states of processes.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_disk::sys::DeviceNumber;
use platter_disk::sys::texts::{device_number, is_exiting, lock_holders};
use std::fmt::Write;

pub(super) const TARGET: Target = Target {
    name: "locks",
    summary: "/proc/locks, /proc/PID/stat and device numbers",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 2 << 20,
};

const WORDS: &[&str] = &[
    "FLOCK",
    "POSIX",
    "->",
    "fe:10:1234",
    "0",
    "EOF",
    " ",
    "\n",
    "(",
    ")",
    "Z",
    "4194564",
    ":",
    "1: FLOCK ADVISORY WRITE 708",
];

const DEVICE: DeviceNumber = DeviceNumber { major: 254, minor: 16 };

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..rng.below(6) {
        let (kind, wait) = (*rng.pick(&["FLOCK", "POSIX"]), *rng.pick(&["", "", "-> "]));
        let pid = rng.extreme(32);
        let _ = writeln!(
            text,
            "{number}: {wait}{kind}  ADVISORY  WRITE {pid} fe:10:{} 0 EOF",
            rng.range(1233, 1235)
        );
    }
    if rng.one_in(3) {
        let _ = write!(text, "12 (fio) {} 1 12 12 0 -1 {} 100", rng.pick(&["S", "Z", "X"]), rng.extreme(33));
    }
    if rng.one_in(6) {
        text = format!("{}:{}", rng.extreme(33), rng.extreme(33));
    }
    text.into_bytes()
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    let held = lock_holders(&text, DEVICE, 1234);
    hold(held.is_sorted_by(|a, b| a < b) && !held.contains(&0), || format!("{held:?}"))?;
    let written: String =
        held.iter().map(|pid| format!("1: FLOCK ADVISORY WRITE {pid} fe:10:1234 0 EOF\n")).collect();
    hold(lock_holders(&written, DEVICE, 1234) == held, || format!("{held:?} are read as others"))?;
    let exits = text.lines().any(is_exiting);
    let number = device_number(&text);
    if let Some(number) = number {
        hold(device_number(&number.to_string()) == Some(number), || format!("{number} is read as another"))?;
    }
    let any = !held.is_empty() || exits || number.is_some();
    Ok(if any { Verdict::Accepted } else { Verdict::Refused("no locks".to_owned()) })
}
