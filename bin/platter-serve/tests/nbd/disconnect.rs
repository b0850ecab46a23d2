//! A client that is disconnected sees the end of its connection when the device has no write of it any more: clients take a
//! server that has closed a connection to be done with it, and send their writes again.

use crate::client::attach;
use crate::serve;
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, command};
use platter_stack::filter::{BioView, Filter, Filtered};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps writes for a while, and says when one is over.
#[derive(Clone, Default)]
struct Slow {
    began: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Filter for Slow {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let is_write = bio.op() == Op::Write;
        self.began.fetch_or(is_write, Ordering::SeqCst);
        Ok(if is_write { now + Span::from_millis(500) } else { now })
    }

    fn release(&mut self) -> bool {
        self.over.store(true, Ordering::SeqCst);
        false
    }
}

#[test]
fn the_end_of_a_disconnected_client_comes_after_its_last_write() {
    let (slow, ram) = (Slow::default(), Device::ram(1 << 20).unwrap());
    let layer = Filtered::new("slow", "", Arc::clone(ram.backend()), slow.clone());
    let fixture = serve(Device::new(Arc::new(layer)));
    let mut client = attach(&fixture.unix, "disk", false);
    let write = Request { kind: command::WRITE, length: 512, ..Request::default() };
    client.stream.write_all(&[&write.to_bytes()[..], &[7; 512]].concat()).unwrap();
    while !slow.began.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    fixture.server().clients().list().iter().for_each(|client| client.disconnect());
    client.stream.read_to_end(&mut Vec::new()).unwrap();
    assert!(slow.over.load(Ordering::SeqCst), "the connection is closed while the device has a write of it");
}
