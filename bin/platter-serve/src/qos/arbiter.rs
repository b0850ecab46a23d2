//! The arbiter of a device, and the shares of its clients.

use super::fair::{Flow, Order};
use super::limits::{ClientLimits, DeviceLimits, LimitRange};
use super::pacer::Pacer;
use platter_block::lane::Bell;
use platter_block::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes that a request takes from the device's bandwidth at a time: as many as the largest write has. A longer one, of
/// zeroes or readahead, takes its bytes part by part before it starts, so that others get theirs in between.
const PART_BYTES: u64 = 32 << 20;

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// It may.
    Now,
    /// Ask again with the same request at this time, or when the bell rings.
    At(Time),
    /// Ask again with the same request when the bell rings: another request must complete first. The answer may then be
    /// [`At`](Admit::At).
    OnBell,
}

/// Decides for one device. All its times are of the clock of that device.
pub struct Arbiter {
    /// Whether anything is limited or held.
    active: AtomicBool,
    state: Mutex<State>,
}

/// A client's part of an arbiter. Dropping it takes back what waits, and counts what runs as completed.
pub struct Share {
    id: u64,
    arbiter: Arc<Arbiter>,
    uncounted: Arc<Uncounted>,
}

/// Requests that a client has started without the arbiter's lock, less those that have completed, since they were last
/// counted under it. What has started while nothing is limited takes a place when there is a depth later.
// In cache lines of its own: other clients change theirs.
#[repr(align(128))]
#[derive(Default)]
struct Uncounted(AtomicI64);

/// What operators see of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareState {
    /// Its limits.
    pub limits: ClientLimits,
    /// Whether a request of it waits.
    pub waits: bool,
}

#[derive(Default)]
struct State {
    limits: DeviceLimits,
    /// How often new requests are held back and not yet released.
    holds: u32,
    /// Of clients that have none of their own.
    default: ClientLimits,
    iops: Pacer,
    bandwidth: Pacer,
    /// Requests in the device and those that may start, but for uncounted ones.
    running: i64,
    order: Order,
    clients: BTreeMap<u64, Client>,
    /// Clients whose last answer was [`Admit::OnBell`].
    on_bell: BTreeSet<u64>,
    /// The latest time that was told.
    now: Time,
}

struct Client {
    /// `None`: the default.
    own: Option<ClientLimits>,
    iops: Pacer,
    bandwidth: Pacer,
    flow: Flow,
    waits: Option<Waits>,
    /// Its requests in the device, but for uncounted ones.
    running: i64,
    uncounted: Arc<Uncounted>,
    bell: Arc<dyn Bell>,
}

/// A request that waits.
#[derive(Clone, Copy)]
struct Waits {
    /// Bytes that it has not taken yet.
    left: u64,
    /// I/Os that it has not taken yet: one, or none.
    ios: u64,
    /// It has a place in the device, and may start.
    granted: bool,
}

impl Arbiter {
    /// An arbiter without limits.
    pub fn new() -> Arc<Arbiter> {
        Arc::new(Arbiter { active: AtomicBool::new(false), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client under a number that no other client of the arbiter has. The bell is rung when it is to ask again for the
    /// request that waits; it must not call the arbiter.
    pub fn join(self: &Arc<Arbiter>, id: u64, bell: Arc<dyn Bell>) -> Share {
        let mut state = self.state();
        let uncounted = Arc::<Uncounted>::default();
        let mut client = Client {
            own: None,
            iops: Pacer::default(),
            bandwidth: Pacer::default(),
            flow: Flow::default(),
            waits: None,
            running: 0,
            uncounted: Arc::clone(&uncounted),
            bell,
        };
        client.pace(state.now, state.default);
        state.clients.insert(id, client);
        Share { id, arbiter: Arc::clone(self), uncounted }
    }

    /// The device's limits, and those of clients that have none of their own.
    pub fn limits(&self) -> (DeviceLimits, ClientLimits) {
        let state = self.state();
        (state.limits, state.default)
    }

    /// Sets the limits of the device, while requests run.
    ///
    /// # Errors
    /// A value is out of its range. The old limits stay.
    pub fn set_device(&self, limits: DeviceLimits) -> Result<(), LimitRange> {
        limits.check()?;
        let mut state = self.state();
        state.limits = limits;
        let now = state.now;
        state.iops.set(now, limits.iops, limits.burst);
        state.bandwidth.set(now, limits.bandwidth, limits.burst);
        self.changed(state);
        Ok(())
    }

    /// Sets the limits of clients that have none of their own, present and future ones.
    ///
    /// # Errors
    /// A value is out of its range. The old limits stay.
    pub fn set_default(&self, limits: ClientLimits) -> Result<(), LimitRange> {
        limits.check()?;
        let mut state = self.state();
        state.default = limits;
        let now = state.now;
        state
            .clients
            .values_mut()
            .filter(|client| client.own.is_none())
            .for_each(|client| client.pace(now, limits));
        self.changed(state);
        Ok(())
    }

    /// Sets the limits of a client; `None`: the default. Returns whether there is such a client.
    ///
    /// # Errors
    /// A value is out of its range. The old limits stay.
    pub fn set_client(&self, id: u64, limits: Option<ClientLimits>) -> Result<bool, LimitRange> {
        limits.iter().try_for_each(ClientLimits::check)?;
        let mut state = self.state();
        let (now, default) = (state.now, state.default);
        let Some(client) = state.clients.get_mut(&id) else { return Ok(false) };
        client.own = limits;
        client.pace(now, limits.unwrap_or(default));
        self.changed(state);
        Ok(true)
    }

    /// Lets no request of any client start until [`release`](Arbiter::release). Requests that have started run on.
    pub fn hold(&self) {
        let mut state = self.state();
        state.holds += 1;
        self.changed(state);
    }

    /// Undoes one [`hold`](Arbiter::hold).
    pub fn release(&self) {
        let mut state = self.state();
        state.holds = state.holds.saturating_sub(1);
        self.changed(state);
    }

    /// The state of a client; `None`: there is no such client.
    pub fn client(&self, id: u64) -> Option<ShareState> {
        let state = self.state();
        let client = state.clients.get(&id)?;
        Some(ShareState { limits: client.own.unwrap_or(state.default), waits: client.waits.is_some() })
    }

    /// Lets all that waits look again.
    fn changed(&self, mut state: MutexGuard<'_, State>) {
        let active = state.holds > 0
            || state.limits.limits()
            || state.clients.values().any(|client| client.own.unwrap_or(state.default).limits())
            || state.default.limits();
        // Before it counts: see `Share::add`.
        self.active.store(active, Ordering::SeqCst);
        state.count_all();
        match active {
            true => state.take_back(),
            // What waits will find that nothing is limited.
            false => state.forget(),
        }
        let now = state.now;
        state.grant(now, None);
        state.clients.values().for_each(|client| client.bell.ring());
    }
}

impl Share {
    /// Whether anything on the device is limited, so that [`admit`](Share::admit) must be asked. Otherwise a request may
    /// [`start`](Share::start).
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.arbiter.active.load(Ordering::Relaxed)
    }

    /// Whether the client's next request, of `bytes` bytes (0 for one without data), may start. A client asks for one
    /// request at a time, again and again until it may. `now` is the time of the device's clock.
    pub fn admit(&self, now: Time, bytes: u64) -> Admit {
        if !self.is_limited() {
            self.start();
            return Admit::Now;
        }
        self.arbiter.state().admit(self.id, now, bytes)
    }

    /// A request starts without being admitted, because nothing is limited or because the client does not wait any more. It
    /// is in the device until it has [completed](Share::complete).
    #[inline]
    pub fn start(&self) {
        if self.add(1) {
            self.arbiter.state().count(self.id);
        }
    }

    /// Adds to the number of requests in the device. Returns whether it is to be counted at once.
    #[inline]
    fn add(&self, change: i64) -> bool {
        self.uncounted.0.fetch_add(change, Ordering::SeqCst);
        // The thread that sets a limit first stores this and then counts, so that one of the two sees the other's change.
        self.arbiter.active.load(Ordering::SeqCst)
    }

    /// Takes the request that waits back, if there is one: the client does not ask for it again. What it has taken of rates by
    /// parts stays taken.
    ///
    /// If the request starts nevertheless, without being admitted, that is told by [`start`](Share::start).
    pub fn withdraw(&self) {
        let mut state = self.arbiter.state();
        state.withdraw(self.id);
        let now = state.now;
        state.grant(now, None);
    }

    /// A request that was admitted, or has started without that, has completed.
    #[inline]
    pub fn complete(&self, now: Time) {
        if self.add(-1) {
            self.arbiter.state().complete(self.id, now);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.arbiter.state();
        state.withdraw(self.id);
        state.count(self.id);
        let Some(client) = state.clients.remove(&self.id) else { return };
        state.running -= client.running;
        let now = state.now;
        state.grant(now, None);
    }
}

impl Client {
    fn pace(&mut self, now: Time, limits: ClientLimits) {
        self.iops.set(now, limits.iops, limits.burst);
        self.bandwidth.set(now, limits.bandwidth, limits.burst);
    }

    /// Counts what is uncounted. Returns by how much the number of its requests in the device has changed.
    fn count(&mut self) -> i64 {
        let change = self.uncounted.0.swap(0, Ordering::SeqCst);
        self.running += change;
        change
    }
}

impl State {
    fn admit(&mut self, id: u64, now: Time, bytes: u64) -> Admit {
        self.now = self.now.max(now);
        self.on_bell.remove(&id);
        let most = self.most_at_once();
        let Some(client) = self.clients.get_mut(&id) else { return Admit::Now };
        if client.waits.is_none() {
            let ready = client.iops.ready().max(client.bandwidth.ready());
            if ready > now {
                return Admit::At(ready);
            }
            client.waits = Some(Waits { left: bytes, ios: 1, granted: false });
            self.order.push(id, &mut client.flow, bytes.min(most));
        }
        self.grant(now, Some(id));
        let is_full = self.is_full();
        let Some(client) = self.clients.get_mut(&id) else { return Admit::Now };
        if client.waits.is_some_and(|waits| waits.granted) {
            client.waits = None;
            client.running += 1;
            return Admit::Now;
        }
        if is_full {
            self.on_bell.insert(id);
            return Admit::OnBell;
        }
        let (count, sum) = self.order.ahead(id, &client.flow);
        let ready = self.iops.ready_after(now, count).max(self.bandwidth.ready_after(now, sum));
        // The first one that waits has nothing ahead of it, and waits because of this time.
        Admit::At(ready.max(Time(now.0 + 1)))
    }

    /// Takes the request of a client back that waits. A place in the device that it was given is free again.
    fn withdraw(&mut self, id: u64) {
        self.on_bell.remove(&id);
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.order.withdraw(id, &mut client.flow);
        if client.waits.take().is_some_and(|waits| waits.granted) {
            self.running -= 1;
        }
    }

    fn complete(&mut self, id: u64, now: Time) {
        self.now = self.now.max(now);
        self.count(id);
        self.grant(now, None);
    }

    /// Counts what is uncounted of a client.
    fn count(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            self.running += client.count();
        }
    }

    fn count_all(&mut self) {
        self.running += self.clients.values_mut().map(Client::count).sum::<i64>();
    }

    fn is_full(&self) -> bool {
        self.holds > 0 || self.limits.depth > 0 && self.running >= i64::from(self.limits.depth)
    }

    /// Whether more has started, or may start, than is allowed.
    fn is_over(&self) -> bool {
        self.holds > 0 || self.limits.depth > 0 && self.running > i64::from(self.limits.depth)
    }

    /// Most bytes that a request takes at a time. Without a bandwidth of the device none waits for those of another one.
    fn most_at_once(&self) -> u64 {
        if self.limits.bandwidth > 0 { PART_BYTES } else { u64::MAX }
    }

    /// Grants what may start, in fair order. Rings the bells of all clients but that of `caller`.
    fn grant(&mut self, now: Time, caller: Option<u64>) {
        while !self.is_full()
            && self.iops.ready().max(self.bandwidth.ready()) <= now
            && let Some(id) = self.order.first()
        {
            let Some(is_granted) = self.grant_part(id, now) else { break };
            if is_granted && caller != Some(id) {
                self.ring(id);
            }
        }
        if !self.is_full() {
            // What waits now waits for a time, which its client has to be told: perhaps no other client asks by then.
            std::mem::take(&mut self.on_bell).into_iter().for_each(|id| self.ring(id));
        }
    }

    /// Lets the request of a client, which is the first one, take its next part. Returns whether that was the last one: the
    /// request is granted. `None`: there is no such client.
    fn grant_part(&mut self, id: u64, now: Time) -> Option<bool> {
        let most = self.most_at_once();
        let client = self.clients.get_mut(&id)?;
        let weight = client.own.unwrap_or(self.default).weight;
        self.order.start(id, &mut client.flow, weight);
        let Some(waits) = &mut client.waits else { return Some(false) };
        let part = waits.left.min(most);
        waits.left -= part;
        waits.granted = waits.left == 0;
        let ios = if waits.granted { std::mem::take(&mut waits.ios) } else { 0 };
        for (iops, bandwidth) in
            [(&mut self.iops, &mut self.bandwidth), (&mut client.iops, &mut client.bandwidth)]
        {
            iops.take(now, ios);
            bandwidth.take(now, part);
        }
        if waits.granted {
            self.running += 1;
        } else {
            self.order.push(id, &mut client.flow, waits.left.min(most));
        }
        Some(waits.granted)
    }

    /// Has a client ask again.
    fn ring(&mut self, id: u64) {
        self.on_bell.remove(&id);
        if let Some(client) = self.clients.get(&id) {
            client.bell.ring();
        }
    }

    /// Takes the places of requests back that have not started, if the limits have become too low for them. They wait again,
    /// and take nothing of rates a second time.
    fn take_back(&mut self) {
        if !self.is_over() {
            return;
        }
        for (id, client) in &mut self.clients {
            if let Some(waits) = client.waits.as_mut().filter(|waits| waits.granted) {
                waits.granted = false;
                self.running -= 1;
                self.order.push(*id, &mut client.flow, waits.left);
            }
        }
    }

    /// Forgets what waits.
    fn forget(&mut self) {
        self.on_bell.clear();
        for (id, client) in &mut self.clients {
            self.order.withdraw(*id, &mut client.flow);
            if client.waits.take().is_some_and(|waits| waits.granted) {
                self.running -= 1;
            }
        }
    }
}

#[cfg(test)]
impl Arbiter {
    /// How many requests are in the device.
    pub(crate) fn running(&self) -> i64 {
        let mut state = self.state();
        state.count_all();
        state.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl Bell for Silent {
        fn ring(&self) {}
    }

    #[test]
    fn while_it_is_held_no_request_starts_and_limits_stay() {
        let (arbiter, now) = (Arbiter::new(), Time(1));
        let share = arbiter.join(1, Arc::new(Silent));
        assert_eq!(share.admit(now, 4096), Admit::Now);
        arbiter.hold();
        arbiter.hold();
        assert_eq!(share.admit(now, 4096), Admit::OnBell);
        arbiter.set_device(DeviceLimits { iops: 1, ..DeviceLimits::default() }).unwrap();
        arbiter.release();
        assert_eq!(share.admit(now, 4096), Admit::OnBell, "one hold is left");
        assert!(arbiter.client(1).unwrap().waits);
        arbiter.release();
        assert_eq!(share.admit(now, 4096), Admit::Now);
        assert!(matches!(share.admit(now, 4096), Admit::At(_)), "the limits of the device are kept");
        arbiter.set_device(DeviceLimits::default()).unwrap();
        assert!(!share.is_limited());
    }

    #[test]
    fn limits_that_end_while_a_request_is_admitted_leave_no_count_behind() {
        let (arbiter, now) = (Arbiter::new(), Time(1));
        let share = arbiter.join(1, Arc::new(Silent));
        let one = DeviceLimits { depth: 1, ..DeviceLimits::default() };
        arbiter.set_device(one).unwrap();
        assert!(share.is_limited());
        // Another thread lifts the limits between the look at them and the lock.
        arbiter.set_device(DeviceLimits::default()).unwrap();
        assert_eq!(arbiter.state().admit(share.id, now, 4096), Admit::Now);
        share.complete(now);
        arbiter.set_device(one).unwrap();
        assert_eq!(share.admit(now, 4096), Admit::Now, "the device is idle");
        assert_eq!(share.admit(now, 4096), Admit::OnBell, "the depth is kept");
        share.complete(now);
        assert_eq!(share.admit(now, 4096), Admit::Now);
        assert_eq!(arbiter.running(), 1);
    }
}
