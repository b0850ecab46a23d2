//! The number of parts of a transfer, and their cost.

use crate::rig::{CHUNK, array, backends};
use platter_block::bio::{Bio, Op};
use platter_block::build::Builder;
use platter_block::counters::Snapshot;
use platter_block::segment::{RegionId, Segment};
use platter_disk::device::Device;
use platter_stack::raid0::{self, Sizes};

fn counted(device: &Device, mut io: impl FnMut()) -> Snapshot {
    let before = device.counters();
    io();
    device.counters().since(&before)
}

/// 256 chunks over 3 disks: one request per disk, wherever the range begins.
#[test]
fn a_large_transfer_is_one_request_for_each_disk() {
    let (_, device) = array(CHUNK, &[8 << 20; 3]);
    let mut memory = vec![0u8; 16 << 20];
    for pos in [0, 3 * CHUNK, 4096] {
        let counts = counted(&device, || device.read_at(&mut memory, pos).unwrap());
        assert_eq!((counts.bios, counts.splits, counts.dispatches), (3, 0, 3), "from {pos}");
        assert_eq!((counts.bytes_read, counts.bytes_bounced), (16 << 20, 0));
        let counts = counted(&device, || device.write_at(&memory, pos).unwrap());
        assert_eq!((counts.bios, counts.dispatches, counts.bytes_written), (3, 3, 16 << 20), "from {pos}");
        let counts = counted(&device, || device.discard(pos, 16 << 20).unwrap());
        assert_eq!((counts.bios, counts.dispatches), (3, 3), "from {pos}");
    }
}

#[test]
fn what_lies_in_one_chunk_is_passed_on_as_it_is() {
    let (disks, device) = array(CHUNK, &[8 << 20; 4]);
    for (pos, disk) in [(0, 0), (CHUNK, 1), (2 * CHUNK + 4096, 2), (7 * CHUNK - 4096, 2)] {
        let before = disks[disk].counters();
        device.write_at(&[3; 4096], pos).unwrap();
        let counts = disks[disk].counters().since(&before);
        assert_eq!((counts.bios, counts.bytes_written), (1, 4096), "at {pos}");
    }
}

/// A member takes a limited number of segments per request; more segments need more parts.
#[test]
fn parts_have_no_more_segments_than_a_member_takes() {
    let disks: Vec<Device> = (0..2).map(|_| Device::null(64 << 20).unwrap()).collect();
    let most = u64::from(disks[0].geometry().limits.max_segments);
    let device = Device::new(raid0::new(backends(&disks), 512, Sizes::Zones).unwrap());
    let mut memory = vec![0u8; 512 * 2 * most as usize];
    let counts = counted(&device, || device.read_at(&mut memory, 0).unwrap());
    assert_eq!((counts.bios, counts.splits), (2, 0));
    let mut memory = vec![0u8; 512 * 2 * (most + 1) as usize];
    let counts = counted(&device, || device.read_at(&mut memory, 0).unwrap());
    assert_eq!((counts.bios, counts.splits), (4, 0));
}

/// A builder can make requests of several stripes, larger than a member takes.
#[test]
fn an_array_takes_more_at_once_than_a_member() {
    let disks: Vec<Device> = (0..3).map(|_| Device::null(64 << 20).unwrap()).collect();
    let member = disks[0].geometry().limits;
    let device = Device::new(raid0::new(backends(&disks), CHUNK, Sizes::Zones).unwrap());
    let limits = device.geometry().limits;
    assert_eq!(limits.max_transfer, 3 * member.max_transfer);
    assert_eq!((limits.chunk, limits.optimal_io), (0, 3 * CHUNK as u32));
    let mut memory = vec![0u8; 1 << 20];
    #[allow(unsafe_code)]
    // SAFETY: the memory lives until the end of the test, and the bio is never submitted.
    let segment = unsafe { Segment::new(memory.as_mut_ptr(), 1 << 20, RegionId::NONE) };
    let mut builder = Builder::new(device.backend().as_ref(), Op::Read, 0);
    #[allow(unsafe_code)]
    // SAFETY: as above.
    let mut add = || unsafe { builder.add(segment) }.unwrap();
    assert!((0..3).all(|_| add()) && !add());
    assert_eq!(builder.finish().len(), 3 << 20);
}

#[test]
fn a_thousand_members_are_one_device() {
    let disks: Vec<Device> = (0..1000).map(|_| Device::ram(8192).unwrap()).collect();
    let device = Device::new(raid0::new(backends(&disks), 4096, Sizes::Zones).unwrap());
    assert_eq!((device.size(), device.name().as_ref()), (8_192_000, "raid0(chunk=4096, 1000 devices)"));
    let data: Vec<u8> = (0..8_192_000u32).map(|at| (at / 4096 * 7) as u8).collect();
    let counts = counted(&device, || device.write_at(&data, 0).unwrap());
    assert_eq!(counts.bios, 1000);
    let mut back = vec![0; data.len()];
    device.read_at(&mut back, 0).unwrap();
    assert!(back == data);
    let mut piece = [0; 4096];
    disks[777].read_at(&mut piece, 4096).unwrap();
    assert_eq!(piece, [(1777 * 7 % 256) as u8; 4096]);
    device.flush().unwrap();
}

/// More parts than a lane may have in flight: bios wait, and all complete.
#[test]
fn parts_are_bounded_and_everything_comes_back() {
    let (_, device) = array(512, &[1 << 20; 64]);
    let mut channel = device.channel(256).unwrap();
    for token in 0..256u64 {
        let mut bio = Bio::write(token * 64 * 512, vec![token as u8; 64 * 512]).unwrap();
        bio.set_token(token);
        assert!(channel.submit(bio).is_ok());
    }
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert!(done.len() == 256 && done.iter().all(|bio| bio.status().is_ok() && bio.done() == 32768));
    let mut back = vec![0; 64 * 512];
    for token in [0u64, 100, 255] {
        device.read_at(&mut back, token * 64 * 512).unwrap();
        assert!(back.iter().all(|&byte| byte == token as u8));
    }
}
