//! Members that fail: the array reports which member, and the position there.

use crate::rig::{Bad, CHUNK, backends, flawed};
use platter_block::bio::{Bio, Flags};
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use platter_stack::by_name;
use platter_stack::raid0::{self, Sizes};

fn three(bad: Bad) -> Device {
    let disks =
        [flawed("a", 1 << 20, Bad::Nothing), flawed("b", 1 << 20, bad), flawed("c", 1 << 20, Bad::Nothing)];
    Device::new(raid0::new(backends(&disks), CHUNK, Sizes::Zones).unwrap())
}

#[test]
fn an_error_names_the_member_and_its_offset() {
    let device = three(Bad::Byte(CHUNK + 8192));
    let text = device.write_at(&[1; 4096], 4 * CHUNK + 8192).unwrap_err().to_string();
    let array = "raid0(chunk=65536, a, b, c)";
    assert_eq!(
        text,
        format!(
            "{array}: write of 4096 bytes at {}: the device failed (errno 5); on member 1 (b) at {}",
            4 * CHUNK + 8192,
            CHUNK + 8192
        )
    );
    // Of a part, only the first byte on the member is known.
    let error = device.read_at(&mut vec![0; 6 * CHUNK as usize], 3 * CHUNK).unwrap_err();
    assert_eq!((error.fault.kind, error.offset, error.len), (Kind::Io, 3 * CHUNK, 6 * CHUNK));
    assert_eq!(error.detail, format!("on member 1 (b) at {CHUNK}"));
    // Neighbouring chunks are not affected.
    device.write_at(&[1; 4096], 3 * CHUNK + 8192).unwrap();
}

#[test]
fn a_stack_of_layers_names_the_disk() {
    let inner = three(Bad::Byte(0));
    let other = flawed("d", 4 << 20, Bad::Nothing);
    let partition = by_name("partition").unwrap();
    let part = partition.make(&[("offset", 4096)], backends(&[other])).unwrap();
    let outer = raid0::new(vec![part, inner.backend().clone()], CHUNK, Sizes::Zones).unwrap();
    let device = Device::new(outer);
    let error = device.read_at(&mut [0; 512], 3 * CHUNK).unwrap_err();
    assert_eq!(error.detail, "on member 1.1 (b) at 0");
}

/// `Bio::done` of a failed bio counts the bytes before the first failed one.
#[test]
fn done_is_the_part_before_the_first_failure() {
    let device = three(Bad::Byte(CHUNK));
    let mut channel = device.channel(4).unwrap();
    let mut bio = Bio::write(2 * CHUNK, vec![1; 6 * CHUNK as usize]).unwrap();
    bio.set_token(9);
    assert!(channel.submit(bio).is_ok());
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    let bio = &mut done[0];
    assert_eq!(bio.status().unwrap_err().kind, Kind::Io);
    assert_eq!((bio.token(), bio.done(), bio.pos()), (9, 2 * CHUNK, 4 * CHUNK));
    assert_eq!(bio.take_buffer::<Vec<u8>>().map(|buffer| buffer.len()), Some(6 * CHUNK as usize));
}

/// A flush that fails on one member fails all later flushes of the device until that is acknowledged.
#[test]
fn a_failed_flush_of_a_member_is_that_of_the_array() {
    let device = three(Bad::Flush);
    let error = device.flush().unwrap_err();
    assert_eq!((error.fault.kind, error.detail.as_str()), (Kind::Io, "on member 1 (b) at 0"));
    let error = device.flush().unwrap_err();
    assert_eq!(error.fault.kind, Kind::FlushFailed);
    assert!(error.detail.starts_with("on member 1 (b) at 0; earlier writes may be lost"), "{error}");
    // If a preflush fails, the write that needs it is not carried out.
    for flags in [Flags::PREFLUSH, Flags::HARD_BARRIER] {
        device.acknowledge_flush_failure();
        let error = device.write_at_with(&[7; 512], 0, IoOptions::flags(flags)).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Io);
        let mut back = [1; 512];
        device.read_at(&mut back, 0).unwrap();
        assert_eq!(back, [0; 512], "{flags:?}");
    }
}
