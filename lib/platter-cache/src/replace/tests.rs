//! The replacement order against a model, its bounds, and its hit ratios beside those of other policies.

mod compare;
mod model;
mod rivals;
mod traces;

use super::queues::List;
use super::{LOOKS, Probe, Replacement};
use rivals::{Cache, Ours};

/// Evicts a frame. `uses` has the use count of each frame, `None` for busy ones. Returns the frame and the
/// number of probes. No page comes back.
fn evict(order: &mut Replacement, uses: &mut [Option<u8>]) -> (Option<u32>, u32) {
    evict_page(order, uses, &|frame| 1 << 40 | u64::from(frame))
}

/// As `evict`, with the page of each frame.
fn evict_page(
    order: &mut Replacement,
    uses: &mut [Option<u8>],
    page_of: &dyn Fn(u32) -> u64,
) -> (Option<u32>, u32) {
    let mut looks = 0;
    let frame = order.evict(&mut |frame| {
        looks += 1;
        match &mut uses[frame as usize] {
            None => Probe::Busy,
            Some(0) => Probe::Free(page_of(frame)),
            Some(uses) => {
                *uses -= 1;
                Probe::Used(*uses + 1)
            }
        }
    });
    (frame, looks)
}

/// Percentage left in the cache of a hot set of four fifths of its size, after a scan of ten times its size
/// that reads each page `reads` times in a row.
fn left_after_scan(reads: u64) -> u64 {
    let size = 1000;
    let hot = size * 8 / 10;
    let mut cache = Ours::new(size as usize);
    for page in (0..hot * 10).map(|at| at % hot) {
        cache.access(page);
    }
    for page in (0..size * 10 * reads).map(|at| (1 << 40) + at / reads) {
        cache.access(page);
    }
    (0..hot).filter(|&page| cache.holds(page)).count() as u64 * 100 / hot
}

#[test]
fn a_hot_set_survives_a_scan_of_ten_caches() {
    assert!(left_after_scan(1) >= 95, "{} %", left_after_scan(1));
}

#[test]
fn a_hot_set_survives_a_scan_in_pieces_of_pages() {
    assert!(left_after_scan(8) >= 95, "{} %", left_after_scan(8));
}

#[test]
fn a_page_that_comes_back_soon_outlives_one_that_is_new() {
    let size = 100;
    let mut cache = Ours::new(size);
    for page in 0..150 {
        cache.access(page);
    }
    assert!(!cache.holds(0));
    cache.access(0);
    for page in 1000..1500 {
        cache.access(page);
    }
    assert!(cache.holds(0));
    assert!(!cache.holds(1000));
}

#[test]
fn frames_that_were_all_used_go_within_the_bound() {
    let frames = 10_000;
    let mut order = Replacement::new(frames);
    let mut uses = vec![Some(3); frames as usize];
    for frame in 0..frames {
        order.insert(frame, frame.into());
    }
    for left in (0..frames).rev() {
        let (frame, looks) = evict(&mut order, &mut uses);
        assert!(frame.is_some() && looks <= LOOKS, "{frame:?} after {looks} looks");
        assert_eq!(order.len(), left as usize);
    }
    assert_eq!(evict(&mut order, &mut uses), (None, 0));
}

#[test]
fn busy_frames_are_not_looked_at_again_for_every_frame_that_goes() {
    let frames = 10_000u32;
    let mut order = Replacement::new(frames);
    // Nine of ten are dirty.
    let mut uses: Vec<_> = (0..frames).map(|frame| (frame % 10 == 0).then_some(0)).collect();
    for frame in 0..frames {
        order.insert(frame, frame.into());
    }
    let mut total = 0;
    for round in 0..frames {
        let (frame, looks) = evict(&mut order, &mut uses);
        let frame = frame.expect("one in ten can go");
        assert_eq!(frame % 10, 0);
        total += looks;
        order.insert(frame, u64::from(frames + round));
    }
    assert!(total <= 4 * frames, "{total} looks for {frames} frames");
}

#[test]
fn all_busy_is_told_within_the_bound() {
    let frames = 1000;
    let mut order = Replacement::new(frames);
    for frame in 0..frames {
        order.insert(frame, frame.into());
    }
    for _ in 0..100 {
        let mut seen = vec![false; frames as usize];
        let chosen = order.evict(&mut |frame| {
            assert!(!std::mem::replace(&mut seen[frame as usize], true), "{frame} was looked at twice");
            Probe::Busy
        });
        assert_eq!(chosen, None);
        assert!(seen.iter().filter(|&&seen| seen).count() <= LOOKS as usize);
        assert_eq!(order.len(), frames as usize);
    }
}

#[test]
fn a_frame_that_is_ready_goes_next_and_one_that_is_not_told_of_goes_in_time() {
    let mut order = Replacement::new(100);
    let mut uses = vec![None; 100];
    for frame in 0..100 {
        order.insert(frame, frame.into());
    }
    while order.queues.len_of(List::Parked) < 100 {
        assert_eq!(evict(&mut order, &mut uses).0, None);
    }
    uses[57] = Some(0);
    order.ready(57);
    // The first look goes to a parked frame, the second to what is ready.
    assert_eq!(evict(&mut order, &mut uses), (Some(57), 2));
    uses[20] = Some(0);
    assert!((0..2).any(|_| evict(&mut order, &mut uses).0 == Some(20)));
}

#[test]
fn what_is_not_needed_goes_first_unless_it_is_used() {
    let mut order = Replacement::new(10);
    let mut uses = vec![Some(0); 10];
    for frame in 0..10 {
        order.insert(frame, frame.into());
    }
    order.cold_hint(7);
    order.cold_hint(5);
    uses[7] = Some(1);
    assert_eq!(evict(&mut order, &mut uses).0, Some(5));
    assert_eq!(order.queues.frames(List::Small).last(), Some(&7));
    assert_eq!(evict(&mut order, &mut uses).0, Some(0));
    order.cold_hint(5);
    assert_eq!(order.len(), 8);
}

#[test]
fn an_order_of_no_frames_has_none_to_take() {
    let mut order = Replacement::new(0);
    assert!(order.is_empty());
    assert_eq!(order.evict(&mut |_| Probe::Free(0)), None);
}
