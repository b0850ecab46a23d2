//! Lists that threads hand to another.

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What threads leave for the one that [takes](Mailbox::take) it. Whether there is anything is known without the lock.
///
/// It wakes no thread: one that posts to a taker that may sleep rings afterwards, which it need not if the list was not empty.
pub struct Mailbox<T> {
    list: Mutex<Vec<T>>,
    /// Its length. Written under the lock.
    count: AtomicU64,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox { list: Mutex::new(Vec::new()), count: AtomicU64::new(0) }
    }
}

impl<T> Mailbox<T> {
    /// Adds entries in order. Returns how many there are then.
    pub fn post(&self, entries: impl IntoIterator<Item = T>) -> usize {
        self.with(|list| {
            list.extend(entries);
            list.len()
        })
    }

    /// Changes the list in another way, with its lock held.
    pub fn with<R>(&self, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let mut list = lock(&self.list);
        let result = change(&mut list);
        self.count.store(list.len() as u64, Ordering::SeqCst);
        result
    }

    /// The number of entries at this moment.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst) as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves all entries to the end of `out`. Without any this takes no lock.
    pub fn take(&self, out: &mut Vec<T>) {
        self.take_with(out, |_| {});
    }

    /// The same. `before` is told of their number while they still count as being here.
    pub fn take_with(&self, out: &mut Vec<T>, before: impl FnOnce(usize)) {
        if !self.is_empty() {
            self.with(|list| {
                before(list.len());
                match out.is_empty() {
                    true => std::mem::swap(out, list),
                    false => out.append(list),
                }
            });
        }
    }
}
