//! The devices of `--on`, as each mode opens them.

use crate::verbs::bench_dm::on::{self as ladder, OpenDisk};
use platter::registry::{self, Access, OpenError};
use platter::spec::{ArgValue, Spec};
use platter_bench::dm::DmError;
use platter_bench::ladder::{Ladder, Rung};
use platter_bench::parallel_read::{Disk, Mode, Opened, ParallelReadError};
use platter_disk::disk_backend::DiskSettings;

/// The layer that `normal` reads through.
const CACHE: &str = "cache";

/// The devices that the specs name; nothing is opened yet.
pub(super) fn disks(
    specs: &[String],
    modes: &[Mode],
    rung: &'static Rung,
) -> Result<Vec<Disk<'static>>, ParallelReadError> {
    let disk = |(number, text): (usize, &String)| {
        let ways = Ways::new(text)?;
        let raw = match modes.contains(&Mode::Raw) {
            true => Some(ladder::disk(&ways.bare, number).map_err(of_raw)?),
            false => None,
        };
        Ok(Disk::new(text.clone(), move |mode| open(&ways, raw.as_ref(), mode, rung)))
    };
    specs.iter().enumerate().map(disk).collect()
}

/// A device with a cache, and without one.
struct Ways {
    cached: String,
    bare: String,
}

impl Ways {
    fn new(text: &str) -> Result<Ways, ParallelReadError> {
        let spec = registry::parse(text).map_err(|error| ParallelReadError::Option(error.to_string()))?;
        Ok(match below(&spec) {
            Some(bare) => Ways { cached: spec.to_string(), bare },
            None => Ways { cached: format!("{CACHE}({spec})"), bare: spec.to_string() },
        })
    }
}

/// The device below a cache.
fn below(spec: &Spec) -> Option<String> {
    let inner = spec.args().iter().find(|arg| spec.name() == CACHE && arg.name().is_none())?;
    Some(match inner.value() {
        ArgValue::Spec(inner) => inner.to_string(),
        ArgValue::Word(word) => word.to_string(),
    })
}

fn open(
    ways: &Ways,
    raw: Option<&OpenDisk>,
    mode: Mode,
    rung: &'static Rung,
) -> Result<Opened, ParallelReadError> {
    let open = |text: &str| registry::open(text, Access::read()).map(Opened::Device).map_err(failed);
    match (mode, raw) {
        (Mode::Normal, _) => open(&ways.cached),
        (Mode::Raw, Some(disk)) => {
            let ladder = Ladder::open(rung.switches, DiskSettings::default(), disk);
            ladder.map(Opened::Ladder).map_err(of_raw)
        }
        (Mode::Direct | Mode::Raw, _) => open(&ways.bare),
    }
}

fn failed(error: OpenError) -> ParallelReadError {
    match error.is_usage() {
        true => ParallelReadError::Option(error.to_string()),
        false => ParallelReadError::Open(error.into()),
    }
}

fn of_raw(error: DmError) -> ParallelReadError {
    match error {
        DmError::Option(message) => ParallelReadError::Option(format!("mode raw: {message}")),
        error => ParallelReadError::Open(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_get_a_cache_or_lose_it() {
        for (text, cached, bare) in [
            ("/dev/sdb", "cache(file(/dev/sdb))", "file(/dev/sdb)"),
            ("ram(1M)", "cache(ram(1M))", "ram(1M)"),
            ("cache(size=1M, a.img)", "cache(size=1M, a.img)", "a.img"),
            ("cache(raid0(a.img, b.img))", "cache(raid0(a.img, b.img))", "raid0(a.img, b.img)"),
        ] {
            let ways = Ways::new(text).unwrap();
            assert_eq!((ways.cached.as_str(), ways.bare.as_str()), (cached, bare));
        }
    }
}
