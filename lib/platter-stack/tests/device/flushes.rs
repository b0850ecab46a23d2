//! Flushes of sleeping threads, of programs that poll, and barriers, over layers on files.

use crate::kinds::over_files;
use crate::rig::{spawn, submit, until};
use platter_block::bio::{Bio, Flags};
use platter_block::time::Span;
use platter_disk::sync_io::IoOptions;

/// Threads that sleep flush files themselves, also through layers, beside flushes of the disk's queue and barriers.
#[test]
fn flushes_of_all_kinds_beside_each_other_end() {
    for (name, device) in over_files() {
        let threads = [0u64, 1, 2].map(|thread| {
            let device = device.clone();
            spawn(move || {
                (0..10u64).all(|round| {
                    let pos = (thread * 10 + round) * 8192;
                    let options = IoOptions::timeout(Span::from_secs(600));
                    let flushed = match (thread, round % 3) {
                        (2, 0) => device.flush_with(options),
                        (2, 1) => device.flush_range(pos, 4096),
                        _ => device.flush(),
                    };
                    device.write_at(&[thread as u8; 4096], pos).is_ok() && flushed.is_ok()
                })
            })
        });
        let (mut channel, mut done) = (device.channel(2).unwrap(), Vec::new());
        for flags in [Flags::NONE, Flags::HARD_BARRIER, Flags::NONE] {
            let mut flush = Bio::flush();
            flush.add_flags(flags);
            submit(&mut channel, flush);
            until("the flush of a channel", || channel.poll(&mut done) > 0);
        }
        assert!(done.iter().all(|bio| bio.status().is_ok()), "{name}");
        threads.into_iter().for_each(|thread| assert!(thread.result(name), "{name}"));
        device.flush().unwrap();
    }
}
