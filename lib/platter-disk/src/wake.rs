//! Sleeping and waking, in one place so that a model checker can replace it.

pub(crate) use platter_wait::{
    ArmedDoorbell, CallDoorbell, Doorbell, Ended, Epoll, EventFd, Parker, PollFlags, PollSet, Sleeper,
    is_ready, wait_readable,
};
