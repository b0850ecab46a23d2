//! A bare executor: a list of ready tasks, and a thread that parks while there are none.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;

type Task = Pin<Box<dyn Future<Output = ()>>>;

struct Shared {
    ready: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct TaskWaker {
    shared: Arc<Shared>,
    index: usize,
    is_queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.shared.ready.lock().expect("no panic with the lock held").push_back(self.index);
            self.shared.thread.unpark();
        }
    }
}

/// Runs the tasks to their end.
pub fn run(tasks: impl Iterator<Item = Task>) {
    let shared = Arc::new(Shared { ready: Mutex::default(), thread: std::thread::current() });
    let mut tasks: Vec<_> = tasks
        .enumerate()
        .map(|(index, task)| {
            let waker = TaskWaker { shared: Arc::clone(&shared), index, is_queued: AtomicBool::new(false) };
            let waker = Arc::new(waker);
            waker.wake_by_ref();
            (Some(task), waker)
        })
        .collect();
    let mut left = tasks.len();
    while left > 0 {
        let next = shared.ready.lock().expect("no panic with the lock held").pop_front();
        let Some(index) = next else {
            std::thread::park();
            continue;
        };
        let (task, waker) = &mut tasks[index];
        waker.is_queued.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(waker));
        if let Some(running) = task
            && running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            *task = None;
            left -= 1;
        }
    }
}
