//! Parallel simulations, each in a world of its own, so that results do not depend on their number.

use super::{Hooks, Options, Progress, ReproError};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Runs `work` for each item on the threads of `options`; results in the order of the items.
///
/// # Errors
/// The first that failed, or an interruption.
pub(super) fn run_all<T: Sync, R: Send>(
    options: &Options,
    hooks: Hooks<'_>,
    items: &[T],
    work: impl Fn(&T, &AtomicBool) -> Result<R, ReproError> + Sync,
) -> Result<Vec<R>, ReproError> {
    let (next, cancel) = (AtomicUsize::new(0), hooks.cancel);
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let mut failure = None;
    let (send, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, items.len().max(1)) {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = if cancel.load(Ordering::Relaxed) {
                        Err(ReproError::Interrupted)
                    } else {
                        work(item, cancel)
                    };
                    if send.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (before, (index, result)) in finished.into_iter().enumerate() {
            match result {
                Ok(result) => results[index] = Some(result),
                Err(error) => {
                    // No further one is begun.
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
            (hooks.progress)(Progress { done: before + 1, total: items.len() });
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(results.into_iter().flatten().collect()),
    }
}
