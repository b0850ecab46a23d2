//! One device of each kind.

use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::drivers::memory::{Memory, MemoryChannel};
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::open::DiskOptions;

pub(crate) const SIZE: u64 = 4 << 20;
/// A request over this block fails on the disk that has a bad one.
pub(crate) const BAD: u64 = SIZE - 4096;

pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) handle: Device,
    /// The block at [`BAD`] cannot be read.
    pub(crate) is_flawed: bool,
    file: Option<tempfile::NamedTempFile>,
}

impl Kind {
    /// Every elevator on disks in memory. Drivers of files have lanes of their own without one, and a lane that is shared with
    /// one, whichever it is.
    pub(crate) fn elevators(&self) -> Vec<&'static str> {
        platter_disk::elevators::register_table(platter_elevators::TABLE);
        let table = platter_elevators::TABLE.iter().map(|row| row.name);
        let table = table.filter(|name| self.file.is_none() || *name == "deadline");
        ["none"].into_iter().chain(table).collect()
    }
}

pub(crate) fn all() -> Vec<Kind> {
    let memory = |name: &str, handle, is_flawed| Kind { name: name.into(), handle, is_flawed, file: None };
    let mut all = vec![
        memory("null", Device::null(SIZE).unwrap(), false),
        memory("ram", Device::ram(SIZE).unwrap(), false),
        memory("flawed ram", flawed(), true),
    ];
    for driver in FileDriver::ALL {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(SIZE).unwrap();
        let mut options = DiskOptions::read_write();
        options.file.driver = Choice::Only(driver);
        match Device::open(file.path(), options) {
            Ok(handle) => {
                all.push(Kind { name: driver.to_string(), handle, is_flawed: false, file: Some(file) });
            }
            Err(error) => eprintln!("skipped {driver}: {error}"),
        }
    }
    all
}

/// Memory with small requests, an alignment requirement and a bad block.
struct Flawed(MemoryChannel, Vec<Completion>);

impl Driver for Flawed {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if request.pos <= BAD && request.pos + request.len > BAD {
            self.1.push(Completion { tag: request.tag, result: -5 });
            return true;
        }
        self.0.queue(now, request)
    }

    fn submit(&mut self, now: Time) {
        self.0.submit(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.1);
        self.0.reap(now, done);
    }
}

fn flawed() -> Device {
    let memory = Memory::new(SIZE).unwrap();
    let limits = Limits::unlimited(512).with_max_transfer(64 << 10).with_memory_align(512);
    let settings = DiskSettings::default();
    let depth = settings.queue.depth;
    let disk = FnDisk::new("flawed", Geometry::new(SIZE, limits), move |_| {
        Ok(Box::new(Flawed(memory.channel(depth), Vec::with_capacity(depth as usize))))
    });
    Device::from_disk(disk, settings, None).unwrap()
}
