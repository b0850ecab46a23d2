//! One writer does not take all dirty pages: the others go on.

use crate::flood::{beside_flood, over_slow, pass, write};
use platter_block::bio::Context;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_sim::rng::Rng;

#[test]
fn a_writer_with_few_dirty_pages_does_not_wait_behind_one_with_many() {
    let (one, other) = (Context::new(1), Context::new(2));
    let shared = beside_flood(one, other);
    // A single client waits behind itself.
    let alone = beside_flood(one, one);
    assert!(shared.longest <= Span::from_millis(20), "{:?}", shared.longest);
    assert!(shared.middle <= Span::from_millis(1), "{:?}", shared.middle);
    assert!(alone.middle >= Span::from_millis(50), "{:?}", alone.middle);
    // The disk is as busy as before.
    assert!(shared.flooded * 10 >= alone.flooded * 9, "{} and {} writes/s", shared.flooded, alone.flooded);
}

/// Many writers beside each other get the same, and all of them together what one gets.
#[test]
fn writers_that_all_have_much_to_write_get_the_same() {
    let (world, device) = over_slow();
    let mut all: Vec<(Channel, u64)> = (0..5).map(|_| (device.channel(200).unwrap(), 0)).collect();
    let (mut rng, mut done) = (Rng::new(9), Vec::new());
    while world.clock().now() < Time(5_000_000_000) {
        for (number, (channel, written)) in all.iter_mut().enumerate() {
            // The first ones have more I/Os at a time.
            while channel.outstanding() < 200 >> number {
                let bio = write(rng.below(16_000) * 4096, Context::new(number as u32 + 1));
                assert!(channel.submit(bio).is_ok());
            }
            channel.flush();
            *written += channel.poll(&mut done) as u64;
            assert!(done.drain(..).all(|bio| bio.status().is_ok()));
        }
        pass(&world, &all.iter().map(|(channel, _)| channel).collect::<Vec<_>>());
    }
    let written: Vec<u64> = all.iter().map(|(_, written)| *written).collect();
    let (least, most) = (written.iter().min().unwrap(), written.iter().max().unwrap());
    assert!(least * 2 >= *most, "{written:?}");
}
