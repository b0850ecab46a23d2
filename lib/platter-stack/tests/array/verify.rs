//! The layer that checks reads.

use crate::rig::{CHUNK, backends, rams};
use crate::script::Hand;
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_stack::raid0::{self, Sizes};
use platter_stack::{by_name, verify};

fn pair() -> (Device, Device) {
    let disk = rams(&[1 << 20]).remove(0);
    let checked = verify::new(disk.backend().clone());
    (disk, Device::new(checked))
}

#[test]
fn what_was_changed_behind_its_back_is_found_and_named() {
    let (disk, device) = pair();
    let data: Vec<u8> = (0..65536u32).map(|at| (at / 100) as u8).collect();
    device.write_at(&data, 8192).unwrap();
    let mut back = vec![0; 65536];
    device.read_at(&mut back, 8192).unwrap();
    disk.write_at(&[0xee], 8192 + 5000).unwrap();
    let error = device.read_at(&mut back, 8192).unwrap_err();
    assert_eq!((error.fault.kind, error.fault.errno()), (Kind::Corrupt, 74));
    assert_eq!(
        error.to_string(),
        "verify(ram): read of 65536 bytes at 8192: what was read is not what was written; \
         the first block that differs is at 12800 of ram"
    );
    // Neighbouring blocks are not affected, nor is the block itself after it is written again.
    device.read_at(&mut back[..4096], 8192).unwrap();
    assert!(device.read_at(&mut back[..512], 12800).is_err());
    device.write_at(&[7; 512], 12800).unwrap();
    device.read_at(&mut back, 8192).unwrap();
    // The contents of discarded blocks are unknown; written zeroes are known.
    device.discard(8192, 4096).unwrap();
    device.write_zeroes(16384, 4096).unwrap();
    disk.write_at(&[1; 4096], 8192).unwrap();
    device.read_at(&mut back[..4096], 8192).unwrap();
    disk.write_at(&[1; 1], 16384).unwrap();
    assert!(device.read_at(&mut back[..4096], 16384).is_err());
    // Blocks that were not written through the layer are unknown.
    disk.write_at(&[1; 4096], 1 << 19).unwrap();
    device.read_at(&mut back[..4096], 1 << 19).unwrap();
}

/// A write that fails below, with an injected error, leaves the contents of its block unknown.
#[test]
fn a_failed_write_leaves_the_block_unknown() {
    let disk = rams(&[1 << 20]).remove(0);
    let error = by_name("error").unwrap();
    let failing = error.make(&[("op", 2), ("nth", 2)], backends(std::slice::from_ref(&disk))).unwrap();
    let device = Device::new(verify::new(failing));
    device.write_at(&[1; 512], 0).unwrap();
    assert!(device.write_at(&[2; 512], 0).is_err());
    let mut back = [0; 512];
    device.read_at(&mut back, 0).unwrap();
    disk.write_at(&[3; 512], 0).unwrap();
    device.read_at(&mut back, 0).unwrap();
}

/// Racing writes of one block may end in either order: no read of it is reported as corrupt.
#[test]
fn races_are_not_called_damage() {
    let (_, device) = pair();
    let mut channel = device.channel(64).unwrap();
    let mut done = Vec::new();
    for round in 0..50u8 {
        for at in 0..16u64 {
            let bio = match at % 4 {
                3 => Bio::read(at % 3 * 512, vec![0; 1024]).unwrap(),
                _ => Bio::write(at % 3 * 512, vec![round.wrapping_mul(16) + at as u8; 1024]).unwrap(),
            };
            assert!(channel.submit(bio).is_ok());
        }
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        assert!(done.drain(..).all(|bio| bio.status().is_ok()));
    }
}

#[test]
fn an_array_says_on_which_member_the_block_is() {
    let disks = rams(&[1 << 20; 2]);
    let checked = disks.iter().map(|disk| verify::new(disk.backend().clone())).collect();
    let device = Device::new(raid0::new(checked, CHUNK, Sizes::Zones).unwrap());
    device.write_at(&vec![5; 4 * CHUNK as usize], 0).unwrap();
    disks[1].write_at(&[9], CHUNK + 1024).unwrap();
    let error = device.read_at(&mut vec![0; 4 * CHUNK as usize], 0).unwrap_err();
    assert_eq!(
        (error.fault.kind, error.detail),
        (Kind::Corrupt, format!("on member 1 (ram) at {}", CHUNK + 1024))
    );
}

/// A bio that the device refuses because its range is invalid does not change what is known of other blocks,
/// including those written by the bio whose slot it reuses.
#[test]
fn a_refused_bio_changes_nothing_that_is_known() {
    let (disk, device) = pair();
    let mut hand = Hand::on(device.backend());
    let outside = Bio::write(1 << 30, vec![2u8; 512]).unwrap();
    let empty = Bio::write(0, Vec::<u8>::new()).unwrap();
    let mut end = |bio: Bio| {
        hand.submit(0, bio);
        let mut ends = (0..100).flat_map(|_| hand.kinds(0));
        ends.next().expect("memory is done at once").1
    };
    for refused in [outside, empty] {
        disk.write_at(&[0; 512], 0).unwrap();
        assert_eq!(end(Bio::write(0, vec![1u8; 512]).unwrap()), None);
        end(refused);
        disk.write_at(&[9; 512], 0).unwrap();
        assert_eq!(end(Bio::read(0, vec![0u8; 512]).unwrap()), Some(Kind::Corrupt));
    }
}
