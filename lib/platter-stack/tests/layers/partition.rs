//! The partition layer over a disk in memory.

use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;
use platter_block::time::Time;
use platter_cache::by_name;
use platter_disk::device::Device;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;

fn part(named: &[(&str, i64)]) -> Result<(Device, Device), String> {
    let disk = Device::ram(SIZE).map_err(|e| e.to_string())?;
    let row = by_name("partition").ok_or("no such layer")?;
    let layer = row.make(named, vec![Arc::clone(disk.backend())]).map_err(|e| e.to_string())?;
    Ok((disk, Device::new(layer)))
}

#[test]
fn data_lands_at_the_offset_and_nowhere_else() {
    let (disk, part) = part(&[("offset", 4096), ("length", 8192)]).unwrap();
    assert_eq!(part.size(), 8192);
    part.write_at(&[7; 1024], 512).unwrap();
    part.flush().unwrap();
    let mut all = vec![0; SIZE as usize];
    disk.read_at(&mut all, 0).unwrap();
    for (at, &byte) in all.iter().enumerate() {
        assert_eq!(byte == 7, (4608..5632).contains(&at), "byte {at}");
    }
    let mut back = [0; 1024];
    part.read_at(&mut back, 512).unwrap();
    assert_eq!(back, [7; 1024]);
}

#[test]
fn the_end_of_the_part_is_the_end() {
    let (_disk, part) = part(&[("offset", 4096), ("length", 8192)]).unwrap();
    let error = part.write_at(&[1; 1024], 7680).unwrap_err();
    assert_eq!(error.fault.kind, Kind::OutOfRange);
    assert_eq!((error.offset, error.len), (7680, 1024));
    part.discard(0, 8192).unwrap();
    assert!(part.discard(0, 8704).is_err());
    assert!(part.read_at(&mut [0; 512], u64::MAX - 511).is_err());
}

#[test]
fn parts_that_do_not_fit_are_refused_with_the_range() {
    let refused = |named: &[(&str, i64)]| part(named).err().unwrap_or_default();
    assert!(refused(&[("offset", 100)]).contains("offset=100 is out of range: multiples of 512"));
    assert!(refused(&[("offset", SIZE as i64)]).contains("below 1048576"));
    assert!(refused(&[("length", SIZE as i64 + 512)]).contains("from 512 to 1048576"));
    assert!(refused(&[("offset", 512), ("length", SIZE as i64)]).contains("to 1048064"));
    assert!(refused(&[("of", 1)]).contains("it has: offset, length"));
    assert!(refused(&[("offset", -1)]).contains("0 to"));
    assert!(part(&[("offset", 512)]).is_ok_and(|(_, part)| part.size() == SIZE - 512));
}

#[test]
fn the_number_of_devices_is_checked() {
    let row = by_name("partition").unwrap();
    let error = row.make(&[], Vec::new()).err().unwrap();
    assert_eq!(error.to_string(), "partition takes 1 to 1 devices, not 0");
}

/// A flush of a range flushes that range of the part; a flush without a length flushes everything, whatever
/// its position.
#[test]
fn a_flush_of_a_range_is_moved_and_comes_back() {
    let (_disk, part) = part(&[("offset", 4096), ("length", 8192)]).unwrap();
    let mut lane = part.backend().open_lane(LaneUse::Exclusive).unwrap();
    let mut done = Vec::new();
    let mut flush = |pos, len| {
        lane.submit(Time(0), Bio::new(Op::Flush, pos, len));
        while !lane.has_done() {
            lane.run(Time(0));
        }
        lane.take_done(&mut done);
        let bio = done.pop().unwrap();
        (bio.status().map_err(|fault| fault.kind), bio.pos() - bio.done())
    };
    assert_eq!(flush(512, 1024), (Ok(()), 512));
    assert_eq!(flush(0, 0), (Ok(()), 0));
    assert_eq!(flush(7680, 1024), (Err(Kind::OutOfRange), 7680));
}
