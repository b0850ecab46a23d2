//! Event loops of programs that wait for the I/Os of futures themselves. Without one the service thread waits for them, and each
//! completion passes through that thread.

use super::AsyncLane;
use crate::device::Device;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::wake::{ArmedDoorbell, Epoll, PollSet, Sleeper};
use platter_block::bio::Op;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::time::Time;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A lane that an event loop runs until this is dropped.
struct Driven(Arc<AsyncLane>);

impl Driven {
    fn new(lane: &Arc<AsyncLane>) -> Driven {
        lane.attach();
        Driven(Arc::clone(lane))
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// Lets an executor's event loop wait for the I/Os of a device's futures ([`Device::reactor`]).
///
/// The loop watches the [descriptor](AsRawFd) and calls [`turn`](Reactor::turn) whenever it is readable. An I/O that ends while the
/// loop does not do that, because its thread is blocked or a task runs for long, is noticed by another thread within some 20 ms. The
/// device must not be closed before the reactor is dropped.
///
/// With tokio, in a task of its own:
///
/// ```text
/// let events = AsyncFd::with_interest(device.reactor()?, Interest::READABLE)?;
/// loop {
///     events.readable().await?.clear_ready();
///     events.get_ref().turn();
/// }
/// ```
pub struct Reactor {
    device: Device,
    state: Mutex<State>,
    descriptor: Arc<Epoll>,
}

struct State {
    set: PollSet,
    lanes: Vec<Driven>,
    handles: Vec<RawFd>,
    turns: u64,
}

/// Turns after which all descriptors are listed anew: a driver that was opened again may have the number of another one.
const RELIST: u64 = 1024;

/// [`Device::block_on`].
pub(super) fn block_on<F: Future>(device: &Device, future: F) -> F::Output {
    let mut future = pin!(future);
    let bell = Arc::new(ThreadBell { is_woken: AtomicBool::new(true), wake: ArmedDoorbell::new() });
    let waker = Waker::from(Arc::clone(&bell));
    // Without a lane the future's I/Os fail.
    let driven = device.inner.background.lane().ok().map(Driven::new);
    let mut sleeper = Sleeper::default();
    loop {
        while bell.is_woken.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
        }
        sleeper.handles.clear();
        let until = driven.as_ref().map_or(Some(None), |Driven(lane)| lane.drive(&mut sleeper.handles));
        bell.sleep(&mut sleeper, until, || device.inner.clock.now());
    }
}

/// Wakes the thread of [`Device::block_on`].
struct ThreadBell {
    is_woken: AtomicBool,
    wake: ArmedDoorbell,
}

impl Wake for ThreadBell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.wake.ring();
    }
}

impl ThreadBell {
    /// Sleeps until the thread is woken, a descriptor of the list is readable or the time has come; `None`: the descriptors do not
    /// show everything.
    fn sleep(&self, sleeper: &mut Sleeper, until: Option<Option<Time>>, now: impl Fn() -> Time) {
        if self.is_woken.load(Ordering::SeqCst) {
            return;
        }
        let rings = self.wake.arm().map(|fd| sleeper.handles.push(fd.raw())).is_some();
        if !self.is_woken.load(Ordering::SeqCst) {
            let timeout = until.flatten().map(|at| at.since(now()));
            sleeper.sleep(rings && until.is_some(), timeout);
        }
        self.wake.disarm();
    }
}

impl Reactor {
    pub(super) fn new(device: &Device) -> Result<Reactor, Error> {
        let failed = || {
            let fault = Fault::new(Kind::Io, Stage::Handle);
            device.error(fault, Op::Read, 0, 0, "no descriptor is free for an event loop".to_string())
        };
        let set = PollSet::new().map_err(|_| failed())?;
        device.inner.background.opened_bell().ok_or_else(failed)?;
        let (descriptor, lanes, handles) = (Arc::clone(set.epoll()), Vec::new(), Vec::new());
        let state = State { set, lanes, handles, turns: 0 };
        let reactor = Reactor { device: device.clone(), state: Mutex::new(state), descriptor };
        reactor.turn();
        Ok(reactor)
    }

    /// Hands what futures have started to the device, and wakes the tasks of those whose I/O has ended.
    pub fn turn(&self) {
        let mut state = lock(&self.state);
        let State { set, lanes, handles, turns } = &mut *state;
        let background = &self.device.inner.background;
        handles.clear();
        if let Some(bell) = background.opened_bell() {
            // Before the lanes are counted: one that is opened later signals again.
            if lanes.len() < background.opened().count() {
                bell.clear();
                for lane in background.opened() {
                    if !lanes.iter().any(|Driven(known)| Arc::ptr_eq(known, lane)) {
                        lanes.push(Driven::new(lane));
                    }
                }
            }
            handles.push(bell.fd().raw());
        }
        for Driven(lane) in lanes {
            if lane.drive(handles).is_none() && !lane.is_idle() {
                lane.watch(true);
            }
        }
        *turns += 1;
        set.set(handles, *turns / RELIST);
    }
}

impl AsRawFd for Reactor {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
