//! What a client may still have when the device keeps memory after a timeout.

use crate::client::attach;
use crate::serve_with;
use platter_block::bio::Op;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_remote::nbd::wire::{command, command_flag, error};
use platter_serve::export::Options;
use platter_sim::fault::{Blow, Lands, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};

/// Zeroes are written in steps with one buffer, which the last step uses only in part.
const STEP: u32 = 256 << 10;

/// In virtual time: the last step of a request times out, and the disk keeps the buffer.
#[test]
fn a_buffer_that_the_device_keeps_takes_no_memory_from_its_client() {
    let world = World::new(1);
    let model = Ideal { size: 16 << 20, latency: Span::from_micros(100), depth: 32, write_cache: false };
    let disk = SimDisk::new(&world, model.into(), Some(Medium::new()));
    let mut settings = DiskSettings::default();
    settings.queue.timeout = Some(Span::from_secs(1));
    let device = Device::from_disk(disk.attach("sim"), settings, None).unwrap();
    let mut options = Options::default();
    options.client_memory_bytes = STEP as usize;
    let fixture = serve_with(vec![("disk", device)], 1, &options);
    let mut client = attach(&fixture.unix, "disk", true);
    let write = |blow| disk.strike(Strike { op: Some(Op::Write), blow });
    write(Blow::Spike(Span::from_micros(1)));
    write(Blow::Stuck(Span::from_secs(3600), Lands::Late));
    let zeroes = client.call(command::WRITE_ZEROES, command_flag::NO_HOLE, 0, STEP + 4096, b"");
    assert_eq!(zeroes.error, error::EIO);
    assert_eq!(client.read(8 << 20, STEP), vec![0; STEP as usize]);
}
