//! Writes of files that were opened with `O_DSYNC` are durable.

#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "fuse/rig.rs"]
mod rig;

use platter_block::bio::{Flags, Op};
use platter_block::fault::Fault;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_stack::filter::{BioView, Filter, Filtered};
use rig::{Mounted, SIZE};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts writes that nothing has made durable.
#[derive(Clone, Default)]
struct Volatile(Arc<AtomicU64>);

impl Filter for Volatile {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        match bio.op() {
            Op::Flush => self.0.store(0, Ordering::Relaxed),
            Op::Write if !bio.flags().contains(Flags::FUA) => {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(now)
    }
}

/// How many writes of each kind of file are not durable when they return: `O_DSYNC`, `O_SYNC`, neither.
fn volatile_writes(options: &Options) -> Option<[u64; 3]> {
    let count = Volatile::default();
    let ram = Device::ram(SIZE).unwrap();
    let layer = Filtered::new("volatile", "", Arc::clone(ram.backend()), count.clone());
    let served = Served::new("disk", Device::new(Arc::new(layer))).unwrap();
    let mounted = Mounted::new(vec![served], options)?;
    let flags = [rustix::fs::OFlags::DSYNC, rustix::fs::OFlags::SYNC, rustix::fs::OFlags::empty()];
    Some(flags.map(|flags| {
        count.0.store(0, Ordering::Relaxed);
        let flags = flags.bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(mounted.path()).unwrap();
        file.write_all_at(&[1; 4096], 8192).unwrap();
        file.write_all_at(&[2; 100], 50).unwrap();
        count.0.load(Ordering::Relaxed)
    }))
}

#[test]
fn writes_of_files_opened_with_dsync_are_durable() {
    let mut cached = Options::default();
    cached.kernel_cache = true;
    for options in [Options::default(), cached] {
        let Some([dsync, sync, plain]) = volatile_writes(&options) else { return };
        assert_eq!((dsync, sync), (0, 0), "{options:?}");
        assert!(plain >= 2);
    }
}
