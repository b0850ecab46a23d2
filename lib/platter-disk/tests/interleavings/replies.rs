//! Models of the replies through which futures get their completed bios. The checker reports two threads that access one
//! bio at the same time.

use crate::check;
use crate::reply::{Reply, Returned};
use crate::sync::{Mutex, lock};
use loom::thread;
use platter_block::bio::Bio;
use std::sync::Arc;

fn bio(token: u64) -> Bio {
    let mut bio = Bio::flush();
    bio.set_token(token);
    bio
}

/// The lane completes two I/Os in turn in the same entry of its table, while the future that waits for the first takes
/// its bio and returns the entry.
#[test]
fn a_reply_is_used_again_only_when_its_future_has_returned_it() {
    check(|| {
        let shared = Arc::new((Reply::new(0), Returned::new()));
        let future = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (reply, returned) = &*shared;
                while !reply.is_full() {
                    thread::yield_now();
                }
                let first = reply.take().expect("only this thread takes it");
                assert_eq!(first.token(), 1);
                assert!(reply.put(bio(9)).is_ok());
                returned.push(reply);
            })
        };
        let (reply, returned) = &*shared;
        assert!(reply.put(bio(1)).is_ok());
        if returned.take_all() == Some(0) {
            assert_eq!(reply.take().map(|bio| bio.token()), Some(9));
            assert!(reply.put(bio(2)).is_ok());
            assert_eq!(reply.take().map(|bio| bio.token()), Some(2));
        }
        future.join().unwrap();
    });
}

/// Two futures return their entries while the lane takes returned ones: none is lost, and none comes twice.
#[test]
fn every_returned_reply_is_taken_once() {
    check(|| {
        let shared = Arc::new(([Reply::new(0), Reply::new(1)], Returned::new(), Mutex::new(Vec::new())));
        let take = |shared: &([Reply; 2], Returned, Mutex<Vec<u32>>)| {
            let (replies, returned, seen) = shared;
            let mut next = returned.take_all();
            while let Some(index) = next {
                lock(seen).push(index);
                next = replies[index as usize].next();
            }
        };
        let futures = [0, 1].map(|index: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.1.push(&shared.0[index]))
        });
        take(&shared);
        futures.into_iter().for_each(|future| future.join().unwrap());
        take(&shared);
        lock(&shared.2).sort_unstable();
        assert_eq!(*lock(&shared.2), [0, 1]);
    });
}

/// A reply has room for one bio: the first one that arrives.
#[test]
fn two_threads_never_take_the_same_bio() {
    check(|| {
        let reply = Arc::new(Reply::new(0));
        let other = {
            let reply = Arc::clone(&reply);
            thread::spawn(move || {
                let _ = reply.put(bio(1));
                u32::from(reply.take().is_some())
            })
        };
        let _ = reply.put(bio(2));
        let mine = u32::from(reply.take().is_some());
        let theirs = other.join().unwrap();
        let left = u32::from(reply.take().is_some());
        assert!((1..=2).contains(&(mine + theirs + left)));
    });
}
