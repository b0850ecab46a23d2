//! Locks and atomics in one place, so that a model checker can replace them.

pub(crate) use platter_stack::sync::{Mailbox, Mutex, lock, lock_unbroken};
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
