//! Quality of service in virtual time: shares by weight, and what a flood does to a neighbour.

mod virtual_time;

use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_serve::qos::{Admit, Arbiter, ClientLimits, DeviceLimits};
use platter_sim::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use virtual_time::{Client, Silent, open, run, share_of_first};

const MIB: u64 = 1 << 20;

/// Counts how often it is rung.
#[derive(Default)]
struct Counted(AtomicU32);

impl Bell for Counted {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn p99(client: &Client) -> u64 {
    let mut sorted = client.latencies.clone();
    sorted.sort_unstable();
    sorted[sorted.len() * 99 / 100]
}

#[test]
fn weights_divide_a_slow_device_by_its_depth() {
    for depth in [1, 4, 16] {
        let limits = DeviceLimits { depth, ..DeviceLimits::default() };
        for (depths, sizes) in
            [([32, 32], [4096, 4096]), ([256, 32], [4096, 4096]), ([32, 32], [65536, 4096])]
        {
            let ratio = share_of_first(limits, depths, sizes);
            assert!((2.85..=3.15).contains(&ratio), "depth {depth}, {depths:?} {sizes:?}: 1:{ratio:.3}");
        }
    }
}

#[test]
fn weights_divide_a_rate() {
    let bandwidth = DeviceLimits { bandwidth: 50 << 20, ..DeviceLimits::default() };
    let iops = DeviceLimits { iops: 5000, ..DeviceLimits::default() };
    for limits in [bandwidth, iops] {
        let ratio = share_of_first(limits, [32, 32], [4096, 4096]);
        assert!((2.85..=3.15).contains(&ratio), "{limits:?}: 1:{ratio:.3}");
    }
}

#[test]
fn without_a_budget_weights_change_nothing() {
    let ratio = share_of_first(DeviceLimits::default(), [32, 32], [4096, 4096]);
    assert!((0.95..=1.05).contains(&ratio), "1:{ratio:.3}");
}

#[test]
fn a_rate_holds_and_changes_while_it_runs() {
    let world = World::by_hand(1);
    let device = open(&world, "sim(nvme_ssd)");
    let arbiter = Arbiter::new();
    let limits = |iops| Some(ClientLimits { iops, ..ClientLimits::default() });
    let mut clients = [Client::new(&arbiter, 1, &device, 8, 4096)];
    assert!(!clients[0].share.is_limited());
    arbiter.set_client(1, limits(1000)).unwrap();
    let counted = std::cell::Cell::new(0);
    run(&world, &device, &mut clients, Span::from_secs(2), |clients| {
        counted.set(clients[0].latencies.len());
        arbiter.set_client(1, limits(4000)).unwrap();
    });
    let (before, after) = (counted.get(), clients[0].latencies.len() - counted.get());
    assert!((1000..=1020).contains(&before), "{before}");
    assert!((3990..=4060).contains(&after), "{after}");
    arbiter.set_client(1, None).unwrap();
    assert!(!clients[0].share.is_limited());
}

/// A neighbour with 256 requests at a time raises the 99th percentile of a client with one by at most a factor of two,
/// if the neighbour is capped or the device's depth is.
#[test]
fn a_flood_hardly_delays_a_neighbour_under_a_cap() {
    let p99 = |flood: bool, depth: u32, iops: u64| {
        let world = World::by_hand(1);
        let device = open(&world, "sim(nvme_ssd)");
        let arbiter = Arbiter::new();
        arbiter.set_device(DeviceLimits { depth, ..DeviceLimits::default() }).unwrap();
        let mut clients = vec![Client::new(&arbiter, 1, &device, 1, 4096)];
        if flood {
            clients.push(Client::new(&arbiter, 2, &device, 256, 4096));
            arbiter.set_client(2, Some(ClientLimits { iops, ..ClientLimits::default() })).unwrap();
        }
        run(&world, &device, &mut clients, Span::from_millis(200), |_| {});
        p99(&clients[0])
    };
    let alone = p99(false, 0, 0);
    let (uncapped, rate, depth) = (p99(true, 0, 0), p99(true, 0, 20_000), p99(true, 4, 0));
    assert!(rate <= 2 * alone, "{rate} ns with a capped neighbour, {alone} ns alone");
    assert!(depth <= 2 * alone, "{depth} ns with a cap of the depth, {alone} ns alone");
    assert!(uncapped > 2 * alone, "{uncapped} ns without a cap, {alone} ns alone: the cap has nothing to do");
}

/// Zeroes may be longer than any write, and would take the bandwidth of ten seconds at once.
#[test]
fn a_long_request_takes_bandwidth_part_by_part() {
    let arbiter = Arbiter::new();
    arbiter.set_device(DeviceLimits { bandwidth: 32 * MIB, ..DeviceLimits::default() }).unwrap();
    let (long, short) = (arbiter.join(1, Arc::new(Silent)), arbiter.join(2, Arc::new(Silent)));
    let begin = Time(1);
    let (mut now, mut asked, mut longest, mut count) = (begin, begin, Span(0), 0);
    while let Admit::At(of_long) = long.admit(now, 320 * MIB) {
        now = match short.admit(now, MIB) {
            Admit::Now => {
                short.complete(now);
                longest = longest.max(now.since(asked));
                (asked, count) = (now, count + 1);
                now
            }
            Admit::At(at) => at.min(of_long),
            Admit::OnBell => panic!("there is no depth"),
        };
    }
    // Each gets half: the long one nine parts of 32 MiB before the last one, with which it starts.
    let took = now.since(begin).as_millis();
    assert!((17_000..=19_000).contains(&took), "{took} ms for 320 MiB at half of 32 MiB per second");
    assert!((270..=300).contains(&count), "{count} MiB of the other client meanwhile");
    assert!(longest.as_millis() < 1100, "{} ms for 1 MiB", longest.as_millis());
    assert_eq!(arbiter.client(1).map(|state| state.waits), Some(false));
    // It is counted as one request.
    long.complete(now);
    arbiter.set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
    assert_eq!(short.admit(now, MIB), Admit::Now, "nothing runs");
}

#[test]
fn a_client_that_leaves_gives_back_what_it_holds() {
    let arbiter = Arbiter::new();
    arbiter.set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
    let (first, second) = (arbiter.join(1, Arc::new(Silent)), arbiter.join(2, Arc::new(Silent)));
    let third = arbiter.join(3, Arc::new(Silent));
    assert_eq!(first.admit(Time(1), 512), Admit::Now);
    assert_eq!(second.admit(Time(2), 512), Admit::OnBell);
    assert_eq!(third.admit(Time(3), 512), Admit::OnBell);
    drop(first);
    // Granted to the second one, which has not asked again.
    assert_eq!(third.admit(Time(4), 512), Admit::OnBell);
    drop(second);
    assert_eq!(third.admit(Time(5), 512), Admit::Now);
    assert!(arbiter.client(2).is_none() && !arbiter.client(3).unwrap().waits);
}

/// A client that waits for a place in the device is told when it waits for the bandwidth instead, also if no other client
/// calls the arbiter again.
#[test]
fn a_client_that_waits_for_a_place_learns_when_it_waits_for_the_rate() {
    // The last number is the second at which the request starts: a part of 32 MiB takes one.
    let cases = [(32 * MIB, 4096, 1), (4096, 320 * MIB, 9), (32 * MIB, 320 * MIB, 10)];
    for (bytes_before, bytes, second) in cases {
        for leaves in [false, true] {
            let case = format!("{bytes} bytes after {bytes_before}, leaves: {leaves}");
            let arbiter = Arbiter::new();
            let limits = DeviceLimits { depth: 1, bandwidth: 32 * MIB, ..DeviceLimits::default() };
            arbiter.set_device(limits).unwrap();
            let bell = Arc::new(Counted::default());
            let waiting = arbiter.join(1, Arc::clone(&bell) as Arc<dyn Bell>);
            let before = arbiter.join(2, Arc::new(Silent));
            assert_eq!(before.admit(Time(1), bytes_before), Admit::Now, "{case}");
            assert_eq!(waiting.admit(Time(2), bytes), Admit::OnBell, "{case}");
            assert_eq!(bell.0.load(Ordering::Relaxed), 0, "{case}");
            match leaves {
                true => drop(before),
                false => before.complete(Time(3)),
            }
            assert_eq!(bell.0.load(Ordering::Relaxed), 1, "{case}");
            let mut now = Time(4);
            while let Admit::At(at) = waiting.admit(now, bytes) {
                assert!(at > now, "{case}");
                now = at;
            }
            assert_eq!(arbiter.client(1).map(|state| state.waits), Some(false), "{case}: OnBell");
            assert!(now.0.abs_diff(second * 1_000_000_000) < 20_000_000, "{case}: started at {now:?}");
        }
    }
}

#[test]
fn a_request_that_is_taken_back_gives_its_place_back() {
    let arbiter = Arbiter::new();
    arbiter.set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
    let (first, second) = (arbiter.join(1, Arc::new(Silent)), arbiter.join(2, Arc::new(Silent)));
    let bell = Arc::new(Counted::default());
    let third = arbiter.join(3, Arc::clone(&bell) as Arc<dyn Bell>);
    assert_eq!(first.admit(Time(1), 512), Admit::Now);
    assert_eq!(second.admit(Time(2), 512), Admit::OnBell);
    assert_eq!(third.admit(Time(3), 512), Admit::OnBell);
    first.complete(Time(4));
    assert_eq!(third.admit(Time(5), 512), Admit::OnBell, "the second one has the place");
    second.withdraw();
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert_eq!(third.admit(Time(6), 512), Admit::Now);
    third.withdraw();
    assert_eq!(second.admit(Time(7), 512), Admit::OnBell, "what runs is not taken back");
    second.withdraw();
    assert_eq!(arbiter.client(2).map(|state| state.waits), Some(false));
}

#[test]
fn the_request_after_one_that_is_taken_back_does_not_wait_for_its_rest() {
    let arbiter = Arbiter::new();
    arbiter.set_device(DeviceLimits { bandwidth: 32 * MIB, ..DeviceLimits::default() }).unwrap();
    let share = arbiter.join(1, Arc::new(Silent));
    let Admit::At(at) = share.admit(Time(1), 320 * MIB) else { panic!("it is long") };
    share.withdraw();
    assert_eq!(share.admit(at, 4096), Admit::Now);
}

#[test]
fn limits_out_of_range_are_refused_and_the_old_ones_stay() {
    let arbiter = Arbiter::new();
    let share = arbiter.join(1, Arc::new(Silent));
    let limits = ClientLimits { weight: 0, ..ClientLimits::default() };
    let error = arbiter.set_client(1, Some(limits)).unwrap_err();
    assert_eq!(error.to_string(), "weight is 0 parts; expected 1 to 1000 parts");
    assert!(arbiter.set_device(DeviceLimits { iops: u64::MAX, ..DeviceLimits::default() }).is_err());
    assert!(!share.is_limited());
    assert_eq!(arbiter.set_client(9, None), Ok(false));
}
