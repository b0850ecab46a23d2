//! Atomic writes: on the disk as a whole or not at all.

use crate::disk::{FakeDisk, Mode};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::queue::Settings;

fn rig(elevator: &str, limits: Limits) -> Rig {
    let mut disk = FakeDisk::new(1 << 20, limits, Features::default(), 1);
    disk.mode = Mode::Manual;
    Rig::with(disk, Settings { plug: None, ..Settings::default() }, make_elevator(elevator))
}

fn atomic(pos: u64, len: usize) -> Io {
    Io::write(pos, len).with(Flags::ATOMIC)
}

const LIMITS: Limits = Limits::unlimited(512).with_atomic_write(16384);

#[test]
fn what_the_disk_cannot_write_atomically_is_refused() {
    let none = LIMITS.with_atomic_write(0);
    let few = LIMITS.with_max_segments(2);
    let chunked = LIMITS.with_chunk(24 << 10);
    let short = LIMITS.with_max_transfer(4096);
    let cases = [
        (none, atomic(0, 512), Kind::Unsupported),
        (LIMITS, atomic(0, 32768), Kind::Unsupported),
        (LIMITS, Io::new(Op::Discard, 0, 4096).with(Flags::ATOMIC), Kind::Unsupported),
        (LIMITS, Io::read(0, 4096).with(Flags::ATOMIC), Kind::Unsupported),
        (LIMITS, atomic(0, 1536), Kind::Misaligned),
        (LIMITS, atomic(512, 4096), Kind::Misaligned),
        (few, Io { lens: vec![512, 512, 1024], gaps: vec![64; 3], ..atomic(0, 0) }, Kind::BadSegments),
        (chunked, atomic(16384, 16384), Kind::BadSegments),
        (short, atomic(0, 8192), Kind::BadSegments),
    ];
    for (limits, io, kind) in cases {
        for elevator in elevators() {
            let mut rig = rig(elevator, limits);
            let token = rig.submit(io.clone());
            rig.run();
            assert_eq!(rig.failure(token), Some(kind), "{elevator} {io:?}");
            assert!(rig.disk().starts().is_empty());
        }
    }
}

#[test]
fn an_atomic_write_is_one_request_and_says_so() {
    for elevator in elevators() {
        let mut rig = rig(elevator, LIMITS);
        for pos in [0u64, 16384, 32768] {
            rig.submit(Io::write(pos + 12288, 4096));
            rig.submit(Io { lens: vec![2048, 2048], gaps: vec![0, 64], ..atomic(pos, 0) });
            rig.submit(Io::write(pos + 4096, 512));
        }
        rig.run();
        let held: Vec<(u64, u64, bool)> = rig.disk().held.iter().map(|h| (h.pos, h.len, h.atomic)).collect();
        for pos in [0, 16384, 32768] {
            assert!(held.contains(&(pos, 4096, true)), "{elevator}: {held:?}");
        }
        assert_eq!(held.iter().filter(|h| h.2).count(), 3, "{elevator}");
        rig.drain();
    }
}

/// The rest of an atomic write would be a separate write, so it is not resumed. After a transient error the write is
/// retried, because nothing was written.
#[test]
fn an_atomic_write_is_not_resumed() {
    for elevator in elevators() {
        let mut rig = rig(elevator, LIMITS);
        let short = rig.submit(atomic(0, 4096));
        rig.run();
        rig.disk().finish_with(0, 512);
        rig.run();
        assert_eq!(rig.failure(short), Some(Kind::Short), "{elevator}");
        let again = rig.submit(atomic(0, 4096));
        rig.run();
        rig.disk().finish_with(0, -4);
        rig.drain();
        assert_eq!(rig.result(again), Ok(()), "{elevator}");
        assert_eq!(rig.disk().starts().len(), 3);
    }
}
