//! Shares of the disk in a closed loop: virtual time, a millisecond for each request, one at a time.

use super::*;
use platter_block::bio::{Class, IoPrio, Op};

/// Two sequential readers, of levels 0 and 7, each with `outstanding` requests. When a request completes, the
/// disk asks for the next one before the reader sends it. Returns how many of 22 000 requests each reader
/// got.
fn share(elevator: &mut Cfq, outstanding: u32) -> [u64; 2] {
    const LEVELS: [u8; 2] = [0, 7];
    let mut served = [0; 2];
    let mut generation = [0; 16];
    let info = |index: u32, block: u32| {
        let reader = index as usize % 2;
        RequestInfo {
            pos: (reader as u64) << 40 | u64::from(block) << 12,
            len: 4096,
            dir: Dir::Read,
            op: Op::Read,
            sync: true,
            ioprio: IoPrio::new(Class::BestEffort, LEVELS[reader]),
            context: Context::new(reader as u32),
        }
    };
    let mut insert = |elevator: &mut Cfq, now: Time, index: u32| {
        let generation = &mut generation[index as usize];
        *generation += 1;
        let block = *generation * outstanding + index / 2;
        elevator.insert(now, RequestId { index, generation: *generation }, &info(index, block));
    };
    (0..2 * outstanding).for_each(|index| insert(elevator, Time(0), index));
    let mut now = Time(0);
    let mut late: Option<u32> = None;
    while served[0] + served[1] < 22_000 {
        let id = elevator.dispatch(now, false);
        if let Some(index) = late.take() {
            insert(elevator, now, index);
        }
        let Some(id) = id.or_else(|| elevator.dispatch(now, false)) else {
            now = elevator.next_wakeup().expect("something to wait for");
            continue;
        };
        now += Span::from_millis(1);
        elevator.completed(now, id, &info(id.index, 0));
        served[id.index as usize % 2] += 1;
        late = Some(id.index);
    }
    served
}

/// Whether the shares are in the ratio `a` to `b`, within 3 % of the total.
fn are(served: [u64; 2], a: u64, b: u64) -> bool {
    let expected = 22_000 * a / (a + b);
    std::println!("{served:?}, expected {expected}");
    served[0].abs_diff(expected) < 660
}

#[test]
fn levels_0_and_7() {
    // A reader that keeps the disk busy is in line when its slice ends: time is shared by visits and slices.
    assert!(are(share(&mut Cfq::default(), 4), 1440, 40));
    // A reader of one block at a time is not in line at that moment, so slices alternate.
    assert!(are(share(&mut Cfq::default(), 1), 180, 40));
    // In the tree they always alternate.
    let mut elevator = Cfq::default();
    elevator.set("service_tree", 1).expect("in range");
    assert!(are(share(&mut elevator, 4), 180, 40));
}

#[test]
fn nobody_else_gets_the_disk_while_a_reader_thinks_shortly() {
    // Without the wait, readers of one block at a time alternate by requests.
    let mut elevator = Cfq::default();
    elevator.set("slice_idle", 0).expect("in range");
    assert!(are(share(&mut elevator, 1), 1, 1));
}
