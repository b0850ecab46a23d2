//! A path whose block device is taken away.

use crate::item;
use crate::loops::{Loop, Shape};
use platter_block::backend::{Backend, Identity, LaneUse};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::fault::Error;
use platter_block::status::Value;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::drivers::{Choice, FileDisk, FileDriver, FileOptions};
use platter_disk::sys::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A block device that is said to be the same disk as another one.
struct Same(FileDisk);

impl Disk for Same {
    fn name(&self) -> Arc<str> {
        Disk::name(&self.0)
    }

    fn geometry(&self) -> Geometry {
        *self.0.geometry()
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        self.0.open_channel(lane_use)
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        Disk::current_size(&self.0)
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::Process(1))
    }
}

/// The kernel has no space on a device of size 0, which looks like a result of the disk.
#[test]
fn a_path_whose_block_device_has_vanished_is_left() {
    const SIZE: u64 = 4 << 20;
    for driver in FileDriver::ALL {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(SIZE).unwrap();
        let nodes = [0; 2].map(|_| Loop::over(file.path(), Shape { direct: true, ..Shape::PLAIN }));
        let [Some(one), Some(two)] = nodes else { return };
        let options = FileOptions::default().with_driver(Choice::Only(driver)).with_depth(8);
        let opened =
            |node: &Loop| FileDisk::new(OpenOptions::read_write().open(&node.path).unwrap(), options);
        let disks = [opened(&one), opened(&two)];
        let paths = disks.into_iter().map(|disk| {
            let disk = disk.inspect_err(|error| println!("skipped {driver}: {error}")).ok()?;
            let backend = DiskBackend::new(Same(disk), DiskSettings::default(), None).unwrap();
            Some(Arc::new(backend) as Arc<dyn Backend>)
        });
        let Some(paths) = paths.collect::<Option<Vec<_>>>() else { continue };
        let multipath = platter_stack::by_name("multipath").unwrap().make(&[], paths).unwrap();
        let device = Device::new(multipath);
        device.write_at(&[1; 4096], 0).unwrap();
        device.flush().unwrap();
        // Only one of the two takes over that the file is empty.
        let mut first = [0; 4096];
        file.as_file().read_exact_at(&mut first, 0).unwrap();
        file.as_file().set_len(0).unwrap();
        one.resize();
        file.as_file().set_len(SIZE).unwrap();
        file.as_file().write_all_at(&first, 0).unwrap();
        for at in 0..8 {
            device.write_at(&[2; 4096], 8192 + at * 4096).unwrap();
            device.write_zeroes(65536 + at * 4096, 4096).unwrap();
            device.flush().unwrap();
        }
        let mut data = [0; 4096];
        for at in 0..8 {
            device.read_at(&mut data, 8192 + at * 4096).unwrap();
            assert_eq!(data, [2; 4096], "{driver} {at}");
        }
        assert_eq!(item(&device, "paths up"), Value::Number(1), "{driver}");
    }
}
