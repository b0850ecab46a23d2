//! Closed loops in virtual time: processes that always have requests, a disk, and the service that each
//! process receives.

use super::*;
use alloc::vec::Vec;

/// A process that keeps a number of requests outstanding, and sends the next one when one completes.
#[derive(Clone, Copy)]
struct Task {
    like: RequestInfo,
    depth: u32,
    /// Whether requests are scattered over the disk.
    scattered: bool,
    /// Start time in milliseconds.
    from: u64,
}

fn reader(context: u32, level: u8, sectors: u64) -> Task {
    let ioprio = IoPrio::new(Class::BestEffort, level);
    let like = RequestInfo { ioprio, ..read(context, u64::from(context) << 24, sectors) };
    Task { like, depth: 1, scattered: false, from: 0 }
}

fn writer(sectors: u64) -> Task {
    Task { like: write(1 << 30, sectors), depth: 16, scattered: false, from: 0 }
}

/// A disk: sectors per millisecond and milliseconds per seek; one request at a time.
#[derive(Clone, Copy)]
struct Disk {
    rate: u64,
    seek: u64,
}

/// A disk whose seeks take no time.
const EVEN: Disk = Disk { rate: 200, seek: 0 };
const SEEKING: Disk = Disk { rate: 200, seek: 8 * MS };

#[derive(Default)]
struct Outcome {
    sectors: Vec<u64>,
    /// Nanoseconds that the disk worked for each task.
    time: Vec<u64>,
    /// When the requests of each task were started.
    starts: Vec<Vec<u64>>,
}

struct Loop<'a> {
    bfq: &'a mut Bfq,
    disk: Disk,
    tasks: Vec<Task>,
    /// By slot: the task and its request.
    places: Vec<Option<(usize, RequestInfo)>>,
    random: u64,
    head: u64,
    outcome: Outcome,
}

impl Loop<'_> {
    fn send(&mut self, now: u64, who: usize) {
        let task = &mut self.tasks[who];
        let info = task.like;
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (self.random >> 40) * 4096;
        task.like.pos = if task.scattered { random } else { info.end() };
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some((who, info));
        self.bfq.insert(Time(now), id(place as u32), &info);
    }

    fn run(mut self, until: u64) -> Outcome {
        let (mut now, mut begun) = (0, alloc::vec![false; self.tasks.len()]);
        while now < until {
            for (who, begun) in begun.iter_mut().enumerate() {
                if !*begun && now >= self.tasks[who].from * MS {
                    *begun = true;
                    (0..self.tasks[who].depth).for_each(|_| self.send(now, who));
                }
            }
            let Some(started) = self.bfq.dispatch(Time(now), false) else {
                now = self.bfq.next_wakeup().expect("it waits for a timer").0;
                continue;
            };
            let (who, info) = self.places[started.index as usize].expect("a request that is queued");
            let seek = if self.head.abs_diff(info.pos) > 4096 { self.disk.seek } else { 0 };
            let time = seek + info.len / 512 * MS / self.disk.rate;
            self.head = info.end();
            self.outcome.sectors[who] += info.len / 512;
            self.outcome.time[who] += time;
            self.outcome.starts[who].push(now);
            now += time;
            self.bfq.completed(Time(now), started, &info);
            self.places[started.index as usize] = None;
            self.send(now, who);
        }
        self.outcome
    }
}

/// Runs the loop for `seconds`.
fn run(bfq: &mut Bfq, disk: Disk, tasks: &[Task], seconds: u64) -> Outcome {
    let zero = || alloc::vec![0; tasks.len()];
    let outcome = Outcome { sectors: zero(), time: zero(), starts: alloc::vec![Vec::new(); tasks.len()] };
    let tasks = tasks.to_vec();
    Loop { bfq, disk, tasks, places: Vec::new(), random: 1, head: 0, outcome }.run(seconds * 1000 * MS)
}

/// Whether `part` of `whole` is `share` thousandths, within `percent` percent of that.
fn is_near(part: u64, whole: u64, share: u64, percent: u64) -> bool {
    let fair = whole * share / 1000;
    part.abs_diff(fair) * 100 <= fair * percent
}

#[test]
fn shares_are_by_weight_whatever_the_budget() {
    for max_budget in [0, 64, 1000, 16384, 1 << 20] {
        for levels in [&[4, 4][..], &[0, 7], &[0, 4], &[2, 6, 6], &[0, 1, 2, 3, 4, 5, 6, 7]] {
            for sectors in [8, 256] {
                // A disk that seeks: otherwise the queue with the least weight is not waited for.
                let settings = [("low_latency", 0), ("max_budget", max_budget), ("rotational", 1)];
                let mut bfq = bfq(&settings);
                let tasks: Vec<Task> =
                    levels.iter().enumerate().map(|(i, &level)| reader(i as u32, level, sectors)).collect();
                let got = run(&mut bfq, EVEN, &tasks, 20).sectors;
                let (all, weights) =
                    (got.iter().sum::<u64>(), levels.iter().map(|l| 8 - u64::from(*l)).sum::<u64>());
                for (&level, &got) in levels.iter().zip(&got) {
                    let share = (8 - u64::from(level)) * 1000 / weights;
                    assert!(
                        is_near(got, all, share, 12),
                        "max_budget {max_budget}, levels {levels:?}, {sectors} sectors: level {level} got {got} of {all}"
                    );
                }
            }
        }
    }
}

#[test]
fn asynchronous_sectors_cost_three_times() {
    let mut bfq = bfq(&[("low_latency", 0), ("max_budget", 2000)]);
    let got = run(&mut bfq, EVEN, &[reader(1, 4, 64), writer(64)], 30).sectors;
    assert!(is_near(got[0], got[0] + got[1], 750, 3), "{got:?}");
}

#[test]
fn who_seeks_is_charged_time() {
    let mut bfq = bfq(&[("low_latency", 0)]);
    let scattered = Task { scattered: true, ..reader(2, 4, 8) };
    let outcome = run(&mut bfq, SEEKING, &[reader(1, 4, 64), scattered], 60);
    let all: u64 = outcome.time.iter().sum();
    assert!(is_near(outcome.time[1], all, 500, 25), "the disk's time for each: {:?}", outcome.time);
    let alone = 60 * 1000 * SEEKING.rate;
    assert!(outcome.sectors[0] > alone / 3, "{:?} of {alone}", outcome.sectors);
}

#[test]
fn the_idle_class_has_a_turn_every_200_ms() {
    let idle = Task {
        like: RequestInfo { ioprio: IoPrio::new(Class::Idle, 0), ..read(9, 1 << 29, 8) },
        ..writer(8)
    };
    for low_latency in [0, 1] {
        let mut bfq = bfq(&[("low_latency", low_latency)]);
        let outcome = run(&mut bfq, SEEKING, &[reader(1, 4, 64), reader(2, 4, 64), idle], 20);
        let starts = &outcome.starts[2];
        let gaps: Vec<u64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect();
        assert!(starts[0] / MS <= 330 && gaps.len() > 60, "{} turns, first at {}", starts.len(), starts[0]);
        assert!(gaps.iter().all(|gap| (199..=330).contains(gap)), "{gaps:?}");
    }
}

#[test]
fn alone_the_idle_class_has_the_disk() {
    let mut bfq = bfq(&[]);
    let like = RequestInfo { ioprio: IoPrio::new(Class::Idle, 0), ..read(9, 1 << 29, 8) };
    let outcome = run(&mut bfq, EVEN, &[Task { like, depth: 2, scattered: false, from: 0 }], 1);
    assert!(outcome.sectors[0] >= 199_990, "{:?}", outcome.sectors);
}

#[test]
fn real_time_has_all_of_the_disk() {
    let mut bfq = bfq(&[]);
    let like = RequestInfo { ioprio: IoPrio::new(Class::RealTime, 7), ..read(9, 1 << 29, 8) };
    let outcome =
        run(&mut bfq, EVEN, &[Task { like, depth: 1, scattered: false, from: 0 }, reader(1, 0, 8)], 5);
    assert_eq!(outcome.sectors[1], 0, "it is waited for");
}

#[test]
fn an_interactive_process_has_thirty_times_the_weight() {
    let mut bfq = bfq(&[("wr_max_time", 2000), ("wr_max_softrt_rate", 0), ("max_budget", 200)]);
    let late = Task { from: 5000, ..reader(2, 4, 8) };
    let outcome = run(&mut bfq, Disk { rate: 20, seek: 0 }, &[reader(1, 4, 8), late], 10);
    let within = |from: u64, to: u64| {
        let count =
            |starts: &Vec<u64>| starts.iter().filter(|at| (from * MS..to * MS).contains(at)).count() as u64;
        (count(&outcome.starts[0]), count(&outcome.starts[1]))
    };
    let (old, new) = within(5000, 7000);
    assert!(is_near(new, old + new, 968, 1), "{new} for the new one, {old} for the other");
    let (old, new) = within(7200, 10_000);
    assert!(is_near(new, old + new, 500, 4), "{new} for the new one, {old} for the other, after that");
}

#[test]
fn strict_guarantees_keep_one_request_in_the_device() {
    let mut bfq = bfq(&[("strict_guarantees", 1)]);
    for i in 0..8 {
        bfq.insert(Time(0), id(i), &read(i % 2, u64::from(i) * 8, 8));
    }
    let mut served = 0;
    while !bfq.is_empty() {
        let started = bfq.dispatch(Time(served * MS), false);
        let Some(started) = started else {
            served = bfq.next_wakeup().expect("it waits").0.div_ceil(MS);
            continue;
        };
        assert_eq!(bfq.dispatch(Time(served * MS), false), None);
        assert_eq!(bfq.next_wakeup(), None, "the completion asks again");
        served += 1;
        bfq.completed(Time(served * MS), started, &read(started.index % 2, 0, 8));
    }
    assert!(bfq.dispatch(Time(served * MS), false).is_none());
}

#[test]
fn the_rate_of_the_device_makes_the_largest_budget() {
    let mut bfq = bfq(&[("low_latency", 0)]);
    assert_eq!(bfq.largest_budget(), 16384);
    run(&mut bfq, Disk { rate: 300, seek: 0 }, &[reader(1, 4, 256)], 30);
    assert!(is_near(bfq.largest_budget(), 300 * 125, 1000, 3), "{}", bfq.largest_budget());
    // A slower stream counts too, as long as it is sequential.
    let mut again = bfq.clone();
    run(&mut again, Disk { rate: 100, seek: 0 }, &[reader(1, 4, 256)], 60);
    assert!(again.largest_budget() < 300 * 125, "{}", again.largest_budget());
    // A seeky queue says nothing about the rate that the device could reach.
    let scattered = Task { scattered: true, ..reader(2, 4, 8) };
    let known = bfq.largest_budget();
    run(&mut bfq, SEEKING, &[scattered], 30);
    assert_eq!(bfq.largest_budget(), known);
}
