//! Making, opening and wiping arrays while the power fails at any I/O.

use platter::raid::{self, Array};
use platter::{Device, stack::array_metadata::Select, stack::partition};
use platter_kit::{Kit, Outcome};
use std::sync::Arc;

/// Three members on one disk, which loses power with all of them.
fn members(disk: &Device) -> Vec<Device> {
    let part = |number: u64| {
        let part = partition::new(Arc::clone(disk.backend()), number << 22, Some(1 << 22));
        Device::new(part.expect("a part of the disk"))
    };
    (0..3).map(part).collect()
}

fn named(name: &str) -> Array {
    Array { name: name.into(), ..Array::default() }
}

/// Creates an array, another one over it, opens that one for writing and wipes it. `done` counts completed
/// steps.
fn live(disk: &Device, done: &mut u32) -> Outcome {
    let members = members(disk);
    raid::create(&members, &named("old"))?;
    *done = 1;
    raid::create(&members, &named("new"))?;
    *done = 2;
    raid::assemble(&Select::Any, &members, true)?;
    *done = 3;
    raid::wipe(&members)?;
    *done = 4;
    Ok(())
}

/// After a cut the state is the one before the current step, or the one after it.
fn check(disk: &Device, done: &u32) -> Outcome {
    let members = members(disk);
    let is_there = |name: &str| raid::assemble(&Select::Name(name.into()), &members, false).is_ok();
    let found = match (is_there("old"), is_there("new")) {
        (false, false) => "none",
        (true, false) => "old",
        (false, true) => "new",
        (true, true) => "both",
    };
    let permitted: &[&str] = match done {
        0 => &["none", "old"],
        1 => &["old", "new"],
        2 => &["new"],
        3 => &["new", "none"],
        _ => &["none"],
    };
    match permitted.contains(&found) {
        true => Ok(()),
        false => Err(format!("{found} after step {done}, not one of {permitted:?}").into()),
    }
}

#[test]
fn an_array_is_the_old_one_or_the_new_one_wherever_the_power_fails() {
    let summary = Kit::new(1).run(live, check).unwrap_or_else(|failure| panic!("{failure}"));
    // Four changes of three members, two writes and two flushes each, and more.
    assert!(summary.cuts > 100, "{} cuts", summary.cuts);
}
