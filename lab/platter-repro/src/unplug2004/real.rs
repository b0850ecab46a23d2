//! The same on this machine: queues of null devices, a thread for each processor, and counts of what the list of plugged queues
//! costs. Times are not taken.

use super::system::{BYTES, Plugs};
use crate::ReproError;
use platter_block::bio::Bio;
use platter_block::driver::{Completion, Geometry};
use platter_block::limits::Limits;
use platter_block::queue::{SchedQueue, Settings};
use platter_block::time::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Devices.
pub(super) const DEVICES: usize = 1000;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ios: u64,
    /// Acquisitions of the lock of the list, and those of them that had to wait.
    pub(super) acquisitions: u64,
    pub(super) contended: u64,
    /// Requests that a thread has started for another one.
    pub(super) foreign: u64,
}

struct Device {
    queue: SchedQueue,
    done: Vec<Bio>,
    owner: usize,
    /// Bios that have completed.
    completed: u64,
}

struct Shared {
    devices: Vec<Mutex<Device>>,
    list: Mutex<Vec<usize>>,
    acquisitions: AtomicU64,
    contended: AtomicU64,
    foreign: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    fn list(&self) -> MutexGuard<'_, Vec<usize>> {
        self.acquisitions.fetch_add(1, Ordering::Relaxed);
        match self.list.try_lock() {
            Ok(list) => list,
            Err(_) => {
                self.contended.fetch_add(1, Ordering::Relaxed);
                self.list.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    fn device(&self, at: usize) -> MutexGuard<'_, Device> {
        self.devices[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a queue. A null device completes its requests at once.
    fn unplug(&self, thread: usize, at: usize) {
        let mut device = self.device(at);
        let Device { queue, done, owner, completed } = &mut *device;
        queue.unplug_for_waiter(Time(0));
        while let Some(tag) = queue.next(Time(0)) {
            let completion = Completion { tag, result: BYTES as i64 };
            let is_sound = queue.complete(Time(0), completion).is_ok();
            self.failed.fetch_or(!is_sound, Ordering::Relaxed);
            self.foreign.fetch_add(u64::from(*owner != thread), Ordering::Relaxed);
            *completed += 1;
        }
        queue.take_done(done);
    }

    /// A read of one of the thread's devices, up to its completion.
    fn read(&self, plugs: Plugs, thread: usize, at: usize, pos: u64) {
        let mut device = self.device(at);
        let before = device.completed;
        let bio = match device.done.pop() {
            Some(mut bio) => {
                bio.rewind(pos, BYTES);
                Ok(bio)
            }
            None => Bio::read(pos, vec![0u8; BYTES as usize]),
        };
        match bio {
            Ok(bio) => device.queue.submit(Time(0), bio),
            Err(_) => return self.failed.store(true, Ordering::Relaxed),
        }
        if plugs == Plugs::Listed {
            self.list().push(at);
        }
        drop(device);
        loop {
            match plugs {
                Plugs::PerDevice => self.unplug(thread, at),
                Plugs::Listed => {
                    let taken = std::mem::take(&mut *self.list());
                    taken.into_iter().for_each(|at| self.unplug(thread, at));
                }
            }
            // Another thread may have it in the list that it has taken.
            if self.device(at).completed > before || self.failed.load(Ordering::Relaxed) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Reads each device so often, on so many threads.
pub(super) fn count(
    plugs: Plugs,
    threads: usize,
    reads: u64,
    cancel: &AtomicBool,
) -> Result<Counts, ReproError> {
    let size = DEVICES as u64 * BYTES;
    let device = |at| {
        let elevator = platter_elevators::by_name("deadline").map(|row| (row.make)());
        let geometry = Geometry::new(size, Limits::unlimited(512));
        let queue = SchedQueue::new(geometry, Settings::default(), elevator, Arc::default());
        Mutex::new(Device { queue, done: Vec::new(), owner: at % threads, completed: 0 })
    };
    let shared = Shared {
        devices: (0..DEVICES).map(device).collect(),
        list: Mutex::default(),
        acquisitions: AtomicU64::new(0),
        contended: AtomicU64::new(0),
        foreign: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let shared = &shared;
            scope.spawn(move || {
                for read in 0..reads {
                    for at in (thread..DEVICES).step_by(threads) {
                        if !cancel.load(Ordering::Relaxed) {
                            shared.read(plugs, thread, at, read % DEVICES as u64 * BYTES);
                        }
                    }
                }
            });
        }
    });
    if cancel.load(Ordering::Relaxed) {
        return Err(ReproError::Interrupted);
    }
    if shared.failed.load(Ordering::Relaxed) {
        return Err(ReproError::Stack("an I/O of a null device failed".to_owned()));
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(Counts {
        ios: reads * DEVICES as u64,
        acquisitions: count(&shared.acquisitions),
        contended: count(&shared.contended),
        foreign: count(&shared.foreign),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_list_lets_threads_start_requests_of_others() {
        let never = AtomicBool::new(false);
        let listed = count(Plugs::Listed, 2, 4, &never).unwrap();
        assert_eq!(listed.ios, 4000);
        // A push and at least one look at the list for each I/O.
        assert!(listed.acquisitions >= 2 * listed.ios, "{listed:?}");
        let own = count(Plugs::PerDevice, 2, 4, &never).unwrap();
        assert_eq!(own, Counts { ios: 4000, acquisitions: 0, contended: 0, foreign: 0 });
    }

    #[test]
    fn one_thread_starts_nothing_for_another() {
        let never = AtomicBool::new(false);
        let listed = count(Plugs::Listed, 1, 2, &never).unwrap();
        assert_eq!((listed.acquisitions, listed.contended, listed.foreign), (2 * listed.ios, 0, 0));
    }
}
