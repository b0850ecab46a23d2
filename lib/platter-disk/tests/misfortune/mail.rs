//! Bios that come back through another lane.

use crate::disk::{Disk, ELEVATORS, Lane, Options, read};

/// A program in virtual time polls its channels and advances the clock to the first of their wake-ups. The channel whose bio
/// another one brought back was polled before it.
#[test]
fn a_lane_asks_to_be_run_when_another_one_has_brought_its_bio_back() {
    for elevator in ELEVATORS.into_iter().filter(|&name| name != "none") {
        let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
        let (mut one, mut two) = (Lane::open(&device), Lane::open(&device));
        one.send(read(0, 1));
        two.send(read(8192, 2));
        assert!(one.channel.next_wakeup().is_none_or(|at| at > disk.now()), "{elevator}: the disk has both");
        for _ in 0..4 {
            disk.finish_all();
            two.poll();
        }
        assert!(two.is_done(2) && !one.is_done(1), "{elevator}");
        assert!(one.channel.next_wakeup().is_some_and(|at| at <= disk.now()), "{elevator}");
        one.poll();
        assert!(one.is_done(1), "{elevator}");
        assert!(one.channel.next_wakeup().is_none_or(|at| at > disk.now()), "{elevator}");
    }
}
