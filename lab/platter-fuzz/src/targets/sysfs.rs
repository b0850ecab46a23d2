//! Attributes of disks in sysfs.

use super::hold;
use crate::archive::{Archive, folder};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_disk::sys::texts::{block_devices, queue};

pub(super) const TARGET: Target = Target {
    name: "sysfs",
    summary: "attributes of block devices and of their queues",
    generate: |rng| sound(rng).encode(),
    mutate: |rng, input, other| {
        let mut archive = Archive::decode(input);
        archive.mutate(rng, &Archive::decode(other), WORDS);
        *input = archive.encode();
    },
    read,
    memory: 4 << 20,
};

const WORDS: &[&str] = &[
    "[",
    "]",
    "none [mq-deadline] kyber",
    "write back",
    "write through",
    "8:0",
    "18446744073709551615",
    "18014398509481984",
    "host-managed",
    "\n",
    " ",
    "0",
    "-1",
];

const ATTRIBUTES: &[&str] = &[
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/max_sectors_kb",
    "queue/max_hw_sectors_kb",
    "queue/max_segments",
    "queue/max_segment_size",
    "queue/dma_alignment",
    "queue/chunk_sectors",
    "queue/discard_granularity",
    "queue/discard_max_bytes",
    "queue/write_zeroes_max_bytes",
    "queue/nr_requests",
    "queue/fua",
    "queue/rotational",
    "queue/read_ahead_kb",
    "queue/nomerges",
    "queue/wbt_lat_usec",
    "size",
    "queue/atomic_write_unit_min_bytes",
    "queue/atomic_write_unit_max_bytes",
];

const WORDS_OF: &[(&str, &[&str])] = &[
    ("queue/scheduler", &["none [mq-deadline] kyber", "none", "[none]", "", "a b", "[", "] ["]),
    ("queue/write_cache", &["write back", "write through", "", "write"]),
    ("queue/zoned", &["none", "host-aware", "host-managed"]),
    ("partition", &["1"]),
    ("dev", &["8:0", "8:", "x"]),
    ("holders/dm-0/dev", &["252:0"]),
];

fn sound(rng: &mut Rng) -> Archive {
    let mut files = Vec::new();
    for number in 0..rng.range(1, 3) {
        let folder = if rng.one_in(8) { "dev/block/8:x".to_owned() } else { format!("dev/block/8:{number}") };
        for _ in 0..rng.below(8) {
            let name = rng.pick(ATTRIBUTES);
            let contents =
                if rng.one_in(2) { rng.extreme(64).to_string() } else { rng.below(4096).to_string() };
            files.push((format!("{folder}/{name}"), format!("{contents}\n").into_bytes()));
        }
        for (name, words) in WORDS_OF {
            if rng.one_in(3) {
                files.push((format!("{folder}/{name}"), format!("{}\n", rng.pick(words)).into_bytes()));
            }
        }
    }
    Archive(files)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let folder = folder()?;
    let archive = Archive::decode(input);
    archive.unpack(folder.path()).map_err(|error| format!("no files: {error}"))?;
    let devices = block_devices(folder.path());
    for device in &devices {
        let Some((limits, queue)) = queue(folder.path(), device.number) else { continue };
        let whole = |size: Option<u64>, unit: u64| size.is_none_or(|size| size.is_multiple_of(unit));
        let units = whole(limits.max_io, 1024) && whole(limits.max_hw_io, 1024) && whole(limits.chunk, 512);
        hold(units, || format!("{limits:?}"))?;
        let chosen = queue.scheduler.as_ref().is_none_or(|one| queue.schedulers.contains(one));
        hold(chosen, || format!("{queue:?}"))?;
    }
    Ok(if devices.is_empty() { Verdict::Refused("no disks".to_owned()) } else { Verdict::Accepted })
}
