//! Unit tests of the bio.

use super::*;
use crate::limits::Limits;
use crate::segment::of_slice;
use alloc::vec;
use alloc::vec::Vec;

fn bio_over(memory: &mut [u8], sizes: &[u32]) -> Bio {
    let mut bio = Bio::new(Op::Read, 4096, sizes.iter().map(|&s| u64::from(s)).sum());
    let mut at = 0;
    for &size in sizes {
        let segment = of_slice(&mut memory[at..at + size as usize]);
        bio.add_segment(segment).expect("room for a segment");
        at += size as usize;
    }
    bio
}

/// Addresses of all bytes the bio still covers, relative to `base`.
fn bytes(bio: &Bio, base: *const u8) -> Vec<usize> {
    bio.segments()
        .flat_map(|s| {
            let start = s.addr() as usize - base as usize;
            start..start + s.len() as usize
        })
        .collect()
}

#[test]
fn a_bio_and_a_request_fit_in_256_bytes() {
    const { assert!(Bio::DESCRIPTOR_BYTES <= 192) };
    assert_eq!(size_of::<Bio>(), 8);
}

#[test]
fn advancing_walks_the_segments() {
    let mut memory = vec![0u8; 64];
    let base = memory.as_ptr();
    let mut bio = bio_over(&mut memory, &[8, 16, 4, 4, 32]);
    for step in [0u64, 3, 5, 16, 6, 2, 31, 1] {
        let before = bytes(&bio, base);
        bio.advance(step);
        assert_eq!(bytes(&bio, base), before[step as usize..]);
    }
    assert_eq!((bio.len(), bio.done(), bio.pos()), (0, 64, 4160));
}

#[test]
fn a_split_shares_the_memory() {
    for sizes in [&[8u32, 16, 8][..], &[4, 4, 4, 4, 4, 4, 8]] {
        let mut memory = vec![0u8; 64];
        let base = memory.as_ptr();
        let total: u64 = sizes.iter().map(|&s| u64::from(s)).sum();
        for at in 1..total {
            let mut bio = bio_over(&mut memory, sizes);
            let all = bytes(&bio, base);
            let mut front = Bio::flush();
            bio.split_front(at, &mut front);
            assert_eq!((front.pos(), front.len()), (4096, at));
            assert_eq!((bio.pos(), bio.len()), (4096 + at, total - at));
            assert_eq!([bytes(&front, base), bytes(&bio, base)].concat(), all);
        }
    }
}

#[test]
fn a_recycled_bio_keeps_its_vector_and_loses_its_owner() {
    let mut memory = vec![0u8; 64];
    let mut bio = bio_over(&mut memory, &[4; 16]);
    bio.set_owner(Owner::new(vec![1u8]));
    let before = bio.segments().count();
    bio.reset(Op::Write, 0, 0);
    assert_eq!((before, bio.segment_count(), bio.op()), (16, 0, Op::Write));
    assert!(bio.take_owner::<Vec<u8>>().is_none());
}

/// A bio whose buffer was taken out can be submitted again, without memory, and be refused.
#[test]
fn a_bio_whose_buffer_was_taken_has_no_memory() {
    let mut bio = Bio::read(0, vec![vec![0u8; 512]; 6]).expect("a read");
    bio.advance(5 * 512 + 100);
    assert_eq!((bio.segment_count(), bio.len()), (1, 412));
    assert!(bio.take_owner::<Vec<Vec<u8>>>().is_some());
    assert_eq!((bio.segment_count(), bio.segments().count(), bio.single_segment()), (0, 0, None));
    assert_eq!(bio.len(), 412);
    bio.rewind(0, 512);
    let checked = Limits::unlimited(512).check_memory(&bio, 1 << 20);
    assert_eq!(checked.map_err(|fault| fault.kind), Err(Kind::BadSegments));
}

#[test]
fn a_clone_is_not_changed_by_its_original() {
    let mut memory = vec![0u8; 64];
    let base = memory.as_ptr();
    let mut bio = bio_over(&mut memory, &[8; 8]);
    let mut clone = Bio::flush();
    clone.share_window(&bio);
    let all = bytes(&bio, base);
    bio.reset(Op::Read, 0, 8);
    for _ in 0..8 {
        bio.add_segment(Segment::EMPTY).expect("room for a segment");
    }
    assert_eq!(bytes(&clone, base), all);
}

#[test]
fn the_list_ends_at_iov_max() {
    let mut bio = Bio::new(Op::Read, 0, 0);
    for _ in 0..MAX_SEGMENTS {
        bio.add_segment(Segment::EMPTY).expect("room for a segment");
    }
    assert_eq!(bio.add_segment(Segment::EMPTY).map_err(|f| f.kind), Err(Kind::BadSegments));
}

#[test]
fn the_first_failure_stays() {
    let mut bio = Bio::flush();
    bio.fail(Fault::from_errno(5));
    bio.fail(Fault::from_errno(28));
    assert_eq!(bio.status(), Err(Fault::from_errno(5)));
}

/// Parts of a bio keep its handle; a reset bio has none.
#[test]
fn a_bio_hands_its_handle_on_until_it_is_reset() {
    let mut memory = vec![0u8; 64];
    let mut bio = bio_over(&mut memory, &[64]);
    assert_eq!(bio.handle(), HandleId::DEVICE);
    bio.set_handle(HandleId(9));
    let (mut clone, mut front) = (Bio::flush(), Bio::flush());
    clone.share_window(&bio);
    bio.split_front(8, &mut front);
    let copy = bio.stand_in();
    assert_eq!([&bio, &clone, &front, &copy].map(Bio::handle), [HandleId(9); 4]);
    bio.rewind(0, 64);
    assert_eq!(bio.handle(), HandleId(9));
    bio.reset(Op::Read, 0, 0);
    assert_eq!(bio.handle(), HandleId::DEVICE);
}
