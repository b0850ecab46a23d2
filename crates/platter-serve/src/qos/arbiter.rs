//! The arbiter of a device, and the shares of its clients.

use super::fair::{Flow, Order};
use super::limits::{ClientLimits, DeviceLimits, LimitRange};
use super::pacer::Pacer;
use platter_block::defect::{self, Defect};
use platter_block::lane::Bell;
use platter_block::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
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
}

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
    /// Requests in the device that were counted when they started.
    running: u32,
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
    running: u32,
    bell: Arc<dyn Bell>,
}

/// A request that waits.
#[derive(Clone, Copy)]
struct Waits {
    /// Bytes that it has not taken yet.
    left: u64,
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
        let mut client = Client {
            own: None,
            iops: Pacer::default(),
            bandwidth: Pacer::default(),
            flow: Flow::default(),
            waits: None,
            running: 0,
            bell,
        };
        client.pace(state.default);
        state.clients.insert(id, client);
        Share { id, arbiter: Arc::clone(self) }
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
        state.iops.set(limits.iops, limits.burst);
        state.bandwidth.set(limits.bandwidth, limits.burst);
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
        state
            .clients
            .values_mut()
            .filter(|client| client.own.is_none())
            .for_each(|client| client.pace(limits));
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
        let default = state.default;
        let Some(client) = state.clients.get_mut(&id) else { return Ok(false) };
        client.own = limits;
        client.pace(limits.unwrap_or(default));
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
        self.active.store(active, Ordering::Relaxed);
        if !active {
            // What waits will find that nothing is limited.
            state.forget();
        }
        let now = state.now;
        state.grant(now, None);
        state.clients.values().for_each(|client| client.bell.ring());
    }
}

impl Share {
    /// Whether anything on the device is limited, so that [`admit`](Share::admit) must be asked.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.arbiter.active.load(Ordering::Relaxed)
    }

    /// Whether the client's next request, of `bytes` bytes (0 for one without data), may start. A client asks for one
    /// request at a time, again and again until it may. `now` is the time of the device's clock.
    pub fn admit(&self, now: Time, bytes: u64) -> Admit {
        if !self.is_limited() {
            return Admit::Now;
        }
        self.admit_limited(now, bytes)
    }

    /// The slow part of [`admit`](Share::admit).
    fn admit_limited(&self, now: Time, bytes: u64) -> Admit {
        let mut state = self.arbiter.state();
        // Under the lock it cannot change. A request that is counted although the limits have just ended is never counted
        // off, and takes a place for ever when there are limits again.
        if !self.is_limited() {
            return Admit::Now;
        }
        state.admit(self.id, now, bytes)
    }

    /// Takes the request that waits back, if there is one: the client does not ask for it again. What it has taken of rates by
    /// parts stays taken.
    ///
    /// If the request starts nevertheless, without being admitted, it is not [completed](Share::complete) here.
    pub fn withdraw(&self) {
        let mut state = self.arbiter.state();
        state.withdraw(self.id);
        let now = state.now;
        state.grant(now, None);
    }

    /// A request that was admitted has completed.
    pub fn complete(&self, now: Time) {
        if self.is_limited() {
            self.arbiter.state().complete(self.id, now);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.arbiter.state();
        state.withdraw(self.id);
        let Some(client) = state.clients.remove(&self.id) else { return };
        state.running = state.running.saturating_sub(client.running);
        let now = state.now;
        state.grant(now, None);
    }
}

impl Client {
    fn pace(&mut self, limits: ClientLimits) {
        self.iops.set(limits.iops, limits.burst);
        self.bandwidth.set(limits.bandwidth, limits.burst);
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
            client.waits = Some(Waits { left: bytes, granted: false });
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
            self.running = self.running.saturating_sub(1);
        }
    }

    fn complete(&mut self, id: u64, now: Time) {
        self.now = self.now.max(now);
        let Some(client) = self.clients.get_mut(&id) else { return };
        // It may have started when nothing was limited and nothing counted.
        if client.running > 0 {
            client.running -= 1;
            self.running = self.running.saturating_sub(1);
        }
        self.grant(now, None);
    }

    fn is_full(&self) -> bool {
        self.holds > 0 || self.limits.depth > 0 && self.running >= self.limits.depth
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
        let weight = match defect::is_on(Defect::ClientWeightsIgnored) {
            true => 1,
            false => client.own.unwrap_or(self.default).weight,
        };
        self.order.start(id, &mut client.flow, weight);
        let Some(waits) = &mut client.waits else { return Some(false) };
        let part = waits.left.min(most);
        waits.left -= part;
        waits.granted = waits.left == 0;
        for (iops, bandwidth) in
            [(&mut self.iops, &mut self.bandwidth), (&mut client.iops, &mut client.bandwidth)]
        {
            iops.take(now, u64::from(waits.granted));
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

    /// Forgets what waits and what runs.
    fn forget(&mut self) {
        self.running = 0;
        self.on_bell.clear();
        for (id, client) in &mut self.clients {
            self.order.withdraw(*id, &mut client.flow);
            client.waits = None;
            client.running = 0;
        }
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
        assert_eq!(share.admit_limited(now, 4096), Admit::Now);
        share.complete(now);
        arbiter.set_device(one).unwrap();
        assert_eq!(share.admit(now, 4096), Admit::Now, "the device is idle");
        assert_eq!(share.admit(now, 4096), Admit::OnBell, "the depth is kept");
        share.complete(now);
        assert_eq!(share.admit(now, 4096), Admit::Now);
    }
}
