//! The threads that block in system calls so that the program's threads need not.

use super::calls::set_ioprio;
use platter_block::bio::IoPrio;
use std::collections::VecDeque;
use std::io;
#[cfg(test)]
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Stack of a worker: it makes one system call at a time.
const STACK_BYTES: usize = 64 << 10;

/// A channel as the threads see it.
pub(super) trait Work: Send + Sync {
    /// Carries out the request in a slot on the calling thread, after `set_ioprio` has given the thread the right
    /// priority.
    fn run(&self, slot: u32, set_ioprio: &mut dyn FnMut(IoPrio) -> i64);
}

/// A request of a channel, waiting for a thread.
struct Job {
    channel: Arc<dyn Work>,
    slot: u32,
}

#[derive(Default)]
struct WorkersState {
    jobs: VecDeque<Job>,
    idle: usize,
    /// Threads that were started and have not looked for jobs yet.
    starting: usize,
    stop: bool,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<WorkersState>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WorkersState> {
        // No code that can panic runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bounded pool of threads for the channels of one disk. Threads start when there are more jobs than idle threads,
/// and are joined when the pool is dropped.
pub(in super::super) struct Workers {
    shared: Arc<Shared>,
    most: usize,
    /// For tests: how often the system will refuse a thread.
    #[cfg(test)]
    pub(super) refusals: AtomicU32,
}

impl Workers {
    /// A pool of at most `most` threads (at least one); none is started yet.
    pub(in super::super) fn new(most: usize) -> Workers {
        Workers {
            shared: Arc::default(),
            most: most.max(1),
            #[cfg(test)]
            refusals: AtomicU32::new(0),
        }
    }

    /// Hands the requests to the threads. `false`: there is no thread and the system has none to give at the moment;
    /// the requests wait, and [`start`](Workers::start) must be called again.
    pub(super) fn push(&self, channel: &Arc<dyn Work>, slots: impl Iterator<Item = u32>) -> bool {
        let mut state = self.shared.lock();
        state.jobs.extend(slots.map(|slot| Job { channel: Arc::clone(channel), slot }));
        self.serve(state)
    }

    /// Starts threads for waiting requests if there are none; the result is that of [`push`](Workers::push).
    pub(super) fn start(&self) -> bool {
        self.serve(self.shared.lock())
    }

    /// Takes back a request that no thread has started.
    pub(super) fn take_back(&self, channel: &Arc<dyn Work>, slot: u32) -> bool {
        let mut state = self.shared.lock();
        let is_it = |job: &Job| job.slot == slot && Arc::ptr_eq(&job.channel, channel);
        let job = state.jobs.iter().position(is_it).and_then(|at| state.jobs.remove(at));
        drop(state);
        job.is_some()
    }

    /// Starts and wakes threads for the waiting requests.
    fn serve(&self, mut state: MutexGuard<'_, WorkersState>) -> bool {
        let wanted = state.jobs.len();
        while state.idle + state.starting < wanted && state.workers.len() < self.most {
            let Ok(worker) = self.spawn() else { break };
            state.workers.push(worker);
            state.starting += 1;
        }
        let (wake, served) = (wanted.min(state.idle), wanted == 0 || !state.workers.is_empty());
        drop(state);
        (0..wake).for_each(|_| self.shared.wake.notify_one());
        served
    }

    fn spawn(&self) -> io::Result<JoinHandle<()>> {
        #[cfg(test)]
        if self.refusals.load(Ordering::Relaxed) > 0 {
            self.refusals.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name("platter-io".into()).stack_size(STACK_BYTES);
        builder.spawn(move || work(&shared))
    }
}

fn work(shared: &Shared) {
    let mut ioprio = IoPrio::NONE;
    let mut state = shared.lock();
    state.starting -= 1;
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job.channel.run(job.slot, &mut |wanted| match wanted == ioprio {
                true => 0,
                false => {
                    let result = set_ioprio(wanted);
                    if result == 0 {
                        ioprio = wanted;
                    }
                    result
                }
            });
            drop(job);
            state = shared.lock();
        } else if state.stop {
            return;
        } else {
            state.idle += 1;
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stop = true;
        let workers = std::mem::take(&mut state.workers);
        drop(state);
        self.shared.wake.notify_all();
        for worker in workers {
            // The panic of a worker has been reported by the panic hook.
            let _ = worker.join();
        }
    }
}
