//! Two devices that are open at the same time over the same two disks, whose arrays have the disks in opposite order: each has its own
//! half of both. Commands are late, elevators change, barriers and closing come in between; nothing waits for the other for ever, and
//! neither sees what the other wrote.

use platter_block::backend::Backend;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Kind, Stage};
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_elevators::by_name;
use platter_sim::fault::{Blow, FaultPlan, Lands, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::oracle::{Oracle, Outcome, Submission};
use platter_sim::rng::Rng;
use platter_sim::{SimDisk, World};
use platter_stack::raid0::Sizes;
use platter_stack::{partition, raid0};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const SECTOR: u64 = 512;
/// Bytes of the half of one disk.
const HALF: u64 = 64 << 10;
const CHUNK: u64 = 4096;
/// Most virtual time in which everything has ended once the disks answer again.
const LONG: Span = Span::from_secs(3600);
const STEPS: u32 = 300;

/// One of the two devices, and what the test knows of it.
struct Side {
    members: Vec<Arc<dyn Backend>>,
    open: Option<(Device, Vec<Channel>)>,
    oracle: Oracle,
    /// What has not ended: operation and range in sectors.
    live: BTreeMap<u64, (Op, u64, u64)>,
    ended: u64,
}

impl Side {
    fn new(members: Vec<Arc<dyn Backend>>) -> Side {
        let oracle = Oracle::new(true);
        let mut side = Side { members, open: None, oracle, live: BTreeMap::new(), ended: 0 };
        side.open();
        side
    }

    fn open(&mut self) {
        let device = Device::new(raid0::new(self.members.clone(), CHUNK, Sizes::Zones).unwrap());
        let channels = (0..2).map(|_| device.channel(64).unwrap()).collect();
        self.open = Some((device, channels));
    }

    fn device(&self) -> &Device {
        &self.open.as_ref().unwrap().0
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.open.as_mut().unwrap().1
    }

    /// Closes the device while it has I/O, which may still be carried out, and opens it again.
    fn reopen(&mut self) {
        self.open = None;
        for (token, _) in std::mem::take(&mut self.live) {
            self.oracle.complete(token, Outcome::Abandoned);
        }
        self.oracle.forget_late();
        self.open();
    }

    fn submit(&mut self, token: u64, (op, sector, count): (Op, u64, u64), flags: Flags, late: Option<Span>) {
        let mut submission = Submission::new(op, sector, count);
        let contents = vec![token; count as usize];
        if op == Op::Write {
            submission.contents = &contents;
        }
        // The order that a barrier gives is not checked: one that fails gives none, which other channels may see before it ends.
        let barrier = flags.contains(Flags::HARD_BARRIER);
        submission.fua = barrier || flags.contains(Flags::FUA);
        submission.preflush = barrier || flags.contains(Flags::PREFLUSH);
        self.oracle.submit(token, &submission);
        let (pos, len) = (sector * SECTOR, (count * SECTOR) as usize);
        let mut bio = match op {
            Op::Read => Bio::read(pos, vec![0; len]).unwrap(),
            Op::Write => Bio::write(pos, [token.to_le_bytes(); 64].concat().repeat(count as usize)).unwrap(),
            _ => Bio::flush(),
        };
        bio.set_token(token);
        bio.add_flags(flags);
        let channel = token as usize % 2;
        let channel = &mut self.channels()[channel];
        bio.set_deadline(late.map(|span| channel.now() + span));
        assert!(channel.submit(bio).is_ok(), "a channel has room for 64");
        // It has its place in the order now, not only when the channel is polled.
        channel.flush();
        self.live.insert(token, (op, sector, count));
    }

    /// Polls one of the channels.
    fn poll(&mut self, channel: usize) {
        let mut done = Vec::new();
        self.channels()[channel].poll(&mut done);
        self.device().run_background();
        done.into_iter().for_each(|bio| self.ends(bio));
    }

    fn ends(&mut self, mut bio: Bio) {
        let token = bio.token();
        let (op, sector, count) = self.live.remove(&token).unwrap_or_else(|| panic!("{token} ended twice"));
        self.ended += 1;
        match bio.status() {
            Ok(()) if op == Op::Read => {
                let data = bio.take_buffer::<Vec<u8>>().expect("it came back");
                let found = versions(&data);
                assert_eq!(found.len() as u64, count);
                self.oracle
                    .complete_read(token, &found)
                    .unwrap_or_else(|wrong| panic!("{op} at {sector}: {wrong}"));
            }
            Ok(()) => self.oracle.complete(token, Outcome::Done),
            Err(fault) => {
                let known = [
                    Kind::TimedOut,
                    Kind::Unsettled,
                    Kind::Gone,
                    Kind::Cancelled,
                    Kind::Io,
                    Kind::FlushFailed,
                ];
                assert!(known.contains(&fault.kind), "{op} ended with {fault:?}");
                // The device holds back what overlaps a change that it has given up.
                let given_up = fault.kind == Kind::TimedOut && fault.stage == Stage::Handle;
                self.oracle.complete(token, if given_up { Outcome::Late } else { Outcome::Abandoned });
            }
        }
    }
}

/// The versions of the sectors of some data. One is whole or not there.
fn versions(data: &[u8]) -> Vec<u64> {
    let version = |sector: &[u8]| {
        let word = sector[..8].try_into().map(u64::from_le_bytes).unwrap();
        assert!(sector.chunks(8).all(|piece| piece == &sector[..8]), "half of a sector");
        word
    };
    data.chunks(SECTOR as usize).map(version).collect()
}

fn disk(rng: &mut Rng, world: &Arc<World>) -> (SimDisk, Arc<dyn Backend>) {
    let latency = Span::from_micros(100 + rng.below(1000));
    let model = Ideal { size: 2 * HALF, latency, depth: rng.pick(&[1, 2, 32]), write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    disk.set_faults(Some(FaultPlan {
        seed: rng.bits(),
        abort_chance: rng.pick(&[0, 500_000]),
        ..FaultPlan::default()
    }));
    let mut settings = DiskSettings::default();
    settings.queue.timeout = rng.pick(&[None, Some(Span::from_millis(50))]);
    settings.queue.slow_timeout = rng.pick(&[None, Some(Span::from_millis(50))]);
    settings.queue.barrier_timeout = rng.pick(&[Span::from_millis(20), Span::from_secs(30)]);
    let elevator = by_name(rng.pick(&["noop", "deadline", "cfq", "bfq"])).map(|row| (row.make)());
    let elevator = elevator.filter(|_| rng.below(2) == 0);
    let backend = DiskBackend::new(disk.attach("disk"), settings, elevator).unwrap();
    (disk, Arc::new(backend))
}

/// Both arrays over the halves of two disks.
fn arrays(disks: [&Arc<dyn Backend>; 2]) -> [Vec<Arc<dyn Backend>>; 2] {
    let half = |disk: &Arc<dyn Backend>, at| partition::new(Arc::clone(disk), at * HALF, Some(HALF)).unwrap();
    [vec![half(disks[0], 0), half(disks[1], 0)], vec![half(disks[1], 1), half(disks[0], 1)]]
}

/// A life of both devices in virtual time.
struct Life {
    rng: Rng,
    world: Arc<World>,
    disks: Vec<SimDisk>,
    sides: [Side; 2],
    token: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        let (mut rng, world) = (Rng::new(seed), World::by_hand(seed));
        let (one, first) = disk(&mut rng, &world);
        let (other, second) = disk(&mut rng, &world);
        let sides = arrays([&first, &second]).map(Side::new);
        Life { rng, world, disks: vec![one, other], sides, token: 0 }
    }

    fn step(&mut self) {
        let side = self.rng.below(2) as usize;
        match self.rng.below(100) {
            0..30 => self.submit(side),
            30..65 => {
                let channel = self.rng.below(2) as usize;
                self.sides[side].poll(channel);
            }
            65..88 => self.pass(),
            88..94 => self.strike(),
            94..97 => self.switch(side),
            97..99 => self.sides[side].reopen(),
            _ => {
                let disk = self.rng.below(2) as usize;
                self.disks[disk].release_stuck();
            }
        }
    }

    fn submit(&mut self, side: usize) {
        self.token += 1;
        let rng = &mut self.rng;
        let count = 1 + rng.below(16);
        // Half of them where others are.
        let places = rng.pick(&[32, 2 * HALF / SECTOR]);
        let sector = rng.below(places - count);
        let op = rng.pick(&[Op::Read, Op::Write, Op::Write, Op::Flush]);
        let flags = [Flags::NONE, Flags::NONE, Flags::FUA, Flags::PREFLUSH, Flags::HARD_BARRIER];
        let flags = if op == Op::Write { rng.pick(&flags) } else { Flags::NONE };
        let late = rng.pick(&[None, None, Some(Span::from_millis(20))]);
        let range = if op == Op::Flush { (op, 0, 0) } else { (op, sector, count) };
        if self.sides[side].live.len() < 64 {
            self.sides[side].submit(self.token, range, flags, late);
        }
    }

    fn pass(&mut self) {
        let now = self.world.clock().now();
        let span = Span::from_micros(1 << self.rng.below(16));
        self.world.clock().advance_to(now + span);
    }

    fn strike(&mut self) {
        let held = self.rng.pick(&[Span::from_millis(30), Span::from_secs(5)]);
        let op = self.rng.pick(&[None, Some(Op::Write), Some(Op::Flush)]);
        let disk = self.rng.below(2) as usize;
        self.disks[disk].strike(Strike { op, blow: Blow::Stuck(held, Lands::Either) });
    }

    fn switch(&mut self, side: usize) {
        let row = by_name(self.rng.pick(&["noop", "deadline", "cfq", "none"]));
        let switched = self.sides[side].device().backend().switch_elevator(&|| row.map(|row| (row.make)()));
        if let Err(error) = switched {
            assert_eq!(error.fault.kind, Kind::Unsettled, "{error}");
        }
    }

    /// Whether an I/O has not ended, or a disk has one that the program has given up.
    fn is_busy(&self) -> bool {
        let given_up = self.disks.iter().any(|disk| !disk.inside().is_empty());
        given_up || self.sides.iter().any(|side| !side.live.is_empty())
    }

    /// Runs both until everything has ended.
    fn settle(&mut self) {
        let end = self.world.clock().now() + LONG;
        while self.is_busy() {
            let left: Vec<_> = self.sides.iter().map(|side| &side.live).collect();
            assert!(self.world.clock().now() < end, "these never end: {left:?}");
            self.turn();
        }
    }

    /// Polls everything, and lets some time pass.
    fn turn(&mut self) {
        for side in &mut self.sides {
            (0..2).for_each(|channel| side.poll(channel));
        }
        let step = self.world.clock().now() + Span::from_millis(1);
        let next = self.world.next_event().map_or(step, |at| at.max(step));
        self.world.clock().advance_to(next.min(step + Span::from_millis(100)));
    }

    /// The disks answer again: everything ends, and each device works and has what was written to it.
    fn end(&mut self) {
        for disk in &self.disks {
            disk.set_faults(None);
            disk.release_stuck();
        }
        self.settle();
        for side in 0..2 {
            // Flushes report what failed before, once for each disk; a queue may still have a part of what was given up.
            let flushed = (0..64).any(|_| {
                self.turn();
                self.sides[side].device().acknowledge_flush_failure();
                self.sides[side].device().flush().is_ok()
            });
            assert!(flushed, "flushes still fail: {:?}", self.sides[side].device().flush());
        }
        for side in 0..2 {
            for sector in (0..2 * HALF / SECTOR).step_by(16) {
                self.token += 1;
                self.sides[side].submit(self.token, (Op::Read, sector, 16), Flags::NONE, None);
                self.settle();
            }
        }
    }
}

#[test]
fn two_devices_over_the_same_disks_in_opposite_order_do_not_wait_for_each_other() {
    let seeds =
        std::env::var("PLATTER_OPPOSITE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        let lived = std::panic::catch_unwind(|| {
            let mut life = Life::new(seed);
            (0..STEPS).for_each(|_| life.step());
            life.end();
            life.sides.iter().map(|side| side.ended).sum::<u64>()
        });
        let ended = lived.unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        });
        // Reads at the end alone are 32.
        assert!(ended > 32, "seed {seed}: {ended}");
    }
}

/// On threads: both send barriers and switch elevators of the disks that they share, at the same time.
#[test]
fn barriers_and_switches_of_two_devices_end_on_threads() {
    let disk = || Arc::clone(Device::ram(2 * HALF).unwrap().backend());
    let (first, second) = (disk(), disk());
    let (done, ended) = mpsc::channel();
    let rounds = Arc::new(AtomicU64::new(0));
    for (number, members) in arrays([&first, &second]).into_iter().enumerate() {
        let (done, rounds) = (done.clone(), Arc::clone(&rounds));
        thread::spawn(move || {
            let device = Device::new(raid0::new(members, CHUNK, Sizes::Zones).unwrap());
            let mut channel = device.channel(16).unwrap();
            for round in 0..300_u64 {
                for at in 0..8 {
                    let mut bio = Bio::write(at * CHUNK, vec![number as u8 + 1; CHUNK as usize]).unwrap();
                    bio.add_flags(if at == 4 { Flags::HARD_BARRIER } else { Flags::NONE });
                    assert!(channel.submit(bio).is_ok());
                }
                if round % 3 == number as u64 {
                    let row = by_name(["none", "deadline", "noop"][round as usize / 3 % 3]);
                    device.backend().switch_elevator(&|| row.map(|row| (row.make)())).unwrap();
                }
                let mut back = Vec::new();
                while channel.outstanding() > 0 {
                    channel.wait(&mut back, None);
                }
                back.iter().for_each(|bio| assert_eq!(bio.status(), Ok(())));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            let mut data = vec![0; CHUNK as usize];
            device.read_at(&mut data, 4 * CHUNK).unwrap();
            assert!(data.iter().all(|&byte| byte == number as u8 + 1));
            done.send(()).unwrap();
        });
    }
    drop(done);
    for _ in 0..2 {
        let last = ended.recv_timeout(Duration::from_secs(120));
        assert!(
            last.is_ok(),
            "a device waits for ever, or failed, after {} rounds",
            rounds.load(Ordering::Relaxed)
        );
    }
}
