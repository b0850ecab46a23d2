//! Requests of other queues while one is waited for.

use super::*;

/// A reader that is waited for on a disk that queues, and writes of others.
struct Scene {
    bfq: Bfq,
    reader: u32,
    now: u64,
    sector: u64,
}

impl Scene {
    fn new() -> Scene {
        // Another weight, so that it is waited for although its requests are scattered.
        let mut bfq = bfq(&[("low_latency", 0), ("rotational", 1)]);
        (0..33).for_each(|_| bfq.device.look_at_queue(4, 1, false));
        bfq.insert(Time(0), id(0), &Scene::read(0));
        let reader = record(&bfq, &Scene::read(0));
        bfq.procs[reader].seeks = u32::MAX;
        let mut scene = Scene { bfq, reader, now: 0, sector: 1 << 20 };
        scene.write(30);
        scene.write(31);
        scene
    }

    fn read(sector: u64) -> RequestInfo {
        RequestInfo { ioprio: IoPrio::new(Class::BestEffort, 0), ..read(1, sector, 8) }
    }

    fn write(&mut self, slot: u32) {
        self.sector += 5000;
        self.bfq.insert(Time(self.now * MS), id(slot), &write(self.sector, 8));
    }

    fn dispatch(&mut self) -> Option<u32> {
        self.bfq.dispatch(Time(self.now * MS), false).map(|id| id.index)
    }

    fn complete(&mut self, slot: u32) {
        let info = if slot < 30 { Scene::read(0) } else { write(0, 8) };
        self.bfq.completed(Time(self.now * MS), id(slot), &info);
    }

    fn limit(&self) -> u32 {
        self.bfq.procs[self.reader].inject.limit
    }
}

/// Linux: `bfq_update_inject_limit`.
#[test]
fn the_limit_follows_how_long_the_own_requests_take() {
    let mut scene = Scene::new();
    assert_eq!(scene.dispatch(), Some(0));
    assert_eq!((scene.limit(), scene.dispatch()), (0, None), "at first nothing is injected");
    scene.now = 5;
    scene.complete(0);
    // A request alone takes 4 ms.
    scene.now = 12;
    scene.bfq.insert(Time(12 * MS), id(1), &Scene::read(1 << 22));
    assert_eq!(scene.dispatch(), Some(1));
    scene.now = 16;
    scene.complete(1);
    assert_eq!((scene.limit(), scene.bfq.procs[scene.reader].inject.alone), (1, Some(Span(4 * MS))));
    // One write is injected, and the next request takes less than 6 ms: two.
    assert_eq!((scene.dispatch(), scene.dispatch()), (Some(30), None));
    scene.now = 20;
    scene.bfq.insert(Time(20 * MS), id(2), &Scene::read(2 << 22));
    assert_eq!(scene.dispatch(), Some(2));
    scene.now = 25;
    scene.complete(30);
    scene.complete(2);
    assert_eq!(scene.limit(), 2);
    // With the next one it takes 6 ms: one again.
    assert_eq!(scene.dispatch(), Some(31));
    scene.now = 31;
    scene.bfq.insert(Time(31 * MS), id(3), &Scene::read(3 << 22));
    assert_eq!(scene.dispatch(), Some(3));
    scene.now = 37;
    scene.complete(31);
    scene.complete(3);
    assert_eq!(scene.limit(), 1);
}

#[test]
fn nothing_is_injected_into_a_stream() {
    let mut scene = Scene::new();
    scene.bfq.procs[scene.reader].seeks = 0;
    scene.bfq.procs[scene.reader].inject.limit = 8;
    assert_eq!((scene.dispatch(), scene.dispatch()), (Some(0), None), "its rate would suffer");
    scene.bfq.procs[scene.reader].seeks = u32::MAX;
    assert_eq!(scene.dispatch(), Some(30));
}

#[test]
fn the_own_asynchronous_writes_are_injected_in_any_case() {
    let mut scene = Scene::new();
    let own = RequestInfo { context: Context::new(1), ..write(8, 8) };
    let own = RequestInfo { ioprio: IoPrio::new(Class::BestEffort, 0), ..own };
    scene.bfq.insert(Time(0), id(40), &own);
    assert_eq!((scene.dispatch(), scene.dispatch(), scene.dispatch()), (Some(0), Some(40), None));
}

/// Linux: `bfq_check_waker`.
#[test]
fn who_is_woken_by_another_has_its_requests_injected() {
    for (times, late, found) in [(2, 0, false), (3, 0, true), (3, 4, false)] {
        let mut bfq = bfq(&[("low_latency", 0), ("rotational", 1)]);
        let (woken, waker) = (read(1, 1 << 20, 8), read(2, 0, 8));
        bfq.insert(Time(0), id(0), &woken);
        bfq.insert(Time(0), id(1), &waker);
        let (of, by) = (record(&bfq, &woken), record(&bfq, &waker));
        while let Some(started) = bfq.dispatch(Time(0), true) {
            bfq.completed(Time(0), started, if started.index == 0 { &woken } else { &waker });
        }
        for i in 1..=times {
            bfq.procs[of].short_think = false;
            bfq.last_completed = Some(bfq.procs[by].link(by));
            bfq.device.last_done = Time(i * 20 * MS);
            bfq.note_lone_arrival(Time((i * 20 + late) * MS), of);
        }
        let link = bfq.procs[by].link(by);
        assert_eq!(bfq.procs[of].waker.known == Some(link), found, "{times} times, {late} ms later");
    }
}
