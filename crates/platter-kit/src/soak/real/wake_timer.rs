//! Wakes a thread that sleeps on a scripted channel: by the real driver's descriptor or by a timer of the script.

use platter_block::time::Span;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

struct Descriptors {
    both: OwnedFd,
    timer: OwnedFd,
}

/// Created when a thread first sleeps on the channel.
#[derive(Default)]
pub(super) struct WakeTimer(OnceLock<Option<Descriptors>>);

impl WakeTimer {
    /// A descriptor that is readable when `inner` is, or when the timer has expired. `None`: no descriptor is
    /// available.
    pub(super) fn with(&self, inner: BorrowedFd<'_>) -> Option<i32> {
        self.0.get_or_init(|| make(inner)).as_ref().map(|descriptors| descriptors.both.as_raw_fd())
    }

    /// Sets the timer, or disarms it.
    pub(super) fn set(&self, after: Option<Span>) {
        let Some(Some(descriptors)) = self.0.get() else { return };
        // A value of zero would disarm the timer.
        let nanos = after.map_or(0, |span| span.0.max(1));
        let value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timer = Itimerspec { it_interval: none, it_value: value };
        // Cannot fail: the descriptor is a timer and the value is valid.
        let _ = timerfd_settime(&descriptors.timer, TimerfdTimerFlags::empty(), &timer);
    }
}

fn make(inner: BorrowedFd<'_>) -> Option<Descriptors> {
    let both = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&both, &timer, data, epoll::EventFlags::IN).ok()?;
    epoll::add(&both, inner, data, epoll::EventFlags::IN).ok()?;
    Some(Descriptors { both, timer })
}
