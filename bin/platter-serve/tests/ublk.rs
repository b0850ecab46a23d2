//! Block devices of the kernel: what is refused, and one at the driver where there is one. `scripts/check-ublk` does more.

use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const SIZE: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn server(names: &[&str]) -> Server {
    let server = Server::default();
    for name in names {
        server.devices().add(Served::new(name, Device::ram(SIZE).unwrap()).unwrap()).unwrap();
    }
    server
}

#[test]
fn wrong_addresses_are_refused_before_the_driver_is_asked() {
    let cases = [
        ("first", "is not auto or a number"),
        ("auto", "add device=NAME to its address; there are \"a\", \"b\""),
        ("auto,device=c", "no device \"c\""),
        ("auto,device=a,queues=0", "1 to 64"),
    ];
    for (address, part) in cases {
        let error = server(&["a", "b"]).start("ublk", address, &Options::default()).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{error}");
    }
    let mut small = Options::default();
    small.client_memory_bytes = 4096;
    let error = server(&["a"]).start("ublk", "auto", &small).unwrap_err();
    assert!(error.to_string().contains("4096 bytes of memory"), "{error}");
}

#[test]
fn a_block_device_has_the_data_of_its_device() {
    let mut server = server(&["a"]);
    let at = match server.start("ublk", "auto", &Options::default()) {
        Ok(at) => at,
        Err(error) => {
            assert!(!error.is_usage(), "{error}");
            eprintln!("skipped: {error}");
            return;
        }
    };
    let device = server.devices().find("a").unwrap();
    let block = OpenOptions::new().read(true).write(true).open(&at).unwrap();
    block.write_all_at(&[7; 8192], 4096).unwrap();
    block.sync_all().unwrap();
    let mut data = [0; 8192];
    device.device().read_at(&mut data, 4096).unwrap();
    assert!(data == [7; 8192]);
    drop(block);
    server.stop(PATIENCE).unwrap();
    assert!(!Path::new(&at).exists());
}
