//! The threads that block in system calls so that nobody else has to.

use super::Channel;
use super::calls::set_ioprio;
use platter_block::bio::IoPrio;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Stack of a worker: it makes one system call at a time.
const STACK_BYTES: usize = 64 << 10;

/// A request of a channel, waiting for a thread.
struct Job {
    channel: Arc<Channel>,
    slot: u32,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    /// Threads that were started and have not looked at the jobs yet.
    starting: usize,
    stop: bool,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bounded pool of threads for the channels of one disk. Threads start when there is more to do than
/// threads that idle, and are joined when the pool is dropped.
pub(in super::super) struct Workers {
    shared: Arc<Shared>,
    most: usize,
}

impl Workers {
    /// A pool of at most `most` threads (at least one); none is started yet.
    pub(in super::super) fn new(most: usize) -> Workers {
        Workers { shared: Arc::default(), most: most.max(1) }
    }

    /// Hands the requests to the threads.
    pub(super) fn push(&self, channel: &Arc<Channel>, slots: impl Iterator<Item = u32>) {
        let mut state = self.shared.lock();
        state.jobs.extend(slots.map(|slot| Job { channel: Arc::clone(channel), slot }));
        let wanted = state.jobs.len();
        while state.idle + state.starting < wanted && state.workers.len() < self.most {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("platter-io".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || work(&shared)) {
                Ok(worker) => {
                    state.workers.push(worker);
                    state.starting += 1;
                }
                Err(error) if state.workers.is_empty() => {
                    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                    return give_up(state, errno);
                }
                Err(_) => break,
            }
        }
        let wake = wanted.min(state.idle);
        drop(state);
        (0..wake).for_each(|_| self.shared.wake.notify_one());
    }
}

/// Without any thread the requests fail with what kept the first one from starting.
fn give_up(mut state: MutexGuard<'_, State>, errno: i32) {
    let jobs = std::mem::take(&mut state.jobs);
    drop(state);
    jobs.into_iter().for_each(|job| job.channel.complete(job.slot, -i64::from(errno)));
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
            // A worker that panicked has been reported by the panic itself.
            let _ = worker.join();
        }
    }
}
