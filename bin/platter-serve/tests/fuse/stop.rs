//! The end of a server one of whose devices does not answer.

use crate::rig::{Mounted, SIZE};
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_stack::filter::{BioView, Filter, Filtered};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Reads that hang end after this time, so that the test ends also where requests cannot be aborted.
const HANG: Duration = Duration::from_secs(30);

/// Counts reads, and writes that were not flushed.
#[derive(Clone, Default)]
struct Watched {
    hangs: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    unflushed: Arc<AtomicU64>,
}

impl Filter for Watched {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        match bio.op() {
            Op::Read => {
                self.reads.fetch_add(1, Ordering::Relaxed);
                if self.hangs.load(Ordering::Relaxed) {
                    return Ok(now + Span::from_secs(HANG.as_secs()));
                }
            }
            Op::Write => {
                self.unflushed.fetch_add(1, Ordering::Relaxed);
            }
            Op::Flush => self.unflushed.store(0, Ordering::Relaxed),
            _ => {}
        }
        Ok(now)
    }
}

fn served(name: &str, watched: &Watched) -> Served {
    let ram = Device::ram(SIZE).unwrap();
    let layer = Filtered::new("watched", "", Arc::clone(ram.backend()), watched.clone());
    Served::new(name, Device::new(Arc::new(layer))).unwrap()
}

/// The reader is a process of its own: a thread of this one that waits for this one's answer could not be killed.
#[test]
fn a_device_that_does_not_answer_holds_up_neither_the_end_nor_the_flush_of_another() {
    let (hanging, healthy) = (Watched::default(), Watched::default());
    let devices = vec![served("hangs", &hanging), served("works", &healthy)];
    let Some(mut mounted) = Mounted::new(devices, &Options::default()) else { return };
    let path = |name: &str| mounted.directory.path().join(name);
    let file = OpenOptions::new().write(true).open(path("works")).unwrap();
    file.write_all_at(&[1; 4096], 8192).unwrap();
    drop(file);
    assert_eq!(healthy.unflushed.load(Ordering::Relaxed), 1);
    hanging.hangs.store(true, Ordering::Relaxed);
    let input = format!("if={}", path("hangs").display());
    let mut command = Command::new("dd");
    command.args([input.as_str(), "of=/dev/null", "bs=4096", "count=1"]).stderr(Stdio::null());
    let mut reader = match command.spawn() {
        Ok(reader) => reader,
        Err(error) => return eprintln!("skipped: dd: {error}"),
    };
    while hanging.reads.load(Ordering::Relaxed) == 0 {
        assert!(reader.try_wait().unwrap().is_none(), "it has read nothing");
        thread::yield_now();
    }
    let problems = mounted.stop(Duration::from_millis(200)).unwrap_err();
    assert!(problems.iter().any(|text| text.contains("1 requests are not answered")), "{problems:?}");
    assert!(problems.iter().all(|text| !text.contains("flush")), "{problems:?}");
    assert_eq!(healthy.unflushed.load(Ordering::Relaxed), 0);
    reader.wait().unwrap();
}
