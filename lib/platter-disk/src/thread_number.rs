//! Small numbers for threads, to give each thread a lane of its own as long as there are enough lanes.

use crate::sync::{Mutex, lock};

/// By number: whether a living thread has it.
static TAKEN: Mutex<Vec<bool>> = Mutex::new(Vec::new());

/// The number of one thread, free again when the thread ends.
struct Number(usize);

impl Number {
    fn take() -> Number {
        let mut taken = lock(&TAKEN);
        let number = taken.iter().position(|taken| !taken).unwrap_or_else(|| {
            taken.push(false);
            taken.len() - 1
        });
        taken[number] = true;
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        lock(&TAKEN)[self.0] = false;
    }
}

thread_local! {
    static NUMBER: Number = Number::take();
}

/// The smallest number that no other thread had when this thread asked first; 0 for a thread that is ending.
#[inline]
pub(crate) fn thread_number() -> usize {
    NUMBER.try_with(|number| number.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::thread_number;
    use std::collections::HashSet;
    use std::sync::Barrier;

    /// Other tests of this process take numbers too.
    #[test]
    fn living_threads_have_different_numbers_that_stay_theirs() {
        let barrier = Barrier::new(8);
        let numbers: Vec<usize> = std::thread::scope(|scope| {
            let number = || {
                let number = thread_number();
                barrier.wait();
                assert_eq!(thread_number(), number);
                number
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(number)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 8);
    }

    #[test]
    fn numbers_of_ended_threads_are_used_again() {
        // Each thread has ended before the next one starts, so their numbers do not grow with their count.
        let most = (0..200).map(|_| std::thread::spawn(thread_number).join().unwrap()).max();
        assert!(most < Some(100), "{most:?}");
    }
}
