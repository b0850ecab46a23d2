//! Where reads go, and what is done about blocks that cannot be read.

use crate::rig::{FRONT, Rig, SIZE, settings, text};
use platter_disk::device::Device;
use platter_sim::fault::{BadSectors, FaultPlan};
use std::sync::Arc;

/// Sectors of the data that a disk cannot read, until they are written.
fn bad(rig: &Rig, nth: usize, sectors: std::ops::Range<u64>, writes: bool) {
    let front = FRONT / 512;
    let bad = vec![BadSectors { sectors: front + sectors.start..front + sectors.end, reads: true, writes }];
    rig.disks[nth].set_faults(Some(FaultPlan { bad, ..FaultPlan::default() }));
}

#[test]
fn a_block_that_cannot_be_read_comes_from_another_member() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let device = Device::new(Arc::clone(&rig.open(settings()).unwrap().device));
    let data: Vec<u8> = (0..SIZE).map(|at| (at / 512) as u8 + 1).collect();
    device.write_at(&data, 0).unwrap();
    for nth in [0, 1] {
        bad(&rig, nth, 4..12, false);
        for (start, end) in [(7, 16), (0, 9), (4, 12), (0, 128), (11, 13)] {
            for _ in 0..4 {
                let mut read = vec![0xee; (end - start) * 512];
                device.read_at(&mut read, start as u64 * 512).unwrap();
                let wrong =
                    (start..end).find(|at| read[(at - start) * 512..][..512] != data[at * 512..][..512]);
                assert_eq!(wrong, None, "{start}..{end} with bad sectors of {nth}");
            }
        }
        rig.disks[nth].set_faults(None);
        assert!(rig.medium(nth) == data);
        let told = text(&device, ["member a", "member b"][nth]);
        assert!(told.starts_with("in sync") && !told.contains("written again 0"), "{told}");
    }
    assert_eq!(text(&device, "mirror"), "complete");
}
