//! Limits that change while requests run and wait.

use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_serve::qos::{Admit, Arbiter, ClientLimits, DeviceLimits, Share};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many random lives of a model there are, and the steps of each.
const SEEDS: u64 = 200;
const STEPS: u64 = 400;
/// Clients of a model.
const CLIENTS: u64 = 4;

const NOW: Time = Time(1);

/// Counts how often it is rung.
#[derive(Default)]
struct Counted(AtomicU32);

impl Counted {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Bell for Counted {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn join(arbiter: &Arc<Arbiter>, id: u64) -> Share {
    arbiter.join(id, Arc::new(Counted::default()))
}

fn depth(depth: u32) -> DeviceLimits {
    DeviceLimits { depth, ..DeviceLimits::default() }
}

/// Two clients of a device that takes one request at a time: the first one has it, and the second one waits.
struct Two {
    arbiter: Arc<Arbiter>,
    first: Share,
    second: Share,
    /// That of the second one.
    bell: Arc<Counted>,
}

impl Two {
    fn new() -> Two {
        let arbiter = Arbiter::new();
        let (first, bell) = (join(&arbiter, 1), Arc::new(Counted::default()));
        let second = arbiter.join(2, Arc::clone(&bell) as Arc<dyn Bell>);
        arbiter.set_device(depth(1)).unwrap();
        assert_eq!(first.admit(NOW, 4096), Admit::Now);
        assert_eq!(second.admit(NOW, 4096), Admit::OnBell);
        Two { arbiter, first, second, bell }
    }
}

fn bandwidth(bandwidth: u64) -> Option<ClientLimits> {
    Some(ClientLimits { bandwidth, ..ClientLimits::default() })
}

#[test]
fn what_has_started_without_a_limit_counts_in_a_depth() {
    let arbiter = Arbiter::new();
    let (first, second) = (join(&arbiter, 1), join(&arbiter, 2));
    for _ in 0..4 {
        assert_eq!(first.admit(NOW, 4096), Admit::Now);
        second.start();
    }
    arbiter.set_device(depth(4)).unwrap();
    for running in (4..8).rev() {
        assert_eq!(first.admit(NOW, 4096), Admit::OnBell, "{} run", running + 1);
        second.complete(NOW);
    }
    assert_eq!(first.admit(NOW, 4096), Admit::OnBell, "four run");
    first.complete(NOW);
    assert_eq!(first.admit(NOW, 4096), Admit::Now, "three run");
    assert_eq!(first.admit(NOW, 4096), Admit::OnBell, "four run");
    // A client that leaves takes what it has started with it.
    drop(first);
    for _ in 0..4 {
        assert_eq!(second.admit(NOW, 4096), Admit::Now);
    }
    assert_eq!(second.admit(NOW, 4096), Admit::OnBell);
}

#[test]
fn a_depth_that_is_switched_off_and_on_counts_what_runs() {
    let Two { arbiter, first, second, bell } = Two::new();
    let before = bell.count();
    arbiter.set_device(depth(0)).unwrap();
    assert!(bell.count() > before, "the limit has ended");
    assert_eq!(second.admit(NOW, 4096), Admit::Now);
    arbiter.set_device(depth(1)).unwrap();
    assert_eq!(second.admit(NOW, 4096), Admit::OnBell, "two run");
    first.complete(NOW);
    assert_eq!(second.admit(NOW, 4096), Admit::OnBell, "one runs");
    second.complete(NOW);
    assert_eq!(second.admit(NOW, 4096), Admit::Now, "none runs");
    // Likewise if what runs completes while there is no depth.
    arbiter.set_device(depth(0)).unwrap();
    second.complete(NOW);
    arbiter.set_device(depth(1)).unwrap();
    assert_eq!(first.admit(NOW, 4096), Admit::Now, "none runs");
    assert_eq!(second.admit(NOW, 4096), Admit::OnBell, "one runs");
}

#[test]
fn a_depth_that_is_raised_wakes_those_that_wait() {
    let Two { arbiter, first, second, bell } = Two::new();
    let before = bell.count();
    arbiter.set_device(depth(2)).unwrap();
    assert!(bell.count() > before);
    assert_eq!(second.admit(NOW, 4096), Admit::Now);
    assert_eq!(first.admit(NOW, 4096), Admit::OnBell);
}

/// As for a connection that ends: its requests are not held back, and take places all the same.
#[test]
fn a_request_that_starts_in_spite_of_a_limit_takes_a_place() {
    let arbiter = Arbiter::new();
    let (leaving, other) = (join(&arbiter, 1), join(&arbiter, 2));
    arbiter.set_device(depth(1)).unwrap();
    leaving.start();
    leaving.start();
    assert_eq!(other.admit(NOW, 4096), Admit::OnBell);
    leaving.complete(NOW);
    assert_eq!(other.admit(NOW, 4096), Admit::OnBell);
    leaving.complete(NOW);
    assert_eq!(other.admit(NOW, 4096), Admit::Now);
}

/// A client that was rung and has not asked again yet has not started.
#[test]
fn a_lower_depth_takes_places_back_from_what_has_not_started() {
    let arbiter = Arbiter::new();
    let [first, second, third] = [1, 2, 3].map(|id| join(&arbiter, id));
    arbiter.set_device(depth(2)).unwrap();
    for _ in 0..2 {
        assert_eq!(first.admit(NOW, 4096), Admit::Now);
    }
    assert_eq!(second.admit(NOW, 4096), Admit::OnBell);
    assert_eq!(third.admit(NOW, 4096), Admit::OnBell);
    // The second and the third one get the places.
    first.complete(NOW);
    first.complete(NOW);
    arbiter.set_device(depth(1)).unwrap();
    assert_eq!(third.admit(NOW, 4096), Admit::OnBell);
    assert_eq!(second.admit(NOW, 4096), Admit::Now);
    assert_eq!(third.admit(NOW, 4096), Admit::OnBell);
    second.complete(NOW);
    assert_eq!(third.admit(NOW, 4096), Admit::Now);
}

#[test]
fn a_hold_takes_places_back_from_what_has_not_started() {
    let arbiter = Arbiter::new();
    let (first, second) = (join(&arbiter, 1), join(&arbiter, 2));
    arbiter.set_device(DeviceLimits { depth: 1, iops: 1, ..DeviceLimits::default() }).unwrap();
    assert_eq!(first.admit(NOW, 4096), Admit::Now);
    assert_eq!(second.admit(NOW, 4096), Admit::OnBell);
    let later = Time(1_500_000_000);
    first.complete(later);
    arbiter.hold();
    assert_eq!(second.admit(later, 4096), Admit::OnBell);
    arbiter.release();
    // The I/O that it took of the rate is over in a second, and it does not take a second one.
    let Admit::At(at) = second.admit(later, 4096) else { panic!("the rate is one per second") };
    assert!(at < Time(2_500_000_000), "{at:?}");
    assert_eq!(second.admit(at, 4096), Admit::Now);
    second.complete(at);
    assert_eq!(first.admit(at, 4096), Admit::Now);
}

#[test]
fn a_rate_that_is_raised_ends_the_wait_for_what_was_taken_at_the_old_one() {
    let arbiter = Arbiter::new();
    let bell = Arc::new(Counted::default());
    let share = arbiter.join(1, Arc::clone(&bell) as Arc<dyn Bell>);
    arbiter.set_client(1, bandwidth(1)).unwrap();
    assert_eq!(share.admit(NOW, 1 << 20), Admit::Now);
    let Admit::At(at) = share.admit(NOW, 4096) else { panic!("it has taken a megabyte") };
    assert!(at > Time(0) + Span::from_secs(1_000_000), "{at:?}");
    let before = bell.count();
    arbiter.set_client(1, bandwidth(1 << 20)).unwrap();
    assert!(bell.count() > before);
    let Admit::At(at) = share.admit(NOW, 4096) else { panic!("a second is owed") };
    let wait = at.since(NOW).as_millis();
    assert!((980..=1000).contains(&wait), "{wait} ms");
    // So for the limits of the device.
    arbiter.set_client(1, None).unwrap();
    arbiter.set_device(DeviceLimits { bandwidth: 1, ..DeviceLimits::default() }).unwrap();
    assert_eq!(share.admit(NOW, 1 << 20), Admit::Now);
    assert!(matches!(share.admit(NOW, 4096), Admit::At(_)));
    arbiter.set_device(DeviceLimits { bandwidth: 1 << 30, ..DeviceLimits::default() }).unwrap();
    assert_eq!(share.admit(Time(0) + Span::from_millis(20), 4096), Admit::Now);
}

/// Threads start and complete requests while another one changes the depth; at last nothing runs.
#[test]
fn changes_during_completions_of_other_threads_lose_no_place() {
    let arbiter = Arbiter::new();
    let shares = [1, 2, 3, 4].map(|id| join(&arbiter, id));
    let ask = |share: &Share| match share.admit(NOW, 4096) {
        Admit::Now => share.complete(NOW),
        _ => share.withdraw(),
    };
    std::thread::scope(|scope| {
        for share in &shares {
            scope.spawn(move || (0..5000).for_each(|_| ask(share)));
        }
        for change in 0..1000 {
            arbiter.set_device(depth(change % 3)).unwrap();
        }
    });
    arbiter.set_device(depth(3)).unwrap();
    let started = (0..4).filter(|_| shares[0].admit(NOW, 4096) == Admit::Now).count();
    assert_eq!(started, 3);
}

/// A client as an export drives it.
struct Client {
    id: u64,
    share: Share,
    bell: Arc<Counted>,
    /// How often the bell had been rung when it asked last.
    heard: u32,
    /// Requests in the device.
    running: u32,
    /// The request that waits: the last answer, and its bytes.
    waits: Option<(Admit, u64)>,
}

/// Clients of an arbiter, and what they and its limits must add up to.
struct Model {
    seed: u64,
    random: Xoshiro256PlusPlus,
    arbiter: Arc<Arbiter>,
    clients: Vec<Client>,
    next_id: u64,
    now: u64,
    depth: u32,
    holds: u32,
}

impl Client {
    fn new(arbiter: &Arc<Arbiter>, id: u64) -> Client {
        let bell = Arc::new(Counted::default());
        let share = arbiter.join(id, Arc::clone(&bell) as Arc<dyn Bell>);
        Client { id, share, bell, heard: 0, running: 0, waits: None }
    }

    /// Whether an export would ask: it has a request that does not wait, or has been woken.
    fn may_ask(&self, now: u64) -> bool {
        let is_rung = self.bell.count() != self.heard;
        match self.waits {
            None => true,
            Some((Admit::At(at), _)) => is_rung || at.0 <= now,
            Some(_) => is_rung,
        }
    }
}

impl Model {
    fn new(seed: u64) -> Model {
        let arbiter = Arbiter::new();
        let clients = (0..CLIENTS).map(|id| Client::new(&arbiter, id)).collect();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Model { seed, random, arbiter, clients, next_id: CLIENTS, now: 1, depth: 0, holds: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn running(&self) -> u32 {
        self.clients.iter().map(|client| client.running).sum()
    }

    fn live(&mut self) {
        for _ in 0..STEPS {
            self.now += self.below(1_000_000);
            let index = self.below(self.clients.len() as u64) as usize;
            match self.below(24) {
                0..2 => self.set_device(),
                2 => self.set_client(index),
                3 => self.hold_or_release(),
                4 => self.withdraw(index),
                5 => self.leave(index),
                6 => self.check_places(),
                7..16 if self.clients[index].may_ask(self.now) => self.ask(index),
                _ => self.complete(index),
            }
        }
        self.finish();
    }

    fn set_device(&mut self) {
        let iops = self.any(&[0, 0, 0, 1000, 1_000_000]);
        let bandwidth = self.any(&[0, 0, 0, 1 << 20, 1 << 30]);
        let burst = self.any(&[Span::ZERO, Span::from_millis(10), Span::from_secs(1)]);
        let depth = self.any(&[0, 0, 1, 2, 3, 8]);
        self.arbiter.set_device(DeviceLimits { iops, bandwidth, burst, depth }).unwrap();
        self.depth = depth;
    }

    fn set_client(&mut self, index: usize) {
        let iops = self.any(&[0, 0, 1000, 1_000_000]);
        let bandwidth = self.any(&[0, 0, 1 << 20, 1 << 30]);
        let limits = ClientLimits { iops, bandwidth, ..ClientLimits::default() };
        match self.below(3) {
            0 => self.arbiter.set_default(limits).unwrap(),
            own => {
                let own = (own == 1).then_some(limits);
                assert!(self.arbiter.set_client(self.clients[index].id, own).unwrap());
            }
        }
    }

    fn hold_or_release(&mut self) {
        if self.holds > 0 {
            self.release();
        } else {
            self.arbiter.hold();
            self.holds += 1;
        }
    }

    fn release(&mut self) {
        self.arbiter.release();
        self.holds -= 1;
    }

    fn withdraw(&mut self, index: usize) {
        self.clients[index].share.withdraw();
        self.clients[index].waits = None;
    }

    /// What runs counts as completed, as the arbiter says.
    fn leave(&mut self, index: usize) {
        drop(self.clients.swap_remove(index));
        self.clients.push(Client::new(&self.arbiter, self.next_id));
        self.next_id += 1;
    }

    /// Asks for the request that waits, or for another one.
    fn ask(&mut self, index: usize) {
        let other = self.any(&[0, 512, 4096, 1 << 20, 64 << 20]);
        let (now, seed, running) = (self.now, self.seed, self.running());
        let client = &mut self.clients[index];
        // As an export answers the bell: before it asks.
        client.heard = client.bell.count();
        let bytes = client.waits.map_or(other, |(_, bytes)| bytes);
        match client.share.admit(Time(now), bytes) {
            Admit::Now => {
                assert_eq!(self.holds, 0, "seed {seed}: a request has started during a hold");
                assert!(
                    self.depth == 0 || running < self.depth,
                    "seed {seed}: a request has started beside {running} at the depth {}",
                    self.depth
                );
                (client.waits, client.running) = (None, client.running + 1);
            }
            later => {
                assert!(!matches!(later, Admit::At(at) if at.0 <= now), "seed {seed}: {later:?} at {now}");
                client.waits = Some((later, bytes));
            }
        }
    }

    fn complete(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.running > 0 {
            client.running -= 1;
            client.share.complete(Time(self.now));
        }
    }

    /// With nothing but a depth, as many requests may start as it leaves.
    fn check_places(&mut self) {
        while self.holds > 0 {
            self.release();
        }
        self.arbiter.set_default(ClientLimits::default()).unwrap();
        for index in 0..self.clients.len() {
            self.withdraw(index);
            assert!(self.arbiter.set_client(self.clients[index].id, None).unwrap());
        }
        self.depth = 1 + self.below(8) as u32;
        self.arbiter.set_device(depth(self.depth)).unwrap();
        let other = join(&self.arbiter, self.next_id);
        self.next_id += 1;
        let starts = |_: &u32| other.admit(Time(self.now), 4096) == Admit::Now;
        let started = (0..=self.depth).take_while(starts).count() as u32;
        let (seed, running) = (self.seed, self.running());
        let left = self.depth.saturating_sub(running);
        assert_eq!(started, left, "seed {seed}: {running} run at the depth {}", self.depth);
    }

    /// All that waits starts as exports go on, without a further change.
    fn finish(&mut self) {
        while self.holds > 0 {
            self.release();
        }
        while self.clients.iter().any(|client| client.waits.is_some()) {
            let is_woken = |client: &Client| client.waits.is_some() && client.may_ask(self.now);
            if let Some(index) = self.clients.iter().position(is_woken) {
                self.ask(index);
            } else if let Some(index) = self.clients.iter().position(|client| client.running > 0) {
                self.complete(index);
            } else {
                let times = self.clients.iter().filter_map(|client| match client.waits {
                    Some((Admit::At(at), _)) => Some(at.0),
                    _ => None,
                });
                let Some(next) = times.min() else { panic!("seed {}: a client waits for ever", self.seed) };
                self.now = next;
            }
        }
        self.check_places();
    }
}

#[test]
fn random_changes_lose_no_place_and_no_request() {
    (0..SEEDS).for_each(|seed| Model::new(seed).live());
}
