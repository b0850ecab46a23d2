//! Hard barriers as ordered tags, on a simulated disk that serves its queue by positioning time.

use platter_block::bio::{Bio, Flags, Op};
use platter_block::counters::Counters;
use platter_block::driver::Driver;
use platter_block::fault::Kind;
use platter_block::lane::{Cancel, Lane};
use platter_block::queue::{Ordered, QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_sim::catalogue::{self, Choices};
use platter_sim::fault::{Blow, Lands, Strike, TRANSIENT};
use platter_sim::medium::Medium;
use platter_sim::power::{Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use std::sync::Arc;

/// Sectors: far apart, so that a disk which may choose serves them in another order than that of their submission.
const FAR: u64 = 60_000_000;
const MIDDLE: u64 = 30_000_000;
const NEAR: u64 = 64;

struct Rig {
    world: Arc<World>,
    disk: SimDisk,
    lane: SchedLane<Box<dyn Driver>>,
    done: Vec<Bio>,
}

impl Rig {
    fn new(cache: bool, ordered: Ordered) -> Rig {
        Rig::with(cache, ordered, None)
    }

    fn with(cache: bool, ordered: Ordered, supply: Option<Supply>) -> Rig {
        let world = World::new(1);
        let choices = Choices { write_cache: Some(cache), ..Choices::default() };
        let model = catalogue::by_name("man3367mp").unwrap().make(choices).unwrap();
        let options = Options { medium: Some(Medium::new()), faults: None, supply };
        let disk = SimDisk::with(&world, model, options);
        let settings = Settings { plug: None, ordered, ..Settings::default() };
        let elevator = platter_elevators::by_name("noop").map(|row| (row.make)());
        let queue = SchedQueue::new(disk.geometry(), settings, elevator, Arc::new(Counters::default()));
        // SAFETY: the lane keeps the memory of a request until its driver has reported it.
        let lane = QueueLane::new(queue, unsafe { disk.channel().into_driver() });
        Rig { world, disk, lane, done: Vec::new() }
    }

    fn submit(&mut self, bios: impl IntoIterator<Item = Bio>) {
        let now = self.world.clock().now();
        bios.into_iter().for_each(|bio| self.lane.submit(now, bio));
        self.lane.run(now);
    }

    fn step(&mut self) -> bool {
        self.lane.run(self.world.clock().now());
        self.lane.take_done(&mut self.done);
        match self.lane.next_wakeup().filter(|_| !self.lane.is_idle()) {
            Some(at) => self.world.clock().advance_to(at),
            None => return false,
        }
        true
    }

    /// Runs until nothing is under way. Returns token and error of each bio, in the order of their completion.
    fn settle(&mut self) -> Vec<(u64, Option<Kind>)> {
        let mut rounds = 0;
        while self.step() {
            rounds += 1;
            assert!(rounds < 10_000, "it does not come to an end");
        }
        let done = self.done.drain(..);
        done.map(|bio| (bio.token(), bio.status().err().map(|fault| fault.kind))).collect()
    }

    fn strike(&self, op: Op, blow: Blow) {
        self.disk.strike(Strike { op: Some(op), blow });
    }

    fn read(&mut self, sector: u64) -> u8 {
        self.submit([Bio::read(sector * 512, vec![77u8; 512]).unwrap()]);
        while self.step() {}
        let mut bio = self.done.pop().unwrap();
        assert_eq!(bio.status(), Ok(()));
        bio.take_buffer::<Vec<u8>>().unwrap()[0]
    }

    fn counts(&self) -> (u64, u64, u64) {
        let counters = self.lane.counters();
        (counters.barriers.get(), counters.barriers_tagged.get(), counters.barriers_redone.get())
    }
}

/// A write of one sector, filled with its token.
fn write(token: u64, sector: u64) -> Bio {
    let mut bio = Bio::write(sector * 512, vec![token as u8; 512]).unwrap();
    bio.set_token(token);
    bio
}

fn barrier(token: u64, sector: u64) -> Bio {
    let mut bio = write(token, sector);
    bio.add_flags(Flags::HARD_BARRIER);
    bio
}

/// Two writes, a barrier and two writes, which the disk would serve in another order.
fn group() -> [Bio; 5] {
    [write(1, NEAR), write(2, FAR), barrier(3, MIDDLE), write(4, NEAR + 1000), write(5, MIDDLE + 64)]
}

const TOKENS: [u64; 5] = [1, 2, 3, 4, 5];

/// Checks that nothing completed on the wrong side of the barrier.
fn assert_in_order(done: &[(u64, Option<Kind>)]) {
    let at = |token| done.iter().position(|(other, _)| *other == token).expect("it has completed");
    assert!(at(1) < at(3) && at(2) < at(3) && at(3) < at(4) && at(3) < at(5), "{done:?}");
}

#[test]
fn the_disk_has_everything_at_once_and_keeps_the_order() {
    for cache in [false, true] {
        let mut rig = Rig::new(cache, Ordered::Tag);
        assert_eq!(rig.lane.queue.barrier_mode(), if cache { "tag+FUA" } else { "tag" });
        rig.submit(group());
        // With a cache a flush goes before the barrier.
        let inside = rig.disk.inside().len();
        assert!(inside >= 4 + usize::from(cache), "{inside} commands");
        let done = rig.settle();
        assert_in_order(&done);
        assert!(done.iter().all(|(_, error)| error.is_none()), "{done:?}");
        assert_eq!(rig.counts(), (1, 1, 0));
    }
}

#[test]
fn without_tags_the_queue_drains() {
    let mut rig = Rig::new(false, Ordered::Drain);
    assert_eq!(rig.lane.queue.barrier_mode(), "drain");
    rig.submit(group());
    assert_eq!(rig.disk.inside().len(), 2);
    assert_in_order(&rig.settle());
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn a_read_behind_the_barrier_sees_its_data() {
    let mut rig = Rig::new(false, Ordered::Tag);
    let mut read = Bio::read(MIDDLE * 512, vec![77u8; 512]).unwrap();
    read.set_token(4);
    rig.submit([write(2, FAR), barrier(3, MIDDLE), read]);
    while rig.step() {}
    let mut read = rig.done.pop().unwrap();
    assert_eq!((read.token(), read.take_buffer::<Vec<u8>>().unwrap()[0]), (4, 3));
}

#[test]
fn a_barrier_behind_a_request_that_is_retried_drains() {
    for transient in TRANSIENT {
        let mut rig = Rig::new(false, Ordered::Tag);
        rig.strike(Op::Write, Blow::Transient(transient));
        rig.submit(group());
        let done = rig.settle();
        assert_in_order(&done);
        assert!(done.iter().all(|(_, error)| error.is_none()), "{done:?}");
        assert_eq!(rig.counts(), (1, 1, 1));
    }
}

/// Two failures: a retry of the first is with the disk behind the ordered tag when the second ends what follows it. It keeps its
/// side of the barrier nevertheless.
#[test]
fn a_retry_that_is_aborted_keeps_its_side_of_the_barrier() {
    let pairs = TOKENS.into_iter().flat_map(|first| (first + 1..=5).map(move |second| (first, second)));
    for (first, second) in pairs {
        for blow in [Blow::Error, Blow::Transient(TRANSIENT[0])] {
            let mut rig = Rig::new(false, Ordered::Tag);
            for bio in group() {
                if bio.token() == first {
                    rig.strike(Op::Write, Blow::Transient(TRANSIENT[1]));
                } else if bio.token() == second {
                    rig.strike(Op::Write, blow);
                }
                rig.submit([bio]);
            }
            let done = rig.settle();
            assert_in_order(&done);
            // What is not on the same side is aborted before it can fail.
            let fails = blow == Blow::Error && (second < 3 || first > 3);
            for (token, error) in done {
                let expected = (fails && token == second).then_some(Kind::Io);
                assert_eq!(error, expected, "{token} of {first} and {second}");
            }
        }
    }
}

#[test]
fn a_failed_write_fails_alone() {
    for (struck, failing) in TOKENS.into_iter().enumerate() {
        let mut rig = Rig::new(false, Ordered::Tag);
        let mut bios = group().into_iter();
        rig.submit(bios.by_ref().take(struck));
        rig.strike(Op::Write, Blow::Error);
        rig.submit(bios);
        let done = rig.settle();
        assert_in_order(&done);
        for (token, error) in done {
            assert_eq!(error, (token == failing).then_some(Kind::Io), "{token} of {struck}");
        }
        // What the barrier has to follow or the barrier itself was struck: only the first makes it drain.
        assert_eq!(rig.counts(), (1, 1, u64::from(struck < 2)), "{struck}");
    }
}

#[test]
fn a_failed_flush_of_the_barrier_stays_failed() {
    let mut rig = Rig::new(true, Ordered::Tag);
    rig.strike(Op::Flush, Blow::Error);
    rig.submit(group());
    let done = rig.settle();
    let failed: Vec<u64> =
        done.iter().filter(|(_, error)| error.is_some()).map(|(token, _)| *token).collect();
    assert_eq!(failed, [3], "{done:?}");
    assert!(rig.lane.queue.flush_failure().is_some());
    rig.submit([barrier(6, NEAR)]);
    assert_eq!(rig.settle(), [(6, Some(Kind::FlushFailed))]);
}

#[test]
fn what_has_steps_of_its_own_waits_for_the_barrier() {
    let mut rig = Rig::new(true, Ordered::Tag);
    let mut flush = Bio::flush();
    flush.set_token(6);
    rig.submit(group().into_iter().chain([flush, write(7, FAR + 64), barrier(8, NEAR), write(9, FAR)]));
    let done = rig.settle();
    assert!(done.iter().all(|(_, error)| error.is_none()), "{done:?}");
    let at = |token| done.iter().position(|(other, _)| *other == token).unwrap();
    assert!(at(3) < at(6) && at(3) < at(7) && at(7) < at(8) && at(8) < at(9), "{done:?}");
    assert_eq!(rig.counts(), (2, 2, 0));
}

#[test]
fn a_late_barrier_that_the_disk_has_ends_when_the_disk_returns_it() {
    let mut rig = Rig::new(false, Ordered::Tag);
    rig.strike(Op::Write, Blow::Stuck(Span::from_secs(100), Lands::Late));
    rig.lane.queue.set_depth(3);
    let begin = rig.world.clock().now();
    let late = barrier(3, MIDDLE);
    let which = Cancel::late(late.identity());
    rig.submit([write(2, FAR), late, write(4, NEAR), write(5, NEAR + 64), write(6, NEAR + 128)]);
    rig.world.clock().advance_to(begin + Span::from_secs(1));
    rig.lane.cancel(rig.world.clock().now(), &which);
    let done = rig.settle();
    assert!(rig.world.clock().now().since(begin) >= Span::from_secs(100));
    assert_eq!(done, (2..7).map(|token| (token, None)).collect::<Vec<_>>());
}

#[test]
fn a_power_cut_leaves_nothing_from_behind_what_it_has_taken() {
    for at in 1..40 {
        let supply = Supply::new();
        let mut rig = Rig::with(false, Ordered::Tag, Some(supply.clone()));
        rig.submit(group());
        supply.cut_at(Time(at * 500_000), Survivors::All);
        rig.settle();
        supply.restore();
        let [first, second, middle, next, last] =
            [NEAR, FAR, MIDDLE, NEAR + 1000, MIDDLE + 64].map(|sector| rig.read(sector) != 0);
        assert!(!middle || first && second, "{at}: the barrier without what is before it");
        assert!(!(next || last) || middle, "{at}: what is behind the barrier without it");
    }
}

impl Rig {
    fn switch(&mut self, ordered: Ordered) {
        let now = self.world.clock().now();
        self.lane.queue.switch_ordered(now, ordered);
        self.lane.run(now);
    }
}

/// What the queue has admitted before the switch ends first; what is held back by then waits for that.
#[test]
fn the_mode_is_switched_once_the_queue_has_drained() {
    for (from, to) in [(Ordered::Drain, Ordered::Tag), (Ordered::Tag, Ordered::Drain)] {
        for cache in [false, true] {
            let mut rig = Rig::new(cache, from);
            rig.submit(group());
            rig.switch(to);
            assert!(rig.lane.queue.ordered_switch_pending() && rig.lane.queue.ordered() == to);
            rig.submit(group().map(|mut bio| {
                bio.set_token(bio.token() + 10);
                bio
            }));
            let done = rig.settle();
            let tokens: Vec<u64> = done.iter().map(|(token, _)| *token).collect();
            assert_eq!(tokens.len(), 10);
            assert!(done.iter().all(|(_, fault)| fault.is_none()));
            assert!(tokens[2] == 3 && tokens[7] == 13, "{tokens:?}");
            // With tags everything of the first group is with the disk; without, what is behind its barrier is not.
            let first = if from == Ordered::Tag { 5 } else { 3 };
            assert!(tokens[..first].iter().all(|token| *token < 10), "{tokens:?}");
            // One of the two barriers was sent as a tag.
            assert_eq!((rig.counts().0, rig.counts().1), (2, 1));
            assert!(!rig.lane.queue.ordered_switch_pending());
        }
    }
}

#[test]
fn an_idle_queue_switches_at_once_and_a_second_switch_replaces_the_first() {
    let mut rig = Rig::new(true, Ordered::Drain);
    rig.switch(Ordered::Tag);
    assert_eq!((rig.lane.queue.barrier_mode(), rig.lane.queue.ordered_switch_pending()), ("tag+FUA", false));
    rig.submit(group());
    rig.switch(Ordered::Drain);
    rig.switch(Ordered::Tag);
    rig.submit([write(6, NEAR)]);
    assert_eq!(rig.settle().len(), 6);
    assert_eq!((rig.lane.queue.barrier_mode(), rig.counts().1), ("tag+FUA", 1));
}

/// A barrier that is aborted is carried out again before the switch, and what was taken back behind it waits.
#[test]
fn a_switch_waits_for_a_barrier_that_drains_after_a_failure() {
    let mut rig = Rig::new(true, Ordered::Tag);
    rig.strike(Op::Write, Blow::Transient(TRANSIENT[0]));
    rig.submit(group());
    rig.switch(Ordered::Drain);
    rig.submit([barrier(6, FAR + 1000), write(7, NEAR)]);
    let done = rig.settle();
    assert_eq!(done.iter().filter(|(_, fault)| fault.is_none()).count(), 7, "{done:?}");
    assert_eq!(rig.counts(), (2, 1, 1));
}

/// Time passes while the switch waits: a bio that is held back can be taken back as late.
#[test]
fn what_waits_for_a_switch_can_be_taken_back() {
    let mut rig = Rig::new(true, Ordered::Drain);
    rig.strike(Op::Write, Blow::Stuck(Span::from_secs(3600), Lands::Late));
    rig.submit([write(1, NEAR)]);
    rig.switch(Ordered::Tag);
    let late = write(2, FAR);
    let which = Cancel::late(late.identity());
    rig.submit([late]);
    rig.lane.cancel(rig.world.clock().now(), &which);
    while rig.done.is_empty() {
        assert!(rig.step());
    }
    assert_eq!((rig.done[0].token(), rig.done[0].status().unwrap_err().kind), (2, Kind::TimedOut));
}
