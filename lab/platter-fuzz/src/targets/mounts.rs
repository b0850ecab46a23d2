//! Mount tables and lists of swap space.

use super::hold;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_disk::sys::texts::{Mount, mounts, swaps};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "mounts",
    summary: "/proc/self/mountinfo and /proc/swaps",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 2 << 20,
};

const WORDS: &[&str] = &[
    "-",
    " - ",
    "\\040",
    "\\",
    "\\+12",
    "\\377",
    "\\400",
    "8:0",
    ":",
    "shared:7",
    " ",
    "\n",
    "/",
    "ext4",
    "Filename\n",
];

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    if rng.one_in(4) {
        text += "Filename\t\t\t\tType\t\tSize\n/dev/dm-1      partition\t1\t0\t-2\n/swap\\040file\tfile\t1\n";
    }
    for id in 0..rng.below(6) {
        let extra = ["", " shared:7", " shared:7 master:2"][rng.below(3) as usize];
        let point = *rng.pick(&["/", "/mnt/my\\040disk", "/a\\134b", "/x"]);
        let _ = writeln!(
            text,
            "{id} 1 {}:{} / {point} rw{extra} - ext4 /dev/vd{id} rw",
            rng.below(300),
            rng.extreme(32)
        );
    }
    text.into_bytes()
}

/// A path as the kernel writes it.
fn escaped(path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => out.extend(format!("\\{byte:03o}").into_bytes()),
            byte => out.push(byte),
        }
    }
    out
}

fn line(mount: &Mount) -> Vec<u8> {
    let (id, kind) = &mount.id_and_type;
    let mut out = format!("{id} 1 {} / ", mount.device).into_bytes();
    out.extend(escaped(&mount.mount_point));
    out.extend(format!(" rw - {kind} ").into_bytes());
    out.extend(escaped(&mount.source));
    out.extend(b" rw\n");
    out
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let all = mounts(input);
    let lines = input.split(|byte| *byte == b'\n').count();
    hold(all.len() <= lines && swaps(input).len() <= lines, || {
        format!("{} mounts on {lines} lines", all.len())
    })?;
    for mount in &all {
        let again = mounts(&line(mount));
        let same = |again: &Mount| {
            (again.device, &again.mount_point, &again.source, &again.id_and_type)
                == (mount.device, &mount.mount_point, &mount.source, &mount.id_and_type)
        };
        hold(again.len() == 1 && same(&again[0]), || format!("{mount:?} is read as {again:?}"))?;
    }
    let swapped: Vec<Vec<u8>> = swaps(input).iter().map(|path| escaped(path)).collect();
    let text = [b"Filename\n".to_vec(), swapped.join(&b" x\n"[..])].concat();
    // A line may begin with a blank, which leaves no name to write.
    if swapped.iter().all(|name| !name.is_empty() && !name.iter().any(u8::is_ascii_whitespace))
        && !swapped.is_empty()
    {
        hold(swaps(&text) == swaps(input), || format!("{:?} is read as {:?}", swaps(input), swaps(&text)))?;
    }
    Ok(if all.is_empty() { Verdict::Refused("no mounts".to_owned()) } else { Verdict::Accepted })
}
