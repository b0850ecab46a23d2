//! Arrays that cannot be built, and the error messages.

use crate::rig::Bad;
use crate::rig::{array, backends, flawed, rams, simulated};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_sim::World;
use platter_stack::raid0::{self, Sizes};
use platter_stack::{by_name, concat};

fn refused(chunk: u64, members: &[Device]) -> String {
    raid0::new(backends(members), chunk, Sizes::Zones)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn chunks_are_powers_of_two_and_hold_a_block() {
    let disks = rams(&[1 << 20, 1 << 20]);
    for chunk in [0, 511, 768, 256, 3 << 16, 1 << 31] {
        let text = refused(chunk, &disks);
        assert!(text.contains(&format!("chunk={chunk} is not a power of two from 512")), "{text}");
    }
    let row = by_name("raid0").unwrap();
    let text = row.make(&[("chunk", 100)], backends(&disks)).err().unwrap().to_string();
    assert!(text.contains("out of range: 512 to 1G"), "{text}");
}

#[test]
fn members_must_have_a_chunk() {
    let text = refused(65536, &rams(&[1 << 20, 32768]));
    assert!(text.contains("member 1 (ram) has 32768 bytes, less than a chunk of 65536"), "{text}");
    assert!(refused(65536, &[]).contains("raid0 needs at least one device"));
}

#[test]
fn an_array_has_less_than_2_to_63_bytes() {
    let largest = |count: usize, size: u64| -> Vec<Device> {
        (0..count).map(|_| flawed("large", size, Bad::Nothing)).collect()
    };
    let text = refused(65536, &largest(4, 1 << 62));
    assert!(text.contains("members have 18446744073709551616 bytes together"), "{text}");
    assert!(refused(512, &largest(2, 1 << 62)).contains("less than 2^63"));
    let fits = raid0::new(backends(&largest(2, 1 << 61)), 512, Sizes::Zones).unwrap();
    assert_eq!(fits.geometry().size, 1 << 62);
}

#[test]
fn the_same_disk_twice_is_refused_through_any_path() {
    let disk = rams(&[1 << 20]).remove(0);
    let text = refused(4096, &[disk.clone(), disk.clone()]);
    assert!(
        text.contains("members 0 (ram) and 1 (ram) are on the same disk, from byte 0 to 1048576"),
        "{text}"
    );
    // An array over itself.
    let (disks, inner) = array(4096, &[1 << 20; 2]);
    assert!(refused(4096, &[inner, disks[1].clone()]).contains("are on the same disk"));
    // Through a symbolic link.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, link) = (dir.path().join("disk.img"), dir.path().join("link.img"));
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let open = |path| Device::open(path, DiskOptions::default()).unwrap();
    let text = refused(4096, &[open(&path), open(&link)]);
    assert!(text.contains("are on the same disk"), "{text}");
    assert!(concat::new(backends(&[open(&path), open(&link)])).is_err());
}

#[test]
fn parts_of_one_disk_may_be_members_if_they_do_not_overlap() {
    let disk = rams(&[1 << 20]).remove(0);
    let partition = by_name("partition").unwrap();
    let part = |offset, length| {
        let named = [("offset", offset), ("length", length)];
        Device::new(partition.make(&named, backends(std::slice::from_ref(&disk))).unwrap())
    };
    assert_eq!(refused(4096, &[part(0, 65536), part(65536, 65536)]), "");
    let text = refused(4096, &[part(0, 65536), part(61440, 65536)]);
    assert!(text.contains("from byte 61440 to 65536 of it"), "{text}");
}

#[test]
fn members_live_by_one_clock() {
    let worlds = [World::new(1), World::new(2)];
    let sims: Vec<Device> =
        worlds.iter().map(|world| simulated(world, Span::from_micros(1), false)).collect();
    assert!(refused(4096, &sims).contains("do not use the same clock"));
    assert!(refused(4096, &[sims[0].clone(), rams(&[1 << 20]).remove(0)]).contains("same clock"));
}

/// The block of the array is the largest of its members', on the whole array.
#[test]
fn the_largest_block_wins() {
    let limits = platter_block::limits::Limits::unlimited(4096);
    let large = crate::rig::with_limits("large", 1 << 20, limits);
    let small = flawed("small", 1 << 20, Bad::Nothing);
    assert!(refused(512, &[small.clone(), large.clone()]).contains("from 4096 (the largest logical block"));
    let device = Device::new(raid0::new(backends(&[small, large]), 65536, Sizes::Zones).unwrap());
    assert_eq!(device.geometry().limits.logical_block, 4096);
    let mut channel = device.channel(2).unwrap();
    let bio = platter_block::bio::Bio::write(512, vec![0; 512]).unwrap();
    assert!(channel.submit(bio).is_ok());
    let mut done = Vec::new();
    channel.wait(&mut done, None);
    assert_eq!(done[0].status().unwrap_err().kind, platter_block::fault::Kind::Misaligned);
    // A synchronous call works around the block size.
    device.write_at(&[7; 700], 1000).unwrap();
    let mut back = [0; 700];
    device.read_at(&mut back, 1000).unwrap();
    assert_eq!(back, [7; 700]);
}
