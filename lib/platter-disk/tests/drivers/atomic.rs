//! Writes that must not be torn by a power cut.

use crate::bench::{BLOCK, Bench, Disk, Pages, check, file_options, flags, is_here, on_all, open, transfer};
use platter_block::backend::LaneUse;
use platter_block::bio::{Flags, Op};
use platter_block::fault::Kind;
use platter_disk::drivers::table::{Medium, TABLE};
use platter_disk::sys::Direct;

/// If the file or device supports it, such a write works from one piece of memory and from several; otherwise it is
/// refused, and nothing is written.
#[test]
fn atomic_writes_work_where_they_are_offered_and_are_refused_elsewhere() {
    on_all(4, |name, disk, lane_use| {
        if matches!(disk, Disk::Ram(_)) {
            return;
        }
        let most = u64::from(disk.geometry().limits.atomic_write);
        let mut bench = disk.lane(4, lane_use);
        let mut model = vec![3; 4 * BLOCK];
        assert_eq!(bench.one(transfer(Op::Write, 0, Pages::new(4, 3), &[])).status(), Ok(()), "{name}");
        for (at, cuts) in [(0, &[][..]), (1, &[512, 1024])] {
            let write = transfer(Op::Write, at * BLOCK as u64, Pages::new(1, 9), cuts);
            let status = bench.one(flags(write, Flags::ATOMIC)).status();
            if most >= BLOCK as u64 {
                assert_eq!(status, Ok(()), "{name} {cuts:?}");
                model[at as usize * BLOCK..][..BLOCK].fill(9);
            } else {
                assert_eq!(status.map_err(|fault| fault.kind), Err(Kind::Unsupported), "{name} {cuts:?}");
            }
        }
        if most < BLOCK as u64 {
            println!("{name}: no atomic writes here");
        }
        check(name, bench.one(transfer(Op::Read, 0, Pages::new(4, 0), &[])), &model);
        if name.contains("Off") {
            assert_eq!(most, 0, "{name}: the page cache takes none");
        }
    });
}

/// Names a block device with atomic writes whose contents may be lost, such as scsi_debug's with `atomic_wr=1`.
const DEVICE: &str = "PLATTER_TEST_ATOMIC_DEVICE";

/// The disk of the test machine usually has no atomic writes, so one that has them must be named.
#[test]
fn a_device_with_atomic_writes_takes_them_from_every_driver() {
    let Some(device) = std::env::var_os(DEVICE) else { return println!("skipped: {DEVICE} names no device") };
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        for lane_use in [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous] {
            let disk = open(device.as_ref(), file_options(row, 4), Direct::Require);
            let limits = disk.geometry().limits;
            assert!(limits.atomic_write >= 4 * BLOCK as u32, "{} offers {}", row.name, limits.atomic_write);
            let mut bench = Bench::new(*disk.geometry(), 4, disk.channel(lane_use).unwrap());
            let name = format!("{} {lane_use:?}", row.name);
            for (at, cuts) in [(0, &[][..]), (4, &[512, 8192]), (8, &[4096])] {
                let write = transfer(Op::Write, at * BLOCK as u64, Pages::new(4, at as u8 + 1), cuts);
                assert_eq!(bench.one(flags(write, Flags::ATOMIC)).status(), Ok(()), "{name} {cuts:?}");
            }
            let model: Vec<u8> = (0..12 * BLOCK).map(|at| (at / BLOCK / 4 * 4) as u8 + 1).collect();
            check(&name, bench.one(transfer(Op::Read, 0, Pages::new(12, 0), &[])), &model);
            // Not aligned to its length.
            let write = transfer(Op::Write, BLOCK as u64, Pages::new(4, 9), &[]);
            assert!(bench.one(flags(write, Flags::ATOMIC)).status().is_err(), "{name}");
            check(&name, bench.one(transfer(Op::Read, 0, Pages::new(12, 0), &[])), &model);
        }
    }
}
