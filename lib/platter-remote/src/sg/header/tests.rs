//! The structures against what the C compiler makes of the kernel's headers.

use super::*;

fn places(transfer: Transfer) -> Places {
    Places {
        command: (0x1111_2222_3333, 10),
        sense: 0x4444_5555_6666,
        transfer,
        data: 0x7777_8888_9999,
        len: 0x0001_0200,
        pieces: 3,
        timeout_ms: 0x0a0b_0c0d,
        at_head: true,
        number: 0x0102_0304,
    }
}

/// The bytes of a structure of integers without padding between them.
fn number<T: Copy>(structure: &T, at: usize, len: usize) -> u64 {
    assert!(at + len <= size_of::<T>());
    (0..len).fold(0, |sum, n| {
        let byte = bytes(structure)[at + n];
        sum | u64::from(byte) << (8 * n)
    })
}

#[allow(unsafe_code)]
fn bytes<T: Copy>(structure: &T) -> Vec<u8> {
    let mut bytes = vec![0u8; size_of::<T>()];
    // SAFETY: as many bytes as the structure has, to memory of that size. Padding is not read from: the destination keeps
    // whatever is copied, and the tests look at no padding.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *structure).cast::<u8>(), bytes.as_mut_ptr(), bytes.len());
    }
    bytes
}

/// Offsets by `offsetof` on x86-64.
#[test]
#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
fn version_3_is_as_in_sg_h() {
    let header = V3::new(&places(Transfer::ToDevice));
    for (at, len, value) in [
        (0, 4, u64::from(b'S')),
        (4, 4, 0xffff_fffe),
        (8, 1, 10),
        (9, 1, 96),
        (10, 2, 3),
        (12, 4, 0x0001_0200),
        (16, 8, 0x7777_8888_9999),
        (24, 8, 0x1111_2222_3333),
        (32, 8, 0x4444_5555_6666),
        (40, 4, 0x0a0b_0c0d),
        (44, 4, 0x21),
        (48, 4, 0x0102_0304),
    ] {
        assert_eq!(number(&header, at, len), value, "at {at}");
    }
    assert_eq!(number(&V3::new(&places(Transfer::FromDevice)), 4, 4), 0xffff_fffd);
    assert_eq!(number(&V3::new(&places(Transfer::None)), 4, 4), 0xffff_ffff);
    let answer =
        V3 { status: 2, sb_len_wr: 18, host_status: 7, driver_status: 8, resid: -5, info: 3, ..header };
    for (at, len, value) in
        [(64, 1, 2), (67, 1, 18), (68, 2, 7), (70, 2, 8), (72, 4, 0xffff_fffb), (80, 4, 3)]
    {
        assert_eq!(number(&answer, at, len), value, "at {at}");
    }
}

#[test]
#[cfg(target_endian = "little")]
fn version_4_is_as_in_bsg_h() {
    let out = V4::new(&places(Transfer::ToDevice));
    for (at, len, value) in [
        (0, 4, u64::from(b'Q')),
        (4, 8, 0),
        (12, 4, 10),
        (16, 8, 0x1111_2222_3333),
        (44, 4, 96),
        (48, 8, 0x4444_5555_6666),
        (60, 4, 0x0001_0200),
        (68, 4, 0),
        (72, 8, 0x7777_8888_9999),
        (80, 8, 0),
        (88, 4, 0x0a0b_0c0d),
        (92, 4, 0),
        (96, 8, 0x0102_0304),
    ] {
        assert_eq!(number(&out, at, len), value, "at {at}");
    }
    let into = V4::new(&places(Transfer::FromDevice));
    assert_eq!((number(&into, 68, 4), number(&into, 80, 8)), (0x0001_0200, 0x7777_8888_9999));
    let answer = V4 { driver_status: 1, transport_status: 2, device_status: 3, din_resid: 4, ..into };
    for (at, value) in [(108, 1), (112, 2), (116, 3), (136, 4)] {
        assert_eq!(number(&answer, at, 4), value, "at {at}");
    }
    let answer = V4 { response_len: 300, ..answer };
    assert_eq!((number(&answer, 132, 4), answer.returned().sense_len), (300, SENSE_ROOM));
    assert_eq!((answer.returned().residual, answer.returned().status), (4, 3));
}

#[test]
fn a_residual_is_never_more_than_the_data() {
    let header = V3::new(&places(Transfer::FromDevice));
    for (resid, wanted) in [(-1, 0), (0, 0), (512, 512), (i32::MAX, 0x0001_0200)] {
        assert_eq!(V3 { resid, ..header }.returned().residual, wanted);
    }
    assert!(V3 { info: 2, ..header }.returned().is_direct && !V3 { info: 4, ..header }.returned().is_direct);
}

#[test]
fn a_driver_status_counts_where_the_host_has_none() {
    let of =
        |host_status, driver_status| V3 { host_status, driver_status, ..V3::default() }.returned().transport;
    assert_eq!((of(0, 0), of(0, 8), of(0, 0x38)), (0, 0, 0));
    assert_eq!((of(0, 6), of(7, 6), of(3, 8)), (0x106, 7, 3));
}
