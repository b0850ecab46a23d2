//! What job files refer to on this machine.

use platter_jobs::Surroundings;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Most bytes of a file: more than the parser takes.
const MOST: u64 = 32 << 20;

/// Files, environment and hardware.
pub(super) struct Machine;

impl Surroundings for Machine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match path == Path::new("-") {
            true => io::stdin().lock().take(MOST).read_to_end(&mut bytes)?,
            false => File::open(path)?.take(MOST).read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    }

    fn variable(&self, name: &str) -> Option<String> {
        // The name may be anything that a file has between braces.
        let usable = !name.is_empty() && !name.contains(['=', '\0']);
        usable.then(|| std::env::var_os(name))?.map(|value| value.to_string_lossy().into_owned())
    }

    fn is_device(&self, path: &Path) -> bool {
        let kind = fs::metadata(path).map(|found| found.file_type());
        kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device())
    }

    fn page_size(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn memory_mib(&self) -> u64 {
        // Kernels before 2.3.23 counted in bytes, without the unit.
        let info = rustix::system::sysinfo();
        let unit = u64::from(info.mem_unit.max(1));
        (info.totalram as u64).saturating_mul(unit) >> 20
    }

    fn processors(&self) -> u64 {
        std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
    }
}
