//! Threads that make calls which block.

use crate::waiter::Waiter;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// A call that blocks.
pub(crate) trait Call: Send + 'static {
    /// Makes it.
    fn run(&mut self);
}

struct Queue<C> {
    waiting: VecDeque<C>,
    done: Vec<C>,
    idle: usize,
    is_closed: bool,
}

struct Inner<C> {
    queue: Mutex<Queue<C>>,
    work: Condvar,
    waiter: Arc<Waiter>,
}

impl<C> Inner<C> {
    fn lock(&self) -> MutexGuard<'_, Queue<C>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bounded number of threads, started when there are calls for them.
pub(crate) struct Workers<C: Call> {
    inner: Arc<Inner<C>>,
    threads: Vec<JoinHandle<()>>,
    most: usize,
}

impl<C: Call> Workers<C> {
    /// The bell of `waiter` is rung when a call has ended and none that ended before waits to be collected.
    pub(crate) fn new(most: usize, waiter: Arc<Waiter>) -> Workers<C> {
        let queue = Queue { waiting: VecDeque::new(), done: Vec::new(), idle: 0, is_closed: false };
        let inner = Inner { queue: Mutex::new(queue), work: Condvar::new(), waiter };
        Workers { inner: Arc::new(inner), threads: Vec::new(), most }
    }

    /// Hands a call over. It comes back if there is no thread and none can be started.
    pub(crate) fn start(&mut self, call: C) -> Result<(), C> {
        let mut queue = self.inner.lock();
        queue.waiting.push_back(call);
        if queue.idle >= queue.waiting.len() || self.threads.len() >= self.most {
            drop(queue);
            self.inner.work.notify_one();
            return Ok(());
        }
        drop(queue);
        let inner = Arc::clone(&self.inner);
        match Builder::new().name("platter-calls".to_owned()).spawn(move || serve(&inner)) {
            Ok(thread) => self.threads.push(thread),
            Err(_) if self.threads.is_empty() => {
                // No thread has seen it.
                return self.inner.lock().waiting.pop_back().map_or(Ok(()), Err);
            }
            Err(_) => self.inner.work.notify_one(),
        }
        Ok(())
    }

    /// Takes the calls that have ended.
    pub(crate) fn collect(&mut self, done: &mut Vec<C>) {
        let mut queue = self.inner.lock();
        if !queue.done.is_empty() {
            // With the lock: the next call that ends rings again.
            self.inner.waiter.bell.clear();
            done.append(&mut queue.done);
        }
    }
}

fn serve<C: Call>(inner: &Inner<C>) {
    let mut queue = inner.lock();
    loop {
        let Some(mut call) = queue.waiting.pop_front() else {
            if queue.is_closed {
                return;
            }
            queue.idle += 1;
            queue = inner.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
            continue;
        };
        drop(queue);
        call.run();
        queue = inner.lock();
        if queue.done.is_empty() {
            inner.waiter.bell.ring();
        }
        queue.done.push(call);
    }
}

impl<C: Call> Drop for Workers<C> {
    /// Waits until all calls have ended, because they use memory that belongs to others.
    fn drop(&mut self) {
        self.inner.lock().is_closed = true;
        self.inner.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Square(u64);

    impl Call for Square {
        fn run(&mut self) {
            self.0 *= self.0;
        }
    }

    #[test]
    fn every_call_is_made_once_and_comes_back() {
        let waiter = Arc::new(Waiter::new().unwrap());
        let mut workers = Workers::new(3, Arc::clone(&waiter));
        let mut done = Vec::new();
        for round in 0..50 {
            (0..20).for_each(|n| assert!(workers.start(Square(n + round)).is_ok()));
            while done.len() < 20 {
                platter_wait::wait_readable(waiter.descriptor(), None);
                workers.collect(&mut done);
            }
            let mut found: Vec<_> = done.drain(..).map(|square| square.0).collect();
            found.sort_unstable();
            let wanted: Vec<_> = (0..20).map(|n| (n + round) * (n + round)).collect();
            assert_eq!(found, wanted);
        }
        assert!(workers.threads.len() <= 3);
    }
}
