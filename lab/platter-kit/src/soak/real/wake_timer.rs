//! Wakes a thread that sleeps on a scripted channel: by the real driver's descriptor or by a timer of the script.

use platter_block::time::Span;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, OnceLock, PoisonError};

struct Descriptors {
    both: OwnedFd,
    timer: OwnedFd,
    /// The driver's descriptor that `both` has.
    inner: Mutex<Option<BorrowedFd<'static>>>,
}

/// Created when a thread first sleeps on the channel.
#[derive(Default)]
pub(super) struct WakeTimer(OnceLock<Option<Descriptors>>);

impl WakeTimer {
    /// A descriptor that is readable when `inner` is, or when the timer has expired. `None`: no descriptor is
    /// available.
    pub(super) fn with(&self, inner: BorrowedFd<'static>) -> Option<RawFd> {
        let descriptors = self.0.get_or_init(make).as_ref()?;
        descriptors.listen(inner)?;
        Some(descriptors.both.as_raw_fd())
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

impl Descriptors {
    /// Listens to the driver's descriptor. A driver may have another one than before, such as after its ring has failed.
    fn listen(&self, inner: BorrowedFd<'static>) -> Option<()> {
        let mut last = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.as_raw_fd() == inner.as_raw_fd()) {
            return Some(());
        }
        if let Some(last) = last.take() {
            // Fails if it has been closed, which has taken it out.
            let _ = epoll::delete(&self.both, last);
        }
        epoll::add(&self.both, inner, epoll::EventData::new_u64(0), epoll::EventFlags::IN).ok()?;
        *last = Some(inner);
        Some(())
    }
}

fn make() -> Option<Descriptors> {
    let both = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
    epoll::add(&both, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN).ok()?;
    Some(Descriptors { both, timer, inner: Mutex::default() })
}
