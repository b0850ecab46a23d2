//! Extents: data goes where the table says, gaps fail, tables that cannot be are refused.

use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use platter_stack::extents::{Mapping, new, parse};
use std::sync::Arc;

fn ram(size: u64) -> Device {
    Device::ram(size).unwrap()
}

fn over(table: &str, devices: &[&Device]) -> Result<Device, String> {
    let members = devices.iter().map(|device| Arc::clone(device.backend())).collect();
    new(parse(table)?, members).map(Device::new).map_err(|error| error.to_string())
}

#[test]
fn data_goes_where_the_table_says() {
    let (a, b) = (ram(1 << 20), ram(1 << 20));
    // Two blocks of 4 KiB of each, back to front, with a hole at 16K.
    let device = over("0 8K 1 64K; 8K 8K 0 512K; 20K 4K 0 0; 24K 4K 1 0", &[&a, &b]).unwrap();
    assert_eq!(device.size(), 28 << 10);
    let data: Vec<u8> = (0..16u32 << 10).map(|at| (at >> 9) as u8 + 1).collect();
    device.write_at(&data, 0).unwrap();
    let mut back = vec![0; 16 << 10];
    device.read_at(&mut back, 0).unwrap();
    assert!(back == data);
    let mut part = vec![0; 8 << 10];
    b.read_at(&mut part, 64 << 10).unwrap();
    assert!(part == data[..8 << 10]);
    a.read_at(&mut part, 512 << 10).unwrap();
    assert!(part == data[8 << 10..]);
    // The gap fails, also as a part of a larger transfer, and what lies beside it does not.
    let error = device.read_at(&mut [0; 512], 16 << 10).unwrap_err();
    assert!(error.to_string().contains("no extent of the table covers this place"), "{error}");
    assert!(device.write_at(&[0; 8192], 12 << 10).is_err());
    device.write_at(&[9; 8192], 20 << 10).unwrap();
    device.flush().unwrap();
    let facts = device.facts();
    assert!(facts.contains(&("extents", "4".into())) && facts.contains(&("gaps", "1".into())), "{facts:?}");
}

/// Barriers wait as long as those of the disk, whatever a gap has.
#[test]
fn a_gap_does_not_lengthen_the_waits_for_lanes() {
    let queue = Settings { barrier_timeout: Span::from_secs(1), ..Settings::default() };
    let model = Ideal { size: 1 << 20, latency: Span::default(), depth: 4, write_cache: false };
    let disk = SimDisk::new(&World::new(1), model.into(), None);
    let settings = DiskSettings::default().with_queue(queue);
    let disk = Device::from_disk(disk.attach("disk"), settings, None).unwrap();
    let device = over("0 8K 0 0; 16K 8K 0 64K", &[&disk]).unwrap();
    assert_eq!(device.backend().barrier_timeout(), Span::from_secs(1));
}

/// A transfer over thousands of extents is done a section at a time, and arrives whole.
#[test]
fn a_large_transfer_over_small_extents_is_whole() {
    let disk = ram(16 << 20);
    let rows =
        (0..4096u64).map(|at| Mapping { start: at * 4096, len: 4096, device: 0, offset: (4095 - at) * 4096 });
    let device = Device::new(new(rows.collect(), vec![Arc::clone(disk.backend())]).unwrap());
    let data: Vec<u8> = (0..16u32 << 20).map(|at| (at >> 12) as u8 ^ (at >> 20) as u8).collect();
    device.write_at(&data, 0).unwrap();
    let mut back = vec![0; 16 << 20];
    device.read_at(&mut back, 0).unwrap();
    assert!(back == data);
    disk.read_at(&mut back[..4096], 0).unwrap();
    assert!(back[..4096] == data[(16 << 20) - 4096..]);
    device.discard(4096, 8 << 20).unwrap();
    device.write_zeroes(0, 16 << 20).unwrap();
    device.read_at(&mut back, 0).unwrap();
    assert!(back.iter().all(|&byte| byte == 0));
}

#[test]
fn tables_that_cannot_be_are_refused_by_name() {
    let (a, b) = (ram(1 << 20), ram(1 << 20));
    let told = |table: &str| over(table, &[&a, &b]).err().unwrap();
    assert!(told("").contains("the table has 0 rows"));
    let text = told("0 8K 0 0; 4K 8K 1 0");
    assert!(text.contains("rows \"0 8192 0 0\" and \"4096 8192 1 0\" overlap on the device"), "{text}");
    let text = told("0 8K 0 0; 8K 8K 0 4K; 16K 4K 1 0");
    assert!(text.contains("overlap on device 0"), "{text}");
    let text = told("0 8K 0 1020K; 8K 4K 1 0");
    assert!(
        text.contains("row \"0 8192 0 1044480\" ends past the end of device 0 (ram, 1048576 bytes)"),
        "{text}"
    );
    assert!(told("0 8K 2 0").contains("names device 2; the devices are numbered from 0 to 1"));
    assert!(told("0 100 0 0").contains("multiples of the logical block"));
    assert!(told("0 0 0 0").contains("is empty"));
    let text = told("0 8K 0 0");
    assert!(text.contains("no row uses device 1 (ram); leave it out"), "{text}");
}
