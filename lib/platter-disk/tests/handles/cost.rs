//! The cost of a read from memory besides the copy.

use crate::cached::Cached;
use crate::counting::allocations;
use platter_block::resident::PAGE;
use std::io::{Read, Seek, SeekFrom};

/// Other tests of the process may allocate at the same time; an allocation per read would show in every
/// round.
#[test]
fn hits_allocate_nothing() {
    let (cached, device) = Cached::open();
    cached.fill();
    let mut handle = device.handle();
    let mut buffer = [0; 512];
    let least = (0..200).map(|_| {
        let before = allocations();
        handle.seek(SeekFrom::Start(0)).unwrap();
        for at in 0..32 {
            handle.read_exact(&mut buffer).unwrap();
            handle.read_at(&mut buffer, at * 100).unwrap();
            device.read_at(&mut buffer, at * 100).unwrap();
            assert_eq!(handle.page(at * PAGE).unwrap().len(), PAGE as usize);
        }
        allocations() - before
    });
    assert_eq!(least.min(), Some(0));
}
