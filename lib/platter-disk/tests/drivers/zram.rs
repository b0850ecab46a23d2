//! Compressed memory as a block device, for tests.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const CONTROL: &str = "/sys/class/zram-control";

/// A zram device; removed when it is dropped.
pub(crate) struct Zram {
    number: String,
    pub(crate) path: PathBuf,
}

impl Zram {
    /// A device of a size; without one, prints why not.
    pub(crate) fn new(size: u64) -> Option<Zram> {
        Zram::make(size).map_err(|error| println!("skipped, no zram device: {error}")).ok()
    }

    fn make(size: u64) -> io::Result<Zram> {
        // Reading adds a device, and gives its number.
        let number = fs::read_to_string(format!("{CONTROL}/hot_add"))?.trim().to_owned();
        let zram = Zram { path: PathBuf::from(format!("/dev/zram{number}")), number };
        fs::write(format!("/sys/block/zram{}/disksize", zram.number), size.to_string())?;
        match zram.path.exists() {
            true => Ok(zram),
            false => Err(io::Error::new(io::ErrorKind::NotFound, format!("no {}", zram.path.display()))),
        }
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // The kernel closes what a ring had open some time after the ring itself.
        let begin = Instant::now();
        while let Err(error) = fs::write(format!("{CONTROL}/hot_remove"), &self.number) {
            if error.kind() != io::ErrorKind::ResourceBusy || begin.elapsed() > Duration::from_secs(20) {
                println!("{} stays: {error}", self.path.display());
                break;
            }
            std::thread::yield_now();
        }
    }
}
