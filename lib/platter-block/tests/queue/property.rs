//! Random I/O under random limits, elevators and disks, against a byte-level model.

use crate::disk::{FakeDisk, Mode};
use crate::rig::{Feed, Io, Queued, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Settings};
use platter_block::time::Span;
use proptest::collection::vec;
use proptest::prelude::*;

const SIZE: u64 = 256 << 10;

fn limits() -> impl Strategy<Value = Limits> {
    let shape = (
        prop::sample::select(vec![512u32, 4096]),
        prop::sample::select(vec![1u32, 4, 512]),
        prop::sample::select(vec![4096u32, 12288, 65536, 1 << 20]),
        prop::sample::select(vec![1u16, 2, 5, 128]),
        prop::sample::select(vec![4096u32, 8192, 1 << 20]),
        prop::sample::select(vec![0u64, 4096, 65536]),
        prop::sample::select(vec![0u64, 8192, 65536]),
        prop::sample::select(vec![4096u64, 10240, 1 << 30]),
    );
    shape.prop_map(|(block, align, transfer, segments, segment, boundary, chunk, discard)| {
        Limits::unlimited(block)
            .with_memory_align(align)
            .with_max_transfer(transfer)
            .with_max_segments(segments)
            .with_max_segment_size(segment)
            .with_segment_boundary(boundary)
            .with_chunk(chunk)
            .with_max_discard(discard)
    })
}

#[derive(Clone, Debug)]
struct Setup {
    limits: Limits,
    settings: Settings,
    features: Features,
    elevator: &'static str,
    room: usize,
    partial: u64,
    /// A sector whose requests the disk keeps, and how often it aborts one of them when it is asked.
    silent: Option<(u64, u64)>,
    seed: u64,
}

fn setup() -> impl Strategy<Value = Setup> {
    let queue = (1u32..40, 1u32..40, any::<bool>(), any::<bool>());
    let disk = (any::<bool>(), any::<bool>(), prop_oneof![Just(usize::MAX), 1usize..4], 0u64..30);
    let elevator = prop::sample::select(elevators());
    let silent = prop::option::weighted(0.3, (0u64..64, prop::sample::select(vec![0u64, 50, 100])));
    let setup = (limits(), queue, disk, elevator, silent, any::<u64>());
    setup.prop_map(|(limits, queue, disk, elevator, silent, seed)| {
        let (depth, nr_requests, merges, plug) = queue;
        let timeout = silent.map(|_| Span::from_secs(1));
        let (write_cache, fua, room, partial) = disk;
        let plug = plug.then(PlugSettings::default);
        Setup {
            limits,
            settings: Settings {
                depth,
                nr_requests,
                merges,
                plug,
                timeout,
                slow_timeout: timeout,
                ..Settings::default()
            },
            features: Features::default().with_write_cache(write_cache).with_fua(fua),
            elevator,
            room,
            partial,
            silent,
            seed,
        }
    })
}

/// An I/O in units that fit any block size: whole blocks, cut into pieces, in memory with or without gaps.
#[derive(Clone, Debug)]
struct Draft {
    op: Op,
    block: u64,
    blocks: u64,
    cuts: Vec<u64>,
    gaps: Vec<usize>,
    flags: Flags,
    context: u32,
    runs: u8,
    /// Its submitter does not wait for it after these runs.
    late: bool,
}

fn draft() -> impl Strategy<Value = Draft> {
    let op = prop_oneof![
        4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Discard), 1 => Just(Op::WriteZeroes),
        1 => Just(Op::Flush),
    ];
    let flags = prop_oneof![
        12 => Just(Flags::NONE), 2 => Just(Flags::SYNC), 1 => Just(Flags::FUA), 1 => Just(Flags::PREFLUSH),
        1 => Just(Flags::FUA | Flags::PREFLUSH), 1 => Just(Flags::SOFT_BARRIER),
        1 => Just(Flags::HARD_BARRIER), 1 => Just(Flags::NOMERGE), 1 => Just(Flags::READAHEAD),
        1 => Just(Flags::SOFT_BARRIER | Flags::FUA),
    ];
    let blocks = prop_oneof![4 => 1u64..4, 1 => 1u64..40];
    let memory = (vec(any::<u64>(), 0..9), vec(0usize..3, 0..9));
    (op, any::<u64>(), blocks, memory, flags, 0u32..3, 0u8..3, prop::bool::weighted(0.1)).prop_map(
        |(op, block, blocks, (cuts, gaps), flags, context, runs, late)| Draft {
            op,
            block,
            blocks,
            cuts,
            gaps,
            flags,
            context,
            runs,
            late,
        },
    )
}

impl Draft {
    fn io(&self, limits: &Limits) -> Io {
        let block = u64::from(limits.logical_block);
        let blocks = self.blocks.min(SIZE / block);
        let pos = self.block % (SIZE / block - blocks + 1) * block;
        let (len, align) = ((blocks * block) as usize, limits.memory_align as usize);
        let mut lens = vec![len];
        if self.op.has_data() {
            let mut at: Vec<usize> = self.cuts.iter().map(|&c| c as usize % len / align * align).collect();
            at.extend([0, len]);
            at.sort_unstable();
            lens = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        }
        let gaps = self.gaps.iter().map(|&gap| gap * align.max(64)).collect();
        let io =
            Io { op: self.op, pos, lens, gaps, flags: self.flags, context: self.context, deadline: None };
        if self.op == Op::Flush { Io { pos: 0, lens: vec![0], ..io } } else { io }
    }
}

fn disk(setup: &Setup) -> FakeDisk {
    let mut disk = FakeDisk::new(SIZE, setup.limits, setup.features, setup.seed);
    (disk.mode, disk.room, disk.partial) = (Mode::Shuffled, setup.room, setup.partial);
    if let Some((sector, obeys)) = setup.silent {
        disk.keeps.extend(sector..sector + 16);
        disk.obeys = obeys;
    }
    disk
}

/// A disk that keeps requests does so for some seconds. Then everything ends.
fn end<L: Queued>(rig: &mut Rig<L>) {
    if !rig.disk().keeps.is_empty() {
        for _ in 0..10 {
            rig.now += Span::from_millis(500);
            rig.run();
        }
    }
    let keeps = std::mem::take(&mut rig.disk().keeps);
    rig.drain();
    rig.disk().keeps = keeps;
}

fn play<L: Queued>(setup: &Setup, drafts: &[Draft], mut rig: Rig<L>) {
    rig.guards = true;
    for (at, draft) in drafts.iter().enumerate() {
        let io = draft.io(&setup.limits);
        if rig.conflicts(&io) {
            end(&mut rig);
        }
        let token = rig.submit(io);
        assert_eq!(token as usize, at);
        (0..draft.runs).for_each(|_| rig.run());
        if draft.late {
            rig.late(token);
        }
    }
    end(&mut rig);
    let late_barrier = drafts.iter().any(|draft| draft.late && draft.flags.intersects(Flags::BARRIERS));
    for done in &rig.done {
        let draft = &drafts[done.token as usize];
        let expected = match done.kind() {
            None => true,
            Some(Kind::Short) => setup.partial > 0,
            Some(Kind::WouldBlock) => draft.flags.contains(Flags::READAHEAD),
            Some(Kind::TimedOut) => draft.late || setup.silent.is_some(),
            // Behind a barrier that was late, or the disk was asked.
            Some(Kind::Cancelled) => late_barrier || draft.late && setup.silent.is_some(),
            Some(Kind::Gone | Kind::FlushFailed) => setup.silent.is_some(),
            // One block in more pieces than the disk takes, or a border inside an alignment unit of memory.
            Some(Kind::BadSegments) => setup.limits.max_segments < 16 || setup.limits.memory_align > 4,
            Some(_) => false,
        };
        assert!(expected, "{done:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_bio_completes_once_with_the_right_bytes(setup in setup(), drafts in vec(draft(), 1..60)) {
        play(&setup, &drafts, Rig::with(disk(&setup), setup.settings, make_elevator(setup.elevator)));
    }

    #[test]
    fn so_it_does_in_the_queue_of_one_lane(setup in setup(), drafts in vec(draft(), 1..60)) {
        // Ordered bios never go to such a queue.
        let ordered = |draft: &Draft| draft.op == Op::Flush || draft.flags.intersects(Flags::ORDERED);
        let drafts: Vec<Draft> = drafts.into_iter().filter(|draft| !ordered(draft)).collect();
        play(&setup, &drafts, Rig::direct(disk(&setup), setup.settings, Feed::Common));
    }
}
