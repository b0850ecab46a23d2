//! Stacks of layers.

use platter_block::backend::Backend;
use platter_cache::by_name;
use platter_disk::device::Device;
use std::sync::Arc;

pub(crate) const SIZE: u64 = 4 << 20;
/// A request that includes this block fails on a stack with `is_flawed`.
pub(crate) const BAD: u64 = SIZE - 4096;

pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) handle: Device,
    /// The block at [`BAD`] cannot be read.
    pub(crate) is_flawed: bool,
}

type Below = Arc<dyn Backend>;

fn ram(size: u64) -> Below {
    Arc::clone(Device::ram(size).unwrap().backend())
}

fn layer(name: &str, named: &[(&str, i64)], below: Vec<Below>) -> Below {
    by_name(name).unwrap().make(named, below).unwrap()
}

pub(crate) fn all() -> Vec<Kind> {
    let stack =
        |name: &str, device, is_flawed| Kind { name: name.into(), handle: Device::new(device), is_flawed };
    let four = |size: u64| (0..4).map(|_| ram(size / 4)).collect();
    let last = layer("error", &[("op", 1), ("offset", BAD as i64 / 2 - 2048)], vec![ram(SIZE / 2)]);
    let inner = layer("raid0", &[("chunk", 8192)], four(SIZE / 2));
    vec![
        stack("raid0", layer("raid0", &[("chunk", 4096)], four(SIZE)), false),
        stack("raid0 with a bad block", layer("raid0", &[("chunk", 16384)], vec![ram(SIZE / 2), last]), true),
        stack("concat of raid0", layer("concat", &[], vec![inner, ram(SIZE / 2)]), false),
        stack("partition", layer("partition", &[("offset", 4096)], vec![ram(SIZE + 4096)]), false),
        stack("limit", layer("limit", &[("bw", 1 << 40), ("depth", 3)], vec![ram(SIZE)]), false),
        stack("delay", layer("delay", &[("write", 1), ("jitter", 1)], vec![ram(SIZE)]), false),
        stack("cache", layer("cache", &[("size", 512 << 10), ("window", 65536)], vec![ram(SIZE)]), false),
        stack(
            "cache, write=through",
            layer("cache", &[("size", 512 << 10), ("window", 65536), ("write", 1)], vec![ram(SIZE)]),
            false,
        ),
        stack("verify", layer("verify", &[], vec![ram(SIZE)]), false),
    ]
}
