//! A request that was prepared before the device shrank does not start, unless that defect is put back.

use platter_block::bio::Bio;
use platter_block::counters::Counters;
use platter_block::defect::{self, Defect};
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use platter_block::queue::{Prebuilt, SchedQueue, Settings};
use platter_block::time::Time;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;

/// Prepares a read, shrinks the device, and submits the read. Returns whether it starts.
fn starts_past_the_end() -> bool {
    let features = Features::default().with_prebuild(true);
    let geometry = Geometry::new(SIZE, Limits::unlimited(512)).with_features(features);
    let mut queue = SchedQueue::new(geometry, Settings::default(), None, Arc::new(Counters::default()));
    let bio = Bio::read(SIZE / 2, vec![0u8; 512]).unwrap();
    let prebuilt = Prebuilt::examine(&geometry, &bio);
    queue.set_size(SIZE / 4, SIZE);
    queue.submit_prebuilt(Time(0), bio, prebuilt);
    queue.next(Time(0)).is_some()
}

/// A single test, because a defect is put back for the whole process.
#[test]
fn what_is_known_of_a_bio_ends_with_the_size_of_the_device() {
    assert!(!starts_past_the_end());
    defect::put_back(Defect::PrebuiltOfOldSize, true);
    let found = starts_past_the_end();
    defect::put_back(Defect::PrebuiltOfOldSize, false);
    assert!(found || !defect::AVAILABLE);
}
