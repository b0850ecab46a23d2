//! The thread that looks after a block device: changes of its size, and its end.

use super::abi::feature;
use super::attach::{Command, Control};
use super::control_ring::{ControlRing, flush_buffers};
use super::params;
use super::shared::Shared;
use super::worker::KIND;
use crate::events::Event;
use platter_block::event::{DeviceEvent, Watcher};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often to look whether the block device is still in use; the kernel does not report its end.
const RETRY: Duration = Duration::from_millis(20);

/// Something to do.
pub(super) enum Job {
    /// The device has changed its size.
    Resized,
    /// An operator removes the block device.
    Disconnect,
    /// The export ends. Users of the block device have until then to close it.
    Stop { until: Instant, reply: Sender<Result<(), String>> },
}

/// Passes on changes of the device's size.
pub(super) struct Resizes(pub(super) Sender<Job>);

impl Watcher for Resizes {
    fn event(&self, event: &DeviceEvent) {
        if matches!(event, DeviceEvent::Resized { .. }) {
            // The block device is gone if nothing receives it.
            let _ = self.0.send(Job::Resized);
        }
    }
}

/// Path of a block device.
pub(super) fn path(id: u32) -> String {
    format!("/dev/ublkb{id}")
}

/// A block device, from its start on.
pub(super) struct Manager {
    pub(super) id: u32,
    /// The flags that it has.
    pub(super) flags: u64,
    /// It is left to the next server.
    pub(super) keep: bool,
    /// Keeps it open until its end.
    pub(super) device: Option<Arc<OwnedFd>>,
    pub(super) workers: Vec<JoinHandle<()>>,
    pub(super) shared: Arc<Shared>,
}

impl Manager {
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            match job {
                Job::Resized => self.resize(),
                Job::Disconnect => {
                    if let Err(why) = self.remove(Instant::now()) {
                        self.report(&why);
                    }
                    return;
                }
                Job::Stop { until, reply } => {
                    let result = match self.keep {
                        true => self.leave(),
                        false => self.remove(until),
                    };
                    // The receiver is gone after its deadline.
                    let _ = reply.send(result);
                    return;
                }
            }
        }
    }

    fn report(&self, why: &str) {
        (self.shared.log)(&Event::Impaired { export: KIND, why });
    }

    fn resize(&self) {
        let path = path(self.id);
        let changed = match params::of(&self.shared.served) {
            Err(error) => Err(error.to_string()),
            Ok(_) if self.flags & feature::UPDATE_SIZE == 0 => {
                let size = self.shared.served.device().size();
                Err(format!(
                    "the device has {size} bytes now; Linux 6.16 or a restart of the export is needed"
                ))
            }
            Ok(params) => ControlRing::open().map_err(|error| error.to_string()).and_then(|mut control| {
                let changed = control.command(Command::UpdateSize, self.id, params.sectors);
                changed.map_err(|error| error.to_string())
            }),
        };
        if let Err(why) = changed {
            self.report(&format!("{path} keeps its size: {why}"));
        }
    }

    fn join(&mut self) {
        for worker in self.workers.drain(..) {
            // A thread that panicked has ended too.
            let _ = worker.join();
        }
    }

    /// Ends the workers. I/O waits for the next server.
    fn leave(&mut self) -> Result<(), String> {
        self.shared.hand_on();
        for worker in self.workers.drain(..) {
            worker.join().map_err(|_| "a thread of it has panicked".to_owned())?;
        }
        Ok(())
    }

    /// Removes the block device, once nothing has claimed it any more or the time has come.
    fn remove(&mut self, until: Instant) -> Result<(), String> {
        let path = path(self.id);
        let mut in_use = false;
        loop {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::EXCL;
            match rustix::fs::open(&path, flags, Mode::empty()) {
                Err(Errno::BUSY) if Instant::now() < until => std::thread::sleep(RETRY),
                Err(Errno::BUSY) => {
                    in_use = true;
                    break;
                }
                _ => break,
            }
        }
        // I/O that begins after the next command fails, also that of the kernel's cache.
        if let Ok(block) = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            // What could not be written is reported to those that wrote it.
            let _ = flush_buffers(&block);
        }
        let mut control = ControlRing::open().map_err(|error| error.to_string())?;
        let cannot = |error: Errno| format!("cannot remove {path}: {error}");
        control.command(Command::Stop, self.id, 0).map_err(cannot)?;
        self.join();
        // The next command waits until all that is open of it is closed.
        self.device = None;
        control.command(Command::Delete, self.id, 0).map_err(cannot)?;
        if in_use {
            return Err("it was mounted or a part of another device; its I/O fails from now on".to_owned());
        }
        Ok(())
    }
}
