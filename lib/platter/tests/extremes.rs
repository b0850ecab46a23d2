//! Times and places at the ends of what their types hold, over each driver and each layer: every I/O ends, with its data or
//! with an error that says why, and so does closing.

use platter::block::bio::{Bio, Op};
use platter::block::fault::{Fault, Kind};
use platter::block::time::{Span, Time};
use platter::registry::{self, Access};
use platter::{Device, IoOptions};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

const BLOCK: u64 = 4096;

fn file(directory: &TempDir, name: &str, len: u64) -> String {
    let path = directory.path().join(name);
    std::fs::File::create(&path).unwrap().set_len(len).unwrap();
    path.display().to_string()
}

/// Devices of each driver and of each layer.
fn specs(directory: &TempDir) -> Vec<String> {
    let mut all = vec!["ram(1M)".to_string(), "partition(length=1M, sim(ideal))".to_string()];
    for driver in ["uring", "aio", "threads"] {
        let disk = file(directory, driver, 1 << 20);
        for elevator in ["none", "deadline"] {
            all.push(format!("file({disk}, driver={driver}, elevator={elevator})"));
        }
    }
    let below = |name: &str| file(directory, name, 1 << 20);
    all.extend([
        format!("partition(offset=64K, {})", below("partition")),
        format!("raid0(chunk=4K, {}, {})", below("raid-a"), below("raid-b")),
        format!("concat({}, {})", below("concat-a"), below("concat-b")),
        format!("limit(iops=1000000, {})", below("limit")),
        format!("delay(read=1us, {})", below("delay")),
        format!("error(op=flush, nth=1000000, {})", below("error")),
        format!("verify({})", below("verify")),
        format!("cache({})", below("cache")),
        format!("snapshot({}, {})", below("origin"), file(directory, "store", 4 << 20)),
    ]);
    all
}

/// Runs it for each device that can be opened, on a thread of its own, because it may hang.
fn on_each(test: fn(&str, Device)) {
    let directory = tempfile::tempdir().unwrap();
    for spec in specs(&directory) {
        let access = Access { force: true, ..Access::read_write() };
        let device = match registry::open(&spec, access) {
            Ok(device) => device,
            // The machine or the file system may lack a driver.
            Err(error) if spec.contains("driver=") => {
                println!("left out: {error}");
                continue;
            }
            Err(error) => panic!("{spec}: {error}"),
        };
        let (tell, told) = mpsc::channel();
        let name = spec.clone();
        std::thread::spawn(move || {
            test(&name, device);
            tell.send(()).unwrap();
        });
        told.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{spec}: {error}"));
    }
}

fn late(result: &Result<(), Fault>) -> bool {
    matches!(result, Err(fault) if fault.kind == Kind::TimedOut)
}

/// Deadlines that have passed, that pass at once, and that never pass.
#[test]
fn every_deadline_is_kept() {
    on_each(|spec, device| {
        let now = device.clock().now();
        let times = [
            (Some(Time(0)), false),
            (Some(Time(1)), false),
            (Some(now), false),
            (Some(Time(u64::MAX - 1)), true),
            (Some(Time(u64::MAX)), true),
            (None, true),
        ];
        let mut channel = device.channel(64).unwrap();
        for (deadline, in_time) in times {
            for op in [Op::Read, Op::Write, Op::Flush, Op::WriteZeroes] {
                let mut bio = match op {
                    Op::Read => Bio::read(BLOCK, vec![0u8; BLOCK as usize]).unwrap(),
                    Op::Write => Bio::write(BLOCK, vec![1u8; BLOCK as usize]).unwrap(),
                    _ => Bio::new(
                        op,
                        if op == Op::Flush { 0 } else { BLOCK },
                        if op == Op::Flush { 0 } else { BLOCK },
                    ),
                };
                bio.set_deadline(deadline);
                channel.submit(bio).unwrap();
                let mut done = Vec::new();
                while channel.outstanding() > 0 {
                    channel.wait(&mut done, None);
                }
                let status = done[0].status();
                // A deadline that passes on the way may lose to a fast device.
                let fits = if in_time { status.is_ok() } else { status.is_ok() || late(&status) };
                assert!(fits, "{spec}: {op} with {deadline:?}: {status:?}");
            }
        }
        for timeout in [Span::ZERO, Span(1), Span(i64::MAX as u64), Span(u64::MAX)] {
            let options = IoOptions::timeout(timeout);
            let mut data = [0; BLOCK as usize];
            let read = device.read_at_with(&mut data, BLOCK, options).map_err(|error| error.fault);
            let write = device.write_at_with(&data, BLOCK, options).map_err(|error| error.fault);
            for result in [read, write] {
                let fits = result.is_ok() || (timeout <= Span(1) && late(&result));
                assert!(fits, "{spec}: {timeout:?}: {result:?}");
            }
        }
        // This waits until no write there is late; then everything works.
        device.write_at(&[4; BLOCK as usize], BLOCK).unwrap();
        device.flush().unwrap();
        device.write_at(&[5; BLOCK as usize], 0).unwrap();
        let mut data = [0; BLOCK as usize];
        device.read_at(&mut data, 0).unwrap();
        assert_eq!(data, [5; BLOCK as usize], "{spec}");
    });
}

/// Positions and lengths around the end of the device and of their types.
#[test]
fn every_place_is_checked() {
    on_each(|spec, device| {
        let size = device.size();
        let wrong = [
            size,
            size + BLOCK,
            size - BLOCK + 1,
            1 << 63,
            (1 << 63) - BLOCK,
            u64::MAX - BLOCK + 1,
            u64::MAX,
        ];
        for pos in wrong {
            let mut data = vec![3; BLOCK as usize];
            let results = [
                device.read_at(&mut data, pos),
                device.write_at(&data, pos),
                device.write_zeroes(pos, BLOCK),
                device.discard(pos, BLOCK),
                device.write_zeroes(0, pos.max(size + 1)),
                device.discard(0, pos.max(size + 1)),
            ];
            for result in results {
                let error = result.expect_err("it is no place of the device");
                let kinds = [Kind::OutOfRange, Kind::Misaligned, Kind::Unsupported];
                assert!(kinds.contains(&error.fault.kind), "{spec}: {pos}: {error}");
            }
            let mut channel = device.channel(8).unwrap();
            for op in [Op::Read, Op::Write, Op::Discard, Op::WriteZeroes] {
                let mut bio = match op {
                    Op::Read => Bio::read(0, vec![0u8; BLOCK as usize]).unwrap(),
                    Op::Write => Bio::write(0, vec![3u8; BLOCK as usize]).unwrap(),
                    _ => Bio::new(op, 0, BLOCK),
                };
                bio.rewind(pos, BLOCK);
                let mut done = Vec::new();
                channel.submit(bio).unwrap();
                while channel.outstanding() > 0 {
                    channel.wait(&mut done, None);
                }
                assert!(done[0].status().is_err(), "{spec}: {op} at {pos}");
            }
        }
        let mut data = vec![0; size as usize];
        device.read_at(&mut data, 0).unwrap();
        assert!(data.iter().all(|&byte| byte == 0), "{spec}: what was refused left a trace");
    });
}

/// Runs one operation on a range through a channel.
fn on_channel(device: &Device, op: Op, pos: u64, len: u64) -> Result<(), Fault> {
    let mut channel = device.channel(8).unwrap();
    let mut bio = Bio::new(op, 0, BLOCK);
    bio.rewind(pos, len);
    channel.submit(bio).unwrap();
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    done[0].status()
}

/// The two ways to change a range without data.
fn change(device: &Device, op: Op, pos: u64, len: u64, by_call: bool) -> Result<(), Fault> {
    match (by_call, op) {
        (false, _) => on_channel(device, op, pos, len),
        (true, Op::Discard) => device.discard(pos, len).map_err(|error| error.fault),
        (true, _) => device.write_zeroes(pos, len).map_err(|error| error.fault),
    }
}

/// Discards and write-zeroes that end at the last byte do so, and those that end behind it, or whose end is no number, change
/// nothing.
#[test]
fn changes_without_data_end_at_the_last_byte() {
    on_each(|spec, device| {
        let (size, tail) = (device.size(), 2 * BLOCK);
        let look = |device: &Device| {
            let mut data = vec![0xee; tail as usize];
            device.read_at(&mut data, size - tail).unwrap();
            data
        };
        let (seven, block) = (vec![7; tail as usize], BLOCK as usize);
        for (op, by_call) in
            [(Op::WriteZeroes, true), (Op::WriteZeroes, false), (Op::Discard, true), (Op::Discard, false)]
        {
            let what = format!("{spec}: {op}, by a call {by_call}");
            device.write_at(&seven, size - tail).unwrap();
            let beyond = [
                (size - BLOCK, BLOCK + 1),
                (size - BLOCK, BLOCK + 512),
                (size - BLOCK, 2 * BLOCK),
                (size, BLOCK),
                (size - BLOCK, u64::MAX - size + BLOCK + 1),
                (size - BLOCK, u64::MAX - size + 2 * BLOCK + 1),
                (BLOCK, u64::MAX - BLOCK + 1),
                (BLOCK, u64::MAX),
                (0, u64::MAX),
                (u64::MAX - BLOCK + 1, BLOCK),
                (u64::MAX, 1),
            ];
            for (pos, len) in beyond {
                let result = change(&device, op, pos, len, by_call);
                let kind = result.expect_err(&what).kind;
                let kinds = [Kind::OutOfRange, Kind::Misaligned, Kind::Unsupported];
                assert!(kinds.contains(&kind), "{what}: {len} bytes at {pos}: {kind:?}");
            }
            assert_eq!(look(&device), seven, "{what}: what was refused left a trace");
            for pos in [0, BLOCK, size - BLOCK, size] {
                let result = change(&device, op, pos, 0, by_call);
                let refused =
                    result.is_err_and(|fault| [Kind::ZeroLength, Kind::Unsupported].contains(&fault.kind));
                assert!(result.is_ok() || refused, "{what}: nothing at {pos}: {result:?}");
            }
            assert_eq!(look(&device), seven, "{what}: a change of no bytes");
            let result = change(&device, op, size - BLOCK, BLOCK, by_call);
            let now = look(&device);
            assert_eq!(now[..block], seven[..block], "{what}: the block before");
            match result {
                // The contents of what was discarded are those before, or zeroes.
                Ok(()) if op == Op::Discard => {
                    assert!(now[block..].iter().all(|byte| [0, 7].contains(byte)), "{what}")
                }
                Ok(()) => assert!(now[block..].iter().all(|&byte| byte == 0), "{what}"),
                Err(fault) => assert_eq!((fault.kind, now), (Kind::Unsupported, seven.clone()), "{what}"),
            }
        }
    });
}

/// A device that takes for ever, as far as a program can tell, is closed soon, with I/O of each kind under way.
#[test]
fn closing_does_not_wait_for_what_takes_an_hour() {
    for spec in [
        "delay(read=3600s, write=3600s, flush=3600s, ram(1M))",
        "limit(bw=1, ram(1M))",
        "limit(iops=1, latency=3600s, ram(1M))",
    ] {
        let device = registry::open(spec, Access::read_write()).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let timed = IoOptions::timeout(Span::from_millis(50));
            // Several: where the machine lets this thread wait for seconds, a read can be due before it looks.
            let mut reads = (0..20).map(|_| device.read_at_with(&mut [0; 4096], 0, timed));
            assert!(reads.any(|result| result.is_err()), "{spec}");
            let mut channel = device.channel(8).unwrap();
            for _ in 0..4 {
                channel.submit(Bio::write(0, vec![1u8; 4096]).unwrap()).unwrap();
            }
            channel.poll(&mut Vec::new());
            let futures: Vec<_> = (0..4).map(|_| device.read(8192, vec![0u8; 4096])).collect();
            drop(futures);
            drop(channel);
            drop(device);
            tell.send(()).unwrap();
        });
        told.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{spec}: {error}"));
    }
}

/// Random numbers, the same each time.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Files whose sizes are multiples of nothing, under each driver and layer: calls of any place and length agree with a model up
/// to the last byte, the files keep their sizes, and nothing past the end can be touched.
#[test]
fn devices_of_odd_sizes_are_used_to_their_last_byte() {
    let directory = tempfile::tempdir().unwrap();
    let odd = [(1 << 20) - 1, 70_001, 65_537, 4097];
    for (nth, &size) in odd.iter().enumerate() {
        let at = |name: &str| file(&directory, &format!("{name}-{nth}"), size);
        let mut specs = vec![
            format!("partition(offset=512, {})", at("partition")),
            format!("concat({}, {})", at("concat-a"), at("concat-b")),
            format!(
                "raid0(chunk=4K, {}, {})",
                at("raid-a"),
                file(&directory, &format!("raid-b-{nth}"), 300_001)
            ),
            format!("limit(iops=1000000, {})", at("limit")),
            format!("delay(read=1us, {})", at("delay")),
            format!("verify({})", at("verify")),
            format!("cache({})", at("cache")),
            format!(
                "snapshot({}, {}, chunk=4K)",
                at("origin"),
                file(&directory, &format!("store-{nth}"), 4 << 20)
            ),
        ];
        specs.extend(
            ["uring", "aio", "threads"].map(|driver| format!("file({}, driver={driver})", at(driver))),
        );
        for spec in specs {
            let access = Access { force: true, ..Access::read_write() };
            let device = match registry::open(&spec, access) {
                Ok(device) => device,
                Err(error) if spec.contains("driver=") => {
                    println!("left out: {error}");
                    continue;
                }
                Err(error) => panic!("{spec}: {error}"),
            };
            use_all_of(&spec, &device);
            device.close().unwrap();
        }
    }
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let size = entry.metadata().unwrap().len();
        assert!(
            odd.contains(&size) || [300_001, 4 << 20].contains(&size),
            "{:?} has {size} bytes",
            entry.path()
        );
    }
}

fn use_all_of(spec: &str, device: &Device) {
    let size = device.size();
    let (mut model, mut state) = (vec![0; size as usize], size);
    for round in 0..60u8 {
        let at = if round % 3 == 0 {
            size - 1 - random(&mut state, size.min(600))
        } else {
            random(&mut state, size)
        };
        let len = (1 + random(&mut state, 9000)).min(size - at);
        let (from, to) = (at as usize, (at + len) as usize);
        model[from..to].fill(round + 1);
        device.write_at(&model[from..to], at).unwrap_or_else(|error| panic!("{spec}: {error}"));
        let mut back = vec![0; size as usize];
        device.read_at(&mut back, 0).unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert!(back == model, "{spec}: after {len} bytes at {at}");
    }
    assert!(device.write_at(&[1; 2], size - 1).is_err(), "{spec}: a write across the end");
    assert!(device.read_at(&mut [0; 2], size - 1).is_err(), "{spec}: a read across the end");
    device.flush().unwrap();
    let mut back = vec![0; size as usize];
    device.read_at(&mut back, 0).unwrap();
    assert!(back == model, "{spec}: after what was refused");
}
