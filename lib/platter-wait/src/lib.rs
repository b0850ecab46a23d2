//! How threads sleep and wake each other, for all crates of Platter that do I/O.
//!
//! - A [`Doorbell`] is rung by one thread and ends the sleep of another, the *waiter*. To ring an [`ArmedDoorbell`] costs
//!   a system call only if the waiter sleeps. A [`CallDoorbell`] is one that survives a program that closes all descriptors. A
//!   [`Parker`] has no descriptor, for a waiter that waits for nothing else.
//! - A [`Sleeper`] sleeps on a list of descriptors, an [`Epoll`] stands for several descriptors, and a [`PollSet`] is one that
//!   follows a list.
//! - A [`Mailbox`] is a list that is handed to another thread.
//!
//! All follow one rule. The waiter says that it is about to sleep, then checks once more for what it waits for, then sleeps. Others
//! make their change visible, then ring. Both are sequentially consistent: either the other thread finds the waiter about to sleep,
//! or the waiter sees the change. A wakeup may be spurious: the waiter checks and sleeps again.

#![deny(unsafe_code)]

mod call_doorbell;
mod doorbell;
mod epoll;
mod event_fd;
mod mailbox;
mod parker;
#[allow(unsafe_code)]
mod sleeper;
mod sync;

pub use call_doorbell::CallDoorbell;
pub use doorbell::{Armed, ArmedDoorbell, Doorbell};
pub use epoll::{Epoll, PollSet};
pub use event_fd::EventFd;
pub use mailbox::Mailbox;
pub use parker::Parker;
pub use rustix::event::PollFlags;
pub use rustix::event::epoll::EventFlags;
pub use sleeper::{Ended, NAP, Sleeper, is_ready, nap, timespec, wait_readable, wait_ready};

#[cfg(test)]
mod tests;
