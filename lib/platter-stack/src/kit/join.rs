//! Waiting for several things at once, and leaving an I/O behind.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Waits for I/O of a layer, unless `is_left` says that it is not to be waited for any longer; who changes that calls
/// [`Below::wake_at`](super::Below::wake_at).
///
/// A task may end while such an I/O is with its device. So the memory of that I/O is one that it owns, or has a share of.
///
/// # Errors
/// It was left: the I/O, which is to be awaited if the device must not be used again before.
pub async fn unless<F: Future + Unpin>(mut io: F, is_left: impl Fn() -> bool) -> Result<F::Output, F> {
    let over = poll_fn(|context| match Pin::new(&mut io).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if is_left() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    over.await.ok_or(io)
}

/// Runs several futures side by side until all are over. Returns their results in the same order.
pub async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + Send>>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut futures: Vec<_> = futures.into_iter().map(Some).collect();
    poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if let Some(running) = future
                && let Poll::Ready(output) = running.as_mut().poll(context)
            {
                (*result, *future) = (Some(output), None);
            }
        }
        if futures.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}
