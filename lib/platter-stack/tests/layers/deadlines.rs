//! Synchronous calls with a timeout end by it, whatever layers are between them and a disk that does not
//! answer. Time is virtual, so this is checked exactly.

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::sync_io::IoOptions;
use platter_sim::fault::FaultPlan;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::LayerType;
use std::sync::Arc;

/// A disk that takes ten seconds for each command.
fn disk(world: &Arc<World>, elevator: &str) -> Arc<dyn Backend> {
    disk_of(world, elevator, Span::from_secs(10))
}

/// A disk that takes this long for each command.
fn disk_of(world: &Arc<World>, elevator: &str, latency: Span) -> Arc<dyn Backend> {
    disk_with(world, elevator, latency, None)
}

fn disk_with(
    world: &Arc<World>,
    elevator: &str,
    latency: Span,
    faults: Option<FaultPlan>,
) -> Arc<dyn Backend> {
    let model = Ideal { size: 16 << 20, latency, depth: 32, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    disk.set_faults(faults);
    Arc::new(
        DiskBackend::new(
            disk.attach("sim"),
            DiskSettings::default(),
            platter_elevators::by_name(elevator).map(|row| (row.make)()),
        )
        .expect("a device"),
    )
}

fn over(row: &LayerType, world: &Arc<World>, elevator: &str) -> Device {
    over_disks(row, || disk(world, elevator))
}

fn over_disks(row: &LayerType, disk: impl Fn() -> Arc<dyn Backend>) -> Device {
    let members: Vec<_> = (0..(*row.members.start()).max(1)).map(|_| disk()).collect();
    if row.name == "raid1" {
        crate::mirrors::make(&members);
    }
    if row.name == "snapshot-merge" {
        // There must be a snapshot to merge.
        drop(
            platter_cache::by_name("snapshot")
                .expect("its row")
                .make(&[], members.clone())
                .expect("a snapshot"),
        );
    }
    let named: &[(&str, i64)] = match row.name {
        "error" => &[("chance", 0)],
        // Three calls without an answer take its only path down. I/O waits until the path has answered.
        "multipath" => &[("no_path_timeout", 600_000)],
        _ => &[],
    };
    Device::new(row.make(named, members).expect("it can be made"))
}

#[test]
fn calls_end_at_their_timeout() {
    let timeout = Span::from_millis(50);
    for row in platter_cache::layers() {
        for elevator in ["none", "deadline"] {
            let what = format!("{} over {elevator}", row.name);
            let world = World::new(1);
            let device = over(row, &world, elevator);
            let (clock, options) = (world.clock(), IoOptions::timeout(timeout));
            for round in 1..=3u64 {
                let begun = clock.now();
                let mut buffer = vec![7; 8192];
                let error = device.read_at_with(&mut buffer, round * 65536, options).expect_err("no answer");
                assert_eq!(error.fault.kind, Kind::TimedOut, "{what}: {error}");
                // A bio has its deadline in steps of 1,024 ns.
                let over = clock.now().since(begun + timeout);
                assert!(clock.now() >= begun + timeout && over < Span(1024), "{what}: {over:?} later");
                assert!(buffer.iter().all(|byte| *byte == 7), "{what}");
            }
            // After the disk has answered, all works as before.
            clock.advance_to(clock.now() + Span::from_secs(100));
            let begun = clock.now();
            device.read_at(&mut [0; 512], 0).expect("an answer");
            assert!(clock.now().since(begun) <= Span::from_secs(60), "{what}");
        }
    }
}

/// A write that timed out may still be carried out; it does not overwrite a later one.
#[test]
fn the_data_of_a_later_call_stays() {
    for row in platter_cache::layers() {
        if row.name == "cache" {
            // A write to a cache completes in memory.
            continue;
        }
        let world = World::new(1);
        let device = over(row, &world, "none");
        let options = IoOptions::timeout(Span::from_millis(50));
        let error = device.write_at_with(&[1; 512], 0, options).expect_err("no answer");
        assert_eq!(error.fault.kind, Kind::TimedOut, "{}", row.name);
        world.clock().advance_to(world.clock().now() + Span::from_secs(100));
        device.write_at(&[2; 512], 0).expect("an answer");
        world.clock().advance_to(Time(1_000_000_000_000));
        let mut back = [0; 512];
        device.read_at(&mut back, 0).expect("an answer");
        assert_eq!(back, [2; 512], "{}", row.name);
    }
}

/// A snapshot copies the data of a whole chunk to its store at once; what it reads around the data of the next chunk has the
/// deadline of the write as well.
#[test]
fn a_write_to_a_snapshot_ends_at_its_deadline_while_the_origin_is_read() {
    const CHUNK: usize = 4096;
    let world = World::new(1);
    let [origin, store] =
        [Span::from_secs(10), Span::from_millis(1)].map(|took| disk_of(&world, "none", took));
    let snapshot = platter_cache::by_name("snapshot").expect("its row");
    let view =
        Device::new(snapshot.make(&[("chunk", CHUNK as i64)], vec![origin, store]).expect("a snapshot"));
    let (clock, mut channel, mut done) = (world.clock(), view.channel(1).expect("a channel"), Vec::new());
    let begun = clock.now();
    let mut bio = Bio::write(0, vec![1; CHUNK + 512]).expect("a bio");
    bio.set_deadline(Some(begun + Span::from_millis(50)));
    channel.submit(bio).expect("room");
    while channel.poll(&mut done) == 0 {
        let next = channel.next_wakeup().expect("a deadline");
        assert!(next.since(begun) < Span::from_millis(51), "it ends at its deadline: {next:?}");
        clock.advance_to(next);
    }
    assert_eq!(done[0].status().map_err(|fault| fault.kind), Err(Kind::TimedOut));
    // The view does not change after that, and the same write succeeds without a deadline.
    let first_bytes = || {
        let mut data = [0; CHUNK + 512];
        view.read_at(&mut data, 0).expect("it can be read");
        [data[0], data[CHUNK - 1], data[CHUNK]]
    };
    let first = first_bytes();
    clock.advance_to(clock.now() + Span::from_secs(100));
    assert_eq!(first_bytes(), first);
    view.write_at(&[2; CHUNK + 512], 0).expect("the origin can be read");
    assert_eq!(first_bytes(), [2; 3]);
}

/// A device that is closed waits for its I/O, and for nothing after that, also if the disk answers at once.
#[test]
fn closing_takes_as_long_as_its_io() {
    let elevators = platter_elevators::TABLE.iter().map(|row| row.name).chain(["none"]);
    for (elevator, latency) in elevators.flat_map(|name| [(name, 0), (name, 50)]) {
        for row in platter_cache::layers() {
            let world = World::new(1);
            let device = over_disks(row, || disk_of(&world, elevator, Span::from_micros(latency)));
            device.write_at(&[7; 65536], 4096).expect("a write");
            let before = world.clock().now();
            drop(device);
            let took = world.clock().now().since(before);
            let what = format!("{} over {elevator}, {latency} us", row.name);
            assert!(took < Span::from_secs(1), "{what}: closing took {} ns", took.0);
        }
    }
}

/// A channel's read is late, and the channel is not polled again: the read gives the only place of the device to a call of another
/// lane. When it is back, there is one place again, not two.
#[test]
fn a_late_bio_gives_its_place_to_others() {
    let world = World::new(1);
    let limit = platter_cache::by_name("limit").expect("its row");
    let latency = Span::from_secs(10);
    let never_aborts = FaultPlan { abort_chance: 0, ..FaultPlan::default() };
    let below = disk_with(&world, "none", latency, Some(never_aborts));
    let device = Device::new(limit.make(&[("depth", 1)], vec![below]).expect("a limit"));
    let clock = world.clock();
    let (mut channel, mut done) = (device.channel(4).expect("a channel"), Vec::new());
    let mut read = Bio::read(0, vec![0; 512]).expect("a read");
    read.set_deadline(Some(clock.now() + Span::from_millis(50)));
    channel.submit(read).expect("room");
    while done.is_empty() {
        channel.wait(&mut done, None);
    }
    assert_eq!(done[0].status().map_err(|fault| fault.kind), Err(Kind::TimedOut));
    let options = IoOptions::timeout(Span::from_secs(25));
    device.read_at_with(&mut [0; 512], 4096, options).expect("the place of the late read");
    clock.advance_to(clock.now() + latency);
    channel.poll(&mut done);
    let begun = clock.now();
    for pos in [8192, 12288] {
        channel.submit(Bio::read(pos, vec![0; 512]).expect("a read")).expect("room");
    }
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert!(done[1..].iter().all(|bio| bio.status().is_ok()));
    assert!(clock.now().since(begun) >= Span(2 * latency.0), "one at a time");
}
