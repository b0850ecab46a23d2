//! Barriers as ordered tags, through layers and switched while the device is open.

use platter::Access;
use platter::block::bio::{Bio, Flags};

fn open(spec: &str) -> platter::Device {
    platter::open(spec, Access::read_write()).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// Two writes, a barrier and two writes. Returns the bios in the order in which they have completed.
fn around_a_barrier(device: &platter::Device) -> Vec<Bio> {
    let mut channel = device.channel(8).unwrap();
    for (number, pos) in [0u64, 1 << 30, 1 << 20, 1 << 29, 4096].into_iter().enumerate() {
        let mut bio = Bio::write(pos, vec![1u8; 4096]).unwrap();
        bio.set_token(number as u64);
        if number == 2 {
            bio.add_flags(Flags::HARD_BARRIER);
        }
        channel.submit(bio).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < 5 {
        channel.wait(&mut done, None);
    }
    assert_eq!(channel.outstanding(), 0);
    let barrier = done.iter().position(|bio| bio.token() == 2);
    assert_eq!(barrier, Some(2), "it keeps its place");
    done
}

/// Returns how many barriers were sent as tags.
fn tagged(device: &platter::Device) -> u64 {
    let before = device.counters().barriers_tagged;
    assert!(around_a_barrier(device).iter().all(|bio| bio.status().is_ok()));
    device.counters().barriers_tagged - before
}

fn barriers(device: &platter::Device) -> String {
    let facts = device.facts();
    facts.iter().find(|(name, _)| *name == "barriers").map(|(_, mode)| mode.clone()).unwrap()
}

#[test]
fn the_order_is_switched_through_the_layers() {
    for spec in [
        "sim(man3367mp, elevator=noop)",
        "partition(offset=1M, sim(man3367mp, elevator=noop))",
        "raid0(sim(man3367mp, elevator=noop))",
        "concat(sim(man3367mp, elevator=noop))",
        "error(op=read, sim(man3367mp, elevator=noop))",
        "error(op=read, partition(offset=1M, raid0(sim(man3367mp, elevator=noop))))",
        "delay(write=1ms, jitter=9ms, sim(man3367mp, elevator=noop))",
        "limit(iops=50, latency=9ms, sim(man3367mp, elevator=noop))",
        "delay(write=1ms, limit(iops=50, error(op=read, sim(man3367mp, elevator=noop))))",
        "limit(depth=4, sim(man3367mp, elevator=noop))",
        "verify(sim(man3367mp, elevator=noop))",
    ] {
        let device = open(spec);
        assert_eq!((tagged(&device), barriers(&device).as_str()), (0, "drain"), "{spec}");
        device.set_ordered("tag").unwrap();
        assert_eq!(tagged(&device), 1, "{spec}");
        let expected =
            if spec.contains("depth") || spec.starts_with("verify") { "drain in this layer" } else { "tag" };
        assert!(barriers(&device).starts_with(expected), "{spec}: {}", barriers(&device));
        device.set_ordered("drain").unwrap();
        assert_eq!((tagged(&device), barriers(&device).as_str()), (0, "drain"), "{spec}");
    }
}

/// The disk has all I/O at once, so that nothing is left to wait for but the delay.
#[test]
fn a_delay_does_not_drain_the_disk_below_it() {
    let took = |layer: &str| {
        let device = open(&format!("{layer}, sim(man3367mp, elevator=noop, ordered=tag))"));
        let begin = device.backend().clock().unwrap().now();
        around_a_barrier(&device);
        device.backend().clock().unwrap().now().since(begin).0
    };
    // The same in a layer that waits at a barrier takes the latency three times.
    let latency = 1_000_000_000;
    assert!((latency..latency * 11 / 10).contains(&took("delay(write=1s")));
    assert!((latency..latency * 11 / 10).contains(&took("limit(latency=1s")));
    assert!(took("limit(depth=9, latency=1s") >= 3 * latency);
}

/// What is behind a barrier must not pass what is before it, although the barrier does not reach the disk.
#[test]
fn a_barrier_that_a_filter_fails_keeps_the_order() {
    for ordered in ["drain", "tag"] {
        let device = open(&format!(
            "error(op=write, nth=3, times=1, sim(man3367mp, elevator=noop, ordered={ordered}))"
        ));
        let done = around_a_barrier(&device);
        let failed: Vec<u64> =
            done.iter().filter(|bio| bio.status().is_err()).map(|bio| bio.token()).collect();
        assert_eq!(failed, [2]);
        assert!(done[..2].iter().all(|bio| bio.token() < 2) && done[3..].iter().all(|bio| bio.token() > 2));
    }
}

/// An array sends a barrier to each member after it has drained.
#[test]
fn an_array_of_several_members_drains_itself() {
    let disk = "sim(man3367mp, elevator=noop, ordered=tag)";
    let device = open(&format!("raid0({disk}, {disk})"));
    assert!(barriers(&device).starts_with("drain in this layer"));
    assert!(tagged(&device) <= 2);
}

#[test]
fn a_disk_that_takes_no_tags_refuses_and_keeps_its_mode() {
    let device = open("ram(2G, elevator=noop)");
    let error = device.set_ordered("tag").unwrap_err().to_string();
    assert!(error.contains("takes no ordered tags"), "{error}");
    let error = device.set_ordered("tags").unwrap_err().to_string();
    assert!(error.contains("\"tags\"") && error.contains("drain, tag"), "{error}");
    assert_eq!((tagged(&device), barriers(&device).as_str()), (0, "drain"));
}
