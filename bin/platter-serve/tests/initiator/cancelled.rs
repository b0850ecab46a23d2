//! A write that is cancelled, and whose session ends without another one in its place.

use crate::between::{Fate, Relay};
use crate::kinds::{SIZE, Serving, TARGET, connect};
use platter_block::bio::Bio;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_remote::iscsi::client::IscsiOptions;
use platter_remote::iscsi::wire::opcode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

#[test]
fn a_cancelled_write_without_a_timeout_ends_when_there_is_no_session_in_time() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let holds = Arc::new(AtomicBool::new(false));
    let (held, (tell, told)) = (Arc::clone(&holds), mpsc::channel());
    let relay = Relay::new(serving.address(), move |unit| {
        if unit.connection > 0 {
            return Fate::Cut(0);
        }
        if !held.load(Ordering::SeqCst) {
            return Fate::Pass;
        }
        if unit.to_target {
            let _ = tell.send(unit.header().opcode());
        }
        Fate::Drop
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let options = IscsiOptions::default().with_reconnect(Span::from_millis(100));
    let Some(device) = connect(&url, "noop", options) else { return };
    let (mut channel, mut done) = (device.channel(1).unwrap(), Vec::new());
    holds.store(true, Ordering::SeqCst);
    let mut bio = Bio::write(0, vec![1u8; 512]).unwrap();
    bio.set_token(7);
    channel.submit(bio).map_err(|_| "full").unwrap();
    while told.try_recv() != Ok(opcode::COMMAND) {
        channel.poll(&mut done);
        std::thread::yield_now();
    }
    channel.cancel(7);
    relay.cut();
    channel.wait(&mut done, Some(Span::from_secs(60)));
    assert_eq!(done.len(), 1, "it ends");
    let fault = done[0].status().unwrap_err();
    assert!(fault.is_of_transport(), "{fault:?}");
}
