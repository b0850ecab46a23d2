//! An answer that came before the end of its session, and is read after another channel has noticed that end.

use crate::answers::wait_until;
use crate::between::{Fate, Relay};
use crate::kinds::{SIZE, Serving, TARGET, connect};
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_remote::iscsi::client::IscsiOptions;
use platter_remote::iscsi::wire::opcode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use tempfile::NamedTempFile;

#[test]
fn a_write_whose_answer_is_read_after_the_end_was_noticed_fails_a_flush() {
    // A disk in memory has no cache that could be lost.
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(SIZE).unwrap();
    let serving = Serving::new(Device::open(file.path(), DiskOptions::read_write()).unwrap());
    let (is_opened, is_given) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (opened, given) = (Arc::clone(&is_opened), Arc::clone(&is_given));
    let (tell, told) = mpsc::channel();
    let relay = Relay::new(serving.address(), move |unit| {
        // The session for flushes is connected first, that of the channel next.
        if unit.connection != 1 || !opened.load(Ordering::SeqCst) {
            return Fate::Pass;
        }
        match unit.header().opcode() {
            opcode::COMMAND => tell.send(()).unwrap(),
            opcode::RESPONSE => {
                // Nothing looks at the connection any more.
                wait_until(|| given.load(Ordering::SeqCst));
                return Fate::Cut(unit.bytes.len());
            }
            _ => {}
        }
        Fate::Pass
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "none", IscsiOptions::default().with_connections(3)) else { return };
    let (mut channel, mut done) = (device.channel(4).unwrap(), Vec::new());
    is_opened.store(true, Ordering::SeqCst);
    channel.submit(Bio::write(0, vec![1u8; 512]).unwrap()).map_err(|_| "full").unwrap();
    while told.try_recv().is_err() {
        channel.poll(&mut done);
        std::thread::yield_now();
    }
    is_given.store(true, Ordering::SeqCst);
    wait_until(|| relay.ends() > 0);
    // It notices the end of the other session, over which nothing was written as far as is known.
    device.flush().unwrap();
    while done.is_empty() {
        channel.poll(&mut done);
        std::thread::yield_now();
    }
    assert!(done[0].status().is_ok());
    assert_eq!(device.flush().unwrap_err().fault.kind, Kind::Io);
    device.acknowledge_flush_failure();
    device.flush().unwrap();
}
