//! A dead disk below: bios end, however often write-back is tried again.

use crate::rig;
use crate::workload::Workload;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::resident::PAGE;
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::channel::Channel;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::fault::FaultPlan;
use platter_sim::ideal::Ideal;
use platter_sim::power::Survivors;
use platter_sim::rng::Rng;
use platter_sim::{SimDisk, World};
use platter_stack::raid0::{self, Sizes};
use std::sync::Arc;

const SIZE: u64 = 128 << 10;

/// Bios end within this time.
const LONGEST: Span = Span::from_secs(100);

struct Dead {
    world: Arc<World>,
    channel: Channel,
    done: Vec<Bio>,
    failed: usize,
}

impl Dead {
    /// Lets time pass until nothing is in flight.
    fn settle(&mut self) {
        self.channel.flush();
        let until = self.world.clock().now() + LONGEST;
        let (mut turns, mut last) = (0, self.world.clock().now());
        while self.channel.outstanding() > 0 {
            self.channel.unplug();
            self.channel.poll(&mut self.done);
            let now = self.world.clock().now();
            assert!(now < until, "{} bios have not ended after {LONGEST:?}", self.channel.outstanding());
            turns = if now == last { turns + 1 } else { 0 };
            last = now;
            assert!(turns < 10_000, "time does not pass");
            let events = self.world.next_event().filter(|&at| at > now).into_iter();
            if let Some(at) = events.chain(self.channel.next_wakeup()).min() {
                self.world.clock().advance_to(at.max(now));
            }
        }
        self.failed += self.done.drain(..).filter(|bio| bio.status().is_err()).count();
    }
}

fn live(seed: u64) {
    let mut rng = Rng::new(seed);
    let world = World::new(seed);
    let count = rng.pick(&[1, 2, 2]);
    let latency = Span::from_micros(rng.pick(&[1, 100, 3000]));
    let ideal = Ideal { size: SIZE, latency, depth: 8, write_cache: rng.below(2) == 0 };
    let disks: Vec<_> = (0..count).map(|_| rig::disk(&world, ideal, None)).collect();
    let backend = |(disk, _): &(SimDisk, _)| rig::backend(disk, DiskSettings::default());
    let below = match &disks[..] {
        [only] => backend(only),
        several => raid0::new(several.iter().map(backend).collect(), 16384, Sizes::Zones).unwrap(),
    };
    let (background, dirty) = rng.pick(&[(0, 1), (0, 50), (10, 20), (100, 100)]);
    let settings = Settings {
        size: rng.pick(&[16, 40]) * PAGE,
        window: 0,
        background,
        dirty,
        expire: rng.pick(&[Span::from_millis(1), Span::from_secs(30)]),
        interval: rng.pick(&[Span::from_micros(1), Span::from_millis(1), Span::from_secs(5)]),
        gather: rng.pick(&[0, 64]),
        ..Settings::default()
    };
    let device = rig::cached(below, &settings);
    let mut dead = Dead { world, channel: device.channel(256).unwrap(), done: Vec::new(), failed: 0 };
    let mut workload = Workload::new(&mut rng, SIZE * count / 512);
    let dies = rng.below(60);
    for at in 0..60 {
        if at == dies {
            disks[0].1.cut(dead.world.clock().now(), Survivors::Seeded(seed));
        }
        let (mut bio, _) = workload.next(&mut rng);
        if rng.below(8) == 0 && bio.op() == Op::Write {
            bio.add_flags(Flags::HARD_BARRIER);
        }
        assert!(dead.channel.submit(bio).is_ok());
        if rng.below(4) == 0 {
            dead.settle();
        }
    }
    dead.settle();
}

/// A failing write-back takes longer than its pause, so that one is always in flight: writers that wait for
/// room get the error all the same.
#[test]
fn writers_hear_of_errors_although_write_back_never_rests() {
    for (pages, flags) in [(19, Flags::NONE), (19, Flags::SOFT_BARRIER), (0, Flags::HARD_BARRIER)] {
        let world = World::new(1);
        let ideal = Ideal { size: SIZE, latency: Span::from_millis(3), depth: 1, write_cache: true };
        let (disk, _) = rig::disk(&world, ideal, None);
        let settings = Settings { background: 0, dirty: 1, interval: Span::from_millis(1), ..rig::small(64) };
        let device = rig::cached(rig::backend(&disk, DiskSettings::default()), &settings);
        let mut dead = Dead { world, channel: device.channel(256).unwrap(), done: Vec::new(), failed: 0 };
        disk.set_faults(Some(FaultPlan { write_error_chance: 1_000_000, ..FaultPlan::default() }));
        // Parts of pages, so that each page is an I/O.
        for page in 0..pages {
            assert!(dead.channel.submit(Bio::write(page * PAGE, vec![1; 512]).unwrap()).is_ok());
        }
        let mut large = Bio::write(pages * PAGE, vec![1; 12 * 4096]).unwrap();
        large.add_flags(flags);
        assert!(dead.channel.submit(large).is_ok());
        dead.settle();
        assert!(dead.failed > 0, "{flags:?}");
    }
}

#[test]
fn everything_ends_although_a_disk_is_dead() {
    for seed in 0..100 {
        if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
