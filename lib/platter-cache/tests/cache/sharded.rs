//! A cache of several shards as one device.

use crate::futures;
use crate::rig::{self, small};
use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_block::fault::Kind;
use platter_block::hint::Hint;
use platter_block::time::Span;
use platter_cache::readahead::by_name;
use platter_cache::{self as cache, Settings};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_sim::World;
use platter_sim::ideal::Ideal;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// Extents of four pages.
fn sharded(shards: u32, pages: u64) -> Settings {
    Settings { shards, extent: 4 * PAGE, ..small(pages) }
}

/// A disk of 4 MiB whose pages have their numbers as contents.
fn numbered() -> Arc<dyn Backend> {
    let device = Device::ram(4 << 20).unwrap();
    for page in 0..1024u64 {
        let data: Vec<u8> = page.to_le_bytes().repeat(PAGE as usize / 8);
        device.write_at(&data, page * PAGE).unwrap();
    }
    Arc::clone(device.backend())
}

fn fact(device: &Device, name: &str) -> u64 {
    let facts = device.facts();
    facts.iter().find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
}

fn number(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

#[test]
fn hits_of_all_shards_take_no_lock() {
    let device = rig::cached(numbered(), &sharded(3, 768));
    let mut data = vec![0; 64 * PAGE as usize];
    device.read_at(&mut data, 0).unwrap();
    let (locks, hits) = (fact(&device, "cache locks"), device.cache_counters().unwrap().hits);
    data.fill(0);
    device.read_at(&mut data, 0).unwrap();
    let pages: Vec<u64> = data.chunks(PAGE as usize).map(number).collect();
    assert_eq!(pages, (0..64).collect::<Vec<_>>());
    let handle = device.handle();
    let opened = fact(&device, "cache locks") - locks;
    let pins: Vec<_> = (0..64).map(|page| handle.page(page * PAGE).unwrap()).collect();
    assert!(pins.iter().zip(0..).all(|(pin, page)| number(pin) == page));
    assert_eq!(fact(&device, "cache locks") - locks, opened);
    // A page that is let go can be evicted, in its own shard.
    drop(pins);
    (0..1024).for_each(|page| device.read_at(&mut data[..PAGE as usize], page * PAGE).unwrap());
    assert_eq!(number(&data), 1023);
    assert!(device.cache_counters().unwrap().hits >= hits + 128);
}

/// Reads 64 pages that are cached through a channel and a future: within an extent, and over many.
fn read_at_once(device: &Device, channel: &mut Channel) {
    let numbers = |data: &[u8]| data.chunks(PAGE as usize).map(number).collect::<Vec<u64>>();
    let memory = |pages: u64| vec![0u8; (pages * PAGE) as usize];
    for (page, pages) in (0..64).map(|page| (page, 1)).chain([(0, 64)]) {
        let mut bio = Bio::read(page * PAGE, memory(pages)).unwrap();
        bio.set_token(page);
        assert!(channel.submit(bio).is_ok());
    }
    let mut done = Vec::new();
    assert!(rig::until(|| {
        channel.poll(&mut done);
        done.len() == 65
    }));
    for bio in &mut done {
        assert!(bio.status().is_ok());
        let (first, data) = (bio.token(), bio.take_buffer::<Vec<u8>>().unwrap());
        assert!(numbers(&data).into_iter().eq(first..first + data.len() as u64 / PAGE));
    }
    let (result, data) = futures::poll(&mut device.read(0, memory(64))).expect("it is cached");
    result.unwrap();
    assert_eq!(numbers(&data.unwrap()), (0..64).collect::<Vec<_>>());
}

#[test]
fn hits_of_channels_and_futures_take_no_lock() {
    for shards in [1, 3] {
        let settings = Settings { readahead: by_name("none").unwrap(), ..sharded(shards, 768) };
        let device = rig::cached(numbered(), &settings);
        device.read_at(&mut vec![0; 64 * PAGE as usize], 0).unwrap();
        let mut channel = device.channel(65).unwrap();
        // What the misses have left is done.
        read_at_once(&device, &mut channel);
        let locks = fact(&device, "cache locks");
        read_at_once(&device, &mut channel);
        assert_eq!(fact(&device, "cache locks"), locks, "{shards} shards");
    }
}

/// The misses of a reader in sequence, and the locks.
fn stream(settings: &Settings) -> (u64, u64) {
    let device = rig::cached(numbered(), settings);
    let handle = device.handle();
    let mut data = [0; PAGE as usize];
    for page in 0..1024 {
        handle.read_at(&mut data, page * PAGE).unwrap();
        assert_eq!(number(&data), page);
    }
    (handle.counters().unwrap().misses, fact(&device, "cache locks"))
}

#[test]
fn readahead_works_across_shards() {
    let window = 16 * PAGE;
    let (one, _) = stream(&Settings { window, ..small(1536) });
    for shards in [2, 3, 7] {
        let (several, _) = stream(&Settings { window, ..sharded(shards, 1512) });
        assert!(several <= one + 2, "{shards} shards: {several} misses, and {one} of one");
    }
    // Without readahead each page is missed once, whichever shard has it, with as many locks.
    let none = Settings { readahead: by_name("none").unwrap(), ..small(1536) };
    let one = stream(&none);
    let several = stream(&Settings { shards: 3, extent: 4 * PAGE, ..none });
    assert_eq!((one.0, several.0), (1024, 1024));
    assert!(several.1 <= one.1 + 8, "{} locks, and {} of one", several.1, one.1);
}

#[test]
fn hints_reach_all_shards() {
    let device = rig::cached(numbered(), &sharded(4, 1024));
    let handle = device.handle();
    handle.advise(Hint::WillNeed, 0, 256 * PAGE).unwrap();
    let (misses, mut data) = (handle.counters().unwrap().misses, [0; PAGE as usize]);
    for page in 0..256 {
        handle.read_at(&mut data, page * PAGE).unwrap();
        assert_eq!(number(&data), page);
    }
    assert_eq!(handle.counters().unwrap().misses, misses);
    assert_eq!(handle.counters().unwrap().pages_read_ahead, 256);
    handle.write_at(&[7; PAGE as usize], 100 * PAGE).unwrap();
    handle.advise(Hint::DontNeed, 0, 256 * PAGE).unwrap();
    handle.advise(Hint::DontNeed, 0, 0).unwrap();
    assert_eq!(fact(&device, "dirty pages"), 0, "what is not needed is written at once");
}

#[test]
fn each_shard_has_its_part() {
    let settings = Settings { max_size: 512 * PAGE, ..sharded(4, 256) };
    let device = rig::cached(numbered(), &settings);
    let status = |device: &Device| (fact(device, "cache shards"), fact(device, "cache pages"));
    assert_eq!(status(&device), (4, 256));
    device.set_layer_param(None, "size", (512 * PAGE).cast_signed()).unwrap();
    assert_eq!(status(&device), (4, 512));
    let size = |pages: u64| device.set_layer_param(None, "size", (pages * PAGE).cast_signed());
    let error = size(257).unwrap_err().to_string();
    assert!(error.contains("multiples of 16384 from 256K to 2M"), "{error}");
    let error = size(60).unwrap_err().to_string();
    assert!(error.contains("256K"), "{error}");
    size(64).unwrap();
    assert_eq!(status(&device), (4, 64));
    device.set_layer_param(None, "dirty", 50).unwrap();
    (0..256).for_each(|page| device.write_at(&[1; PAGE as usize], page * PAGE).unwrap());
    assert!(fact(&device, "dirty pages") <= 32);
    device.flush().unwrap();
    assert_eq!(fact(&device, "dirty pages"), 0);
}

#[test]
fn a_flush_of_a_range_writes_only_that() {
    let settings = Settings { dirty: 80, background: 80, ..sharded(4, 256) };
    let device = rig::cached(numbered(), &settings);
    (0..128).for_each(|page| device.write_at(&[1; PAGE as usize], page * PAGE).unwrap());
    device.flush_range(8 * PAGE, 16 * PAGE).unwrap();
    assert_eq!(fact(&device, "dirty pages"), 112);
    assert_eq!(fact(&device, "pages written back"), 16);
}

#[test]
fn a_policy_that_takes_one_read_at_a_time_is_refused() {
    platter_repro::policies::register_readahead();
    let settings = Settings { readahead: by_name("2.6.6+lock").unwrap(), ..sharded(2, 64) };
    let error = cache::new(numbered(), &settings).err().unwrap().to_string();
    assert!(error.contains("shards=2") && error.contains("2.6.6+lock"), "{error}");
}

/// WRITE (10) of pages, in blocks of 512 bytes.
fn write(page: u64, pages: u64) -> Arc<Command> {
    let ([a, b, c, d], [e, f]) = ((page as u32 * 8).to_be_bytes(), (pages as u16 * 8).to_be_bytes());
    let command = Command::new(CommandSet::Scsi, &[0x2a, 0, a, b, c, d, 0, e, f, 0]).unwrap();
    let reach = Reach::Changes { pos: page * PAGE, len: pages * PAGE };
    Arc::new(command.with_transfer(Transfer::ToDevice).with_reach(reach))
}

/// A command goes to the shard that has all that it reaches, or is refused.
#[test]
fn commands_go_to_one_shard() {
    let world = World::new(1);
    let ideal = Ideal { size: 4 << 20, latency: Span::from_micros(1), depth: 8, write_cache: false };
    let (disk, _) = rig::disk(&world, ideal, None);
    let device = rig::cached(rig::behind_target(&disk, DiskSettings::default()), &sharded(3, 192));
    let mut data = [0; PAGE as usize];
    (0..12).for_each(|page| device.read_at(&mut data, page * PAGE).unwrap());
    for page in 0..12 {
        device
            .command(
                &write(page, 1),
                CommandData::ToDevice(&[page as u8; PAGE as usize]),
                IoOptions::default(),
            )
            .unwrap();
    }
    for page in 0..12 {
        device.read_at(&mut data, page * PAGE).unwrap();
        assert_eq!(data, [page as u8; PAGE as usize], "the shard of page {page} has dropped it");
    }
    let all = [9; 2 * PAGE as usize];
    let error = device.command(&write(3, 2), CommandData::ToDevice(&all), IoOptions::default()).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Unsupported);
}
