//! Futures of one turn of an executor, which are handed over together, and event loops that wait for them. The test plays the part of
//! the service thread.

use super::*;
use crate::future::Io;
use crate::sync_io::IoOptions;
use platter_block::bio::Flags;

type Write = Io<Vec<u8>>;

/// A disk, its lane, and a list that looks after it and knows by when it comes by again: two I/Os are in flight.
struct Rig {
    device: Device,
    disk: Arc<Shared>,
    lane: Arc<AsyncLane>,
    watch: Watch,
    woken: Arc<Woken>,
    first: Vec<Write>,
}

impl Rig {
    fn new() -> Rig {
        let (device, disk) = slow();
        let mut watch = Watch::default();
        let lane = watched_by(&mut watch, &device);
        let mut rig = Rig { device, disk, lane, watch, woken: Arc::default(), first: Vec::new() };
        rig.first = (0..2).map(|_| rig.polled()).collect();
        rig.looked_after();
        rig
    }

    fn write(&self) -> Write {
        self.device.write(0, vec![1u8; 512])
    }

    fn poll(&self, io: &mut Write) -> bool {
        poll(io, &Waker::from(Arc::clone(&self.woken))).is_ready()
    }

    fn polled(&self) -> Write {
        let mut io = self.write();
        assert!(!self.poll(&mut io));
        io
    }

    /// The list has looked at the lane just now.
    fn looked_after(&mut self) {
        self.lane.call();
        self.watch.run();
    }

    /// An I/O that waits to be handed over. If the machine was so slow that the list is due by now, it looks again.
    fn deferred(&mut self) -> Write {
        loop {
            let io = self.polled();
            if self.lane.deferred() > 0 {
                return io;
            }
            self.first.push(io);
            self.looked_after();
        }
    }

    fn woken(&self) -> u64 {
        self.woken.0.load(Ordering::SeqCst)
    }

    fn submits(&self) -> u64 {
        self.disk.submits.load(Ordering::SeqCst)
    }

    /// The list runs until the future has been woken, although nothing polls any more.
    fn ends(mut self, mut io: Write) {
        let before = self.woken();
        self.disk.let_go();
        while self.woken() == before || !self.poll(&mut io) {
            self.watch.sleep(None);
            self.watch.run();
        }
    }
}

#[test]
fn only_the_first_of_a_turn_is_woken_and_hands_over_all() {
    let mut rig = Rig::new();
    let mut leader = rig.deferred();
    let (woken, submits) = (rig.woken(), rig.submits());
    assert!(woken > 0, "it is polled again after the others");
    let _others: Vec<_> = (0..5).map(|_| rig.polled()).collect();
    assert!(!rig.poll(&mut leader));
    assert_eq!(rig.lane.deferred(), 0);
    // Fewer only if the list was due meanwhile.
    assert!(rig.submits() > submits);
    assert!(rig.woken() > 0);
}

#[test]
fn a_future_that_waits_for_others_is_woken_although_nothing_polls_any_more() {
    let mut rig = Rig::new();
    let io = rig.deferred();
    rig.ends(io);
}

#[test]
fn the_others_are_handed_over_although_the_first_is_not_polled_again() {
    let mut rig = Rig::new();
    let leader = rig.deferred();
    let follower = rig.polled();
    std::mem::forget(leader);
    rig.ends(follower);
}

#[test]
fn the_others_are_handed_over_although_the_first_is_dropped() {
    let mut rig = Rig::new();
    let leader = rig.deferred();
    let follower = rig.polled();
    drop(leader);
    rig.ends(follower);
}

#[test]
fn a_task_that_moves_to_another_thread_is_woken_there() {
    let mut rig = Rig::new();
    let mut io = rig.deferred();
    let moved = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&moved));
    let io = std::thread::spawn(move || {
        assert!(poll(&mut io, &waker).is_pending());
        io
    });
    let mut io = io.join().unwrap();
    assert_eq!(rig.lane.deferred(), 0, "the second poll hands it over");
    rig.disk.let_go();
    while moved.0.load(Ordering::SeqCst) == 0 {
        rig.watch.sleep(None);
        rig.watch.run();
    }
    assert!(rig.poll(&mut io));
}

#[test]
fn no_barrier_passes_a_polled_future() {
    let barrier = || IoOptions::flags(Flags::HARD_BARRIER);
    let mut rig = Rig::new();
    let _io = rig.deferred();
    let mut channel = rig.device.channel(1).unwrap();
    let mut bio = platter_block::bio::Bio::write(0, vec![1u8; 512]).unwrap();
    bio.add_flags(Flags::SOFT_BARRIER);
    channel.submit(bio).unwrap();
    assert_eq!(rig.lane.deferred(), 0, "before one of a channel");

    let mut rig = Rig::new();
    let _io = rig.deferred();
    let device = rig.device.clone();
    let call = std::thread::spawn(move || device.write_at_with(&[1; 512], 0, barrier()));
    while rig.lane.deferred() > 0 {
        std::thread::yield_now();
    }
    while !call.is_finished() {
        // Its descriptor is that of all lanes, so each of them may take the other's signal.
        rig.disk.let_go();
        rig.looked_after();
    }
    call.join().unwrap().unwrap();
}

#[test]
fn a_closed_device_has_carried_out_what_waited() {
    let mut rig = Rig::new();
    let io = rig.deferred();
    let submits = rig.submits();
    rig.disk.let_go();
    drop(io);
    let Rig { device, disk, first, lane, .. } = rig;
    drop((first, device));
    drop(lane);
    assert!(disk.submits.load(Ordering::SeqCst) > submits);
}

/// The guard of the costs: a device at depth 32 gets at most a quarter of a doorbell for each I/O, and no thread is rung.
#[test]
fn at_depth_32_a_doorbell_rings_for_four_futures_and_no_thread_is_woken() {
    const DEPTH: usize = 32;
    const ROUNDS: u64 = 100;
    let mut rig = Rig::new();
    rig.lane.attach();
    rig.disk.let_go();
    rig.looked_after();
    let (submits, signals) = (rig.submits(), EventFd::signals_made());
    let mut handles = Vec::new();
    for _ in 0..ROUNDS {
        // As far as the list is due.
        rig.watch.run();
        rig.disk.hold();
        let mut all: Vec<_> = (0..DEPTH).map(|_| rig.polled()).collect();
        rig.disk.let_go();
        while !all.is_empty() {
            handles.clear();
            rig.lane.drive(&mut handles);
            all.retain_mut(|io| !rig.poll(io));
        }
    }
    let own = 2 * ROUNDS; // The disk's.
    let (ios, submits) = (DEPTH as u64 * ROUNDS, rig.submits() - submits);
    assert!(submits <= ios / 4, "{submits} for {ios}");
    assert!(EventFd::signals_made() - signals <= own, "{}", EventFd::signals_made() - signals);
    rig.lane.detach();
}

/// A lane with an event loop is left to it, as long as it comes by.
#[test]
fn an_event_loop_that_does_not_come_by_is_replaced_and_no_other() {
    let mut rig = Rig::new();
    rig.lane.attach();
    rig.looked_after();
    let io = rig.polled();
    rig.disk.let_go();
    let mut handles = Vec::new();
    assert!(rig.lane.drive(&mut handles).is_some());
    assert!(!handles.is_empty());
    rig.ends(io);

    let mut rig = Rig::new();
    rig.lane.attach();
    rig.looked_after();
    let io = rig.polled();
    // No loop drives it from now on.
    rig.ends(io);

    let mut rig = Rig::new();
    rig.lane.attach();
    rig.looked_after();
    let io = rig.polled();
    rig.lane.detach();
    rig.ends(io);
}
