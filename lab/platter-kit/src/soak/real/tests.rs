use super::script::{Script, Scripted};
use super::*;
use crate::soak::feature::Feature;
use platter_block::bio::{Bio, Flags};
use platter_block::counters::Counters;
use platter_block::disk::DiskChannel;
use platter_block::driver::Driver;
use platter_block::lane::Lane;
use platter_block::queue::{QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use platter_disk::drivers::memory::Memory;
use std::path::Path;
use std::sync::Arc;

fn soak(place: &Path, drivers: &[FileDriver], seed: u64, rounds: u64) -> RealReport {
    let (place, drivers, without) = (place.to_owned(), drivers.to_vec(), Features::default());
    let options = RealOptions { place, drivers, seed, rounds, time: None, threads: 3, ios: 50, without };
    let report = run(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    report.skipped.iter().for_each(|why| eprintln!("skipped: {why}"));
    report
}

/// On files, with every driver that there is.
#[test]
fn real_drivers_keep_their_promises_under_a_script() {
    let dir = tempfile::tempdir().unwrap();
    // What comes about depends on how threads are run, too.
    let (mut missing, mut seeds) = (vec!["all"], 1..=6);
    while !missing.is_empty() {
        let seed = seeds.next().unwrap_or_else(|| panic!("never came across {missing:?}"));
        let report = soak(dir.path(), &FileDriver::ALL, seed, 3);
        assert_eq!(report.found, None);
        assert!(report.rounds >= 3 && report.ios > 100, "{report:?}");
        let seen = |name: &str| report.rows().iter().any(|&(row, count)| row == name && count > 0);
        if missing == ["all"] {
            missing = report.rows().iter().map(|&(name, _)| name).collect();
            missing.retain(|&name| name != "transient errors" && name != "errors");
        }
        missing.retain(|name| !seen(name));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
}

struct Rig {
    script: Arc<Script>,
    lane: SchedLane<Scripted>,
    now: Time,
}

impl Rig {
    /// A queue over a disk in memory whose driver has only the features `has`.
    fn new(seed: u64, has: &[Feature]) -> Rig {
        let memory = Memory::new(1 << 20).unwrap();
        let all = Feature::ALL.iter().fold(Features::default(), |all, feature| all.and(*feature));
        let has = has.iter().fold(Features::default(), |has, feature| has.and(*feature));
        let script = Arc::new(Script::new(seed, None, 512, all.without(has)));
        let geometry = memory.geometry();
        let driver = Scripted::new(DiskChannel::new(memory.channel(32)), &script, true);
        let queue = SchedQueue::new(geometry, Settings::default(), None, Arc::new(Counters::default()));
        Rig { script, lane: QueueLane::new(queue, driver), now: Time(0) }
    }

    /// Writes one block after the other, until one does not complete at once.
    fn until_held(&mut self) -> u64 {
        for number in 0..100_000 {
            let mut bio = Bio::write(number % 1000 * 512, vec![7u8; 512]).unwrap();
            bio.add_flags(Flags::NOMERGE);
            self.lane.submit(self.now, bio);
            if self.look() == 0 {
                return number;
            }
        }
        panic!("the script does nothing");
    }

    fn look(&mut self) -> usize {
        let mut done = Vec::new();
        // What is submitted in one run is reaped in the next.
        for _ in 0..2 {
            self.lane.run(self.now);
            self.lane.take_done(&mut done);
        }
        assert!(done.iter().all(|bio| bio.status().is_ok()));
        done.len()
    }
}

#[test]
fn what_is_delayed_comes_in_its_time_and_what_is_stuck_when_it_is_released() {
    let mut rig = Rig::new(1, &[Feature::Spikes]);
    rig.until_held();
    rig.now += Span::from_millis(5);
    assert_eq!(rig.look(), 1);
    assert_eq!(rig.script.done().delayed, 1);

    let mut rig = Rig::new(2, &[Feature::Stuck]);
    rig.until_held();
    rig.now += Span::from_millis(100);
    assert_eq!(rig.look(), 0);
    let asked = rig.lane.driver().outstanding();
    assert!(asked.is_none_or(|asked| asked.outstanding() > 0));
    rig.script.release();
    assert_eq!((rig.look(), rig.script.done().stuck), (1, 1));
    // Or by itself, after a while.
    rig.until_held();
    rig.now += Span::from_secs(1);
    assert_eq!(rig.look(), 1);
    rig.script.end();
    let requests = rig.script.done().requests;
    for sector in 0..1000 {
        rig.lane.submit(rig.now, Bio::write(sector * 512, vec![7u8; 512]).unwrap());
        rig.look();
    }
    assert_eq!((rig.script.done().stuck, rig.script.done().requests > requests), (2, true));
}
