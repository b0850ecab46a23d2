//! Limits, delays and injected errors, exact to the nanosecond in virtual time.

use crate::rig::{CHUNK, backends, simulated};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Flags};
use platter_block::fault::Kind;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_sim::World;
use platter_stack::by_name;
use platter_stack::raid0::{self, Sizes};
use std::sync::Arc;

fn over(layer: &str, named: &[(&str, i64)], device: &Device) -> Device {
    Device::new(by_name(layer).unwrap().make(named, backends(std::slice::from_ref(device))).unwrap())
}

fn quick(world: &Arc<World>) -> Device {
    simulated(world, Span(1000), false)
}

fn write(pos: u64, len: usize) -> Bio {
    let mut bio = Bio::write(pos, vec![1; len]).unwrap();
    bio.set_token(pos);
    bio.add_flags(Flags::NOMERGE);
    bio
}

/// Submits all bios at once. Returns when each ended, in ns.
fn ends(channel: &mut Channel, bios: impl IntoIterator<Item = Bio>) -> Vec<u64> {
    bios.into_iter().for_each(|bio| assert!(channel.submit(bio).is_ok()));
    let (mut done, mut times) = (Vec::new(), Vec::new());
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
        times.extend(done.drain(..).map(|bio| {
            assert_eq!(bio.status(), Ok(()));
            channel.now().0
        }));
    }
    times
}

const MIB: u64 = 1 << 20;
/// Time of a chunk at 100 MiB/s.
const CHUNK_NS: u64 = 625_000;

/// Three disks without queues, 100 MiB/s each.
fn serial(world: &Arc<World>) -> Device {
    let named = [("bw", 100 << 20), ("depth", 1)];
    let disks: Vec<Device> = (0..3).map(|_| over("limit", &named, &quick(world))).collect();
    Device::new(raid0::new(backends(&disks), CHUNK, Sizes::Zones).unwrap())
}

/// A request of k chunks takes as long as the disk with most of them: it gets k / (N ceil(k/N)) of the
/// bandwidth of N disks.
#[test]
fn one_request_at_a_time_gets_its_share_of_the_disks() {
    let world = World::new(1);
    let device = serial(&world);
    let mut channel = device.channel(4).unwrap();
    for (size, share) in [(256 << 10, 0.667), (MIB, 0.889), (4 * MIB, 0.970), (16 * MIB, 0.992)] {
        let chunks = size / CHUNK;
        for start in [0, 1, 2] {
            let begin = world.clock().now().0;
            let end = ends(&mut channel, [write(start * CHUNK, size as usize)])[0];
            assert_eq!(end - begin, chunks.div_ceil(3) * CHUNK_NS, "{chunks} chunks");
            let of_all = (chunks * CHUNK_NS) as f64 / (3 * (end - begin)) as f64;
            assert!((of_all - share).abs() < 0.0005, "{chunks} chunks: {of_all}");
        }
    }
}

/// Two requests per disk, in order: the disks are idle only at the beginning and the end.
#[test]
fn streaming_gets_all_of_the_disks() {
    for size in [CHUNK, 4 * CHUNK] {
        let world = World::new(1);
        let device = serial(&world);
        let mut channel = device.channel(6).unwrap();
        let (total, mut next, mut done) = (32 * MIB, 0, Vec::new());
        while next < total || channel.outstanding() > 0 {
            while next < total && channel.outstanding() < 6 {
                assert!(channel.submit(write(next, size as usize)).is_ok());
                next += size;
            }
            channel.wait(&mut done, None);
            done.drain(..).for_each(|bio| assert_eq!(bio.status(), Ok(())));
        }
        let of_all = (total / CHUNK * CHUNK_NS) as f64 / 3.0 / world.clock().now().0 as f64;
        assert!(of_all >= 0.98, "{size}: {of_all}");
    }
}

#[test]
fn idle_time_is_not_saved_unless_as_burst() {
    for (burst, expected) in [(0, [1_010_000, 1_020_000, 1_030_000]), (15, [1_001_000, 1_005_000, 1_015_000])]
    {
        let world = World::new(1);
        let device = over("limit", &[("iops", 100_000), ("burst", burst), ("depth", 4)], &quick(&world));
        let mut channel = device.channel(4).unwrap();
        world.clock().advance_to(Time(1_000_000));
        let bios = (0..3).map(|at| write(at * 4096, 512));
        assert_eq!(ends(&mut channel, bios), expected, "burst={burst}us");
    }
}

/// Latency overlaps, time in the pipe does not; with a depth of one neither does. The default depth is
/// unlimited.
#[test]
fn latency_and_bandwidth_add_up() {
    let parallel = [150_000, 200_000, 250_000];
    for (depth, expected) in [(1, [150_000, 300_000, 450_000]), (3, parallel), (0, parallel)] {
        let world = World::new(1);
        // 512 bytes take 50 us.
        let named = [("bw", 10_240_000), ("latency", 100), ("depth", depth)];
        let device = over("limit", &named, &quick(&world));
        let mut channel = device.channel(4).unwrap();
        assert_eq!(ends(&mut channel, (0..3).map(|at| write(at * 4096, 512))), expected, "depth={depth}");
    }
}

/// A hundred I/Os with 1 ms latency, submitted at once, take 1 ms: as on dm-delay, and unlike on a disk
/// without a queue.
#[test]
fn latency_is_added_in_parallel_by_default() {
    let world = World::new(1);
    let device = over("limit", &[("latency", 1000)], &quick(&world));
    let ends = ends(&mut device.channel(100).unwrap(), (0..100).map(|at| write(at * 4096, 512)));
    assert_eq!(ends, vec![1_000_000; 100]);
}

/// A lane of `limit` over memory, run by hand. Each completion is seen `late` ns after its time. Returns how
/// long `count` I/Os take, in ns, each submitted `think` ns after the previous one was seen.
fn one_by_one(named: &[(&str, i64)], count: u64, late: &mut dyn FnMut() -> u64, think: u64) -> u64 {
    let device = over("limit", named, &Device::ram(1 << 20).unwrap());
    let mut lane = device.backend().open_lane(platter_block::backend::LaneUse::Exclusive).unwrap();
    let (begin, mut done) = (Time(1_000_000_000), Vec::new());
    let mut now = begin;
    for at in 0..count {
        lane.submit(now, write(at % 100 * 4096, 4096));
        lane.run(now);
        lane.take_done(&mut done);
        while done.is_empty() {
            // A memory device completes at the next run.
            if let Some(at) = lane.next_wakeup() {
                now = at.max(now) + Span(late());
            }
            lane.run(now);
            lane.take_done(&mut done);
        }
        done.clear();
        now += Span(think);
    }
    now.since(begin).0
}

/// Timers wake a thread late. The pipe makes up for that, so that the rate is also kept at depth 1.
#[test]
fn a_limit_keeps_its_rate_when_it_is_run_late() {
    for (named, each) in [
        (&[("iops", 10_000)][..], 100_000u64),
        (&[("bw", 40_960_000)], 100_000),
        (&[("bw", 40_960_000), ("latency", 300)], 400_000),
        (&[("bw", 40_960_000), ("latency", 300), ("depth", 1)], 400_000),
        (&[("iops", 100_000)], 10_000),
    ] {
        let mut draw = 1u64;
        let mut late = || {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (draw >> 33) % 120_000
        };
        let took = one_by_one(named, 10_000, &mut late, 0);
        let rate = took as f64 / (10_000 * each) as f64;
        assert!((0.99..1.01).contains(&rate), "{named:?}: {rate}");
    }
}

/// With many I/Os in flight each takes its latency, less at most the lateness of the completion that it
/// follows: the lateness of several completions is not subtracted from one I/O.
#[test]
fn latency_is_kept_by_each_of_many_when_they_are_run_late() {
    for named in [&[("latency", 1000)][..], &[("latency", 1000), ("iops", 1_000_000)]] {
        let device = over("limit", named, &Device::ram(1 << 20).unwrap());
        let mut lane = device.backend().open_lane(platter_block::backend::LaneUse::Exclusive).unwrap();
        let (begin, mut done) = (Time(1_000_000_000), Vec::new());
        let (mut now, mut shortest, mut draw, mut count) = (begin, u64::MAX, 1u64, 0u64);
        let mut submitted = [begin; 8];
        let submit = |lane: &mut dyn platter_block::lane::Lane, now, place: u64| {
            let mut bio = write(place * 4096, 4096);
            bio.set_token(place);
            lane.submit(now, bio);
        };
        (0..8).for_each(|place| submit(&mut *lane, now, place));
        for _ in 0..1000 {
            lane.run(now);
            if let Some(at) = lane.next_wakeup() {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                now = at.max(now) + Span((draw >> 33) % 120_000);
            }
            lane.run(now);
            lane.take_done(&mut done);
            for bio in done.drain(..) {
                count += 1;
                let place = bio.token();
                let took = now.since(submitted[place as usize]).0;
                shortest = shortest.min(took);
                submitted[place as usize] = now;
                submit(&mut *lane, now, place);
            }
        }
        assert!(shortest > 1_000_000 - 120_000, "{named:?}: {shortest} ns");
        let rate = now.since(begin).0 as f64 / (count * 1_000_000 / 8) as f64;
        assert!((0.99..1.01).contains(&rate), "{named:?}: {rate}");
    }
}

/// Delays by the program itself are not made up for, nor is timer lateness beyond a limit.
#[test]
fn a_limit_makes_up_for_timers_only_and_not_for_any_length() {
    let took = one_by_one(&[("iops", 10_000)], 1000, &mut || 0, 50_000);
    assert_eq!(took, 1000 * 150_000);
    // One completion is a second late: all but 10 ms of it is lost.
    let mut lates = std::iter::once(1_000_000_000).chain(std::iter::repeat(0));
    let took = one_by_one(&[("iops", 10_000)], 1000, &mut || lates.next().unwrap(), 0);
    assert_eq!(took, 1000 * 100_000 + 990_000_000);
}

/// The limit applies to the device: two channels share it.
#[test]
fn lanes_share_the_limit() {
    let world = World::new(1);
    let device = over("limit", &[("iops", 10_000)], &quick(&world));
    let mut channels = [device.channel(4).unwrap(), device.channel(4).unwrap()];
    for channel in &mut channels {
        (0..4).for_each(|at| assert!(channel.submit(write(at * 4096, 512)).is_ok()));
    }
    let mut done = Vec::new();
    while channels.iter().any(|channel| channel.outstanding() > 0) {
        channels.iter_mut().for_each(|channel| _ = channel.poll(&mut done));
        let next =
            channels.iter().filter_map(Channel::next_wakeup).filter(|at| *at > world.clock().now()).min();
        next.into_iter().for_each(|at| world.clock().advance_to(at));
    }
    assert_eq!((done.len(), world.clock().now()), (8, Time(800_000)));
    // A synchronous call waits for its own latency too.
    device.write_at(&[1; 512], 0).unwrap();
    assert_eq!(world.clock().now(), Time(900_000));
}

#[test]
fn delays_are_by_operation_and_jitter_by_seed() {
    let world = World::new(1);
    let named = [("read", 70), ("write", 50), ("flush", 20)];
    let device = over("delay", &named, &quick(&world));
    let took = |io: &dyn Fn(&Device)| {
        let begin = world.clock().now();
        io(&device);
        world.clock().now().since(begin).0
    };
    assert_eq!(took(&|device| device.read_at(&mut [0; 512], 0).unwrap()), 70_000);
    assert_eq!(took(&|device| device.write_at(&[0; 512], 0).unwrap()), 50_000);
    assert_eq!(took(&|device| device.discard(0, 4096).unwrap()), 50_000);
    assert_eq!(took(&|device| device.flush().unwrap()), 20_000);
    let run = |seed| {
        let world = World::new(1);
        let device = over("delay", &[("write", 50), ("jitter", 30), ("seed", seed)], &quick(&world));
        ends(&mut device.channel(16).unwrap(), (0..16).map(|at| write(at * 4096, 512)))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(run(1).is_sorted() && run(1).iter().all(|end| (50_000..=80_000).contains(end)));
    assert!(run(1).windows(2).any(|pair| pair[0] != pair[1]));
}

/// A device that is slower than the delay is not slowed further.
#[test]
fn a_slow_device_is_not_delayed() {
    let world = World::new(1);
    let device = over("delay", &[("write", 50)], &simulated(&world, Span::from_micros(80), false));
    assert_eq!(ends(&mut device.channel(1).unwrap(), [write(0, 512)]), [80_000]);
}

fn failures(named: &[(&str, i64)], bios: u64) -> Vec<u64> {
    let device = over("error", named, &Device::ram(1 << 20).unwrap());
    let fails = |at: &u64| match device.write_at(&[1; 512], at * 512) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!((error.fault.kind, error.fault.errno), (Kind::NoSpace, 28));
            true
        }
    };
    (0..bios).filter(fails).collect()
}

#[test]
fn what_is_to_fail_fails_and_nothing_else() {
    let nospace = ("errno", 28);
    assert_eq!(failures(&[nospace], 4), [0, 1, 2, 3]);
    assert_eq!(failures(&[nospace, ("op", 1)], 4), [0; 0]);
    assert_eq!(failures(&[nospace, ("op", 2), ("offset", 1024), ("length", 600)], 6), [2, 3]);
    assert_eq!(failures(&[nospace, ("nth", 3)], 8), [2, 5]);
    assert_eq!(failures(&[nospace, ("nth", 3), ("times", 1)], 8), [2]);
    let some = failures(&[nospace, ("chance", 250_000), ("seed", 5)], 1000);
    assert_eq!(some, failures(&[nospace, ("chance", 250_000), ("seed", 5)], 1000));
    assert!((200..300).contains(&some.len()), "{}", some.len());
}

#[test]
fn an_array_names_the_member_that_fails_on_purpose() {
    let bad = over("error", &[("offset", 65536)], &Device::ram(1 << 20).unwrap());
    let members: Vec<Arc<dyn Backend>> = backends(&[Device::ram(1 << 20).unwrap(), bad]);
    let device = Device::new(raid0::new(members, CHUNK, Sizes::Zones).unwrap());
    let error = device.read_at(&mut [0; 512], 3 * CHUNK).unwrap_err();
    assert_eq!((error.fault.kind, error.detail.as_str()), (Kind::Io, "on member 1 (ram) at 65536"));
    let text = by_name("error")
        .unwrap()
        .make(&[("offset", 1 << 20)], backends(&[Device::ram(1 << 20).unwrap()]))
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains("offset=1048576 is out of range: 0 to 1048575"), "{text}");
}
