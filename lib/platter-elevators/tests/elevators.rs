//! Every elevator of the table against the contract of elevators.

mod common;

use common::contract::{Driver, Move, moves};
use common::wrong::Wrong;
use platter_block::bio::{Class, Context, IoPrio, Op};
use platter_block::elevator::{BatchRule, Deadline, Dir, Elevator, RequestId, RequestInfo};
use platter_block::time::{Span, Time};
use platter_elevators::{TABLE, by_name};
use proptest::prelude::*;

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_invented(moves in moves(), force in any::<bool>()) {
        for row in TABLE {
            let verdict = Driver::new((row.make)()).play(&moves, force);
            prop_assert!(verdict.is_ok(), "{}: {:?}", row.name, verdict);
        }
    }
}

#[test]
fn the_driver_notices_what_is_wrong() {
    let insert = |page| Move::Insert {
        read: true,
        sync: true,
        page,
        pages: 1,
        context: 1,
        class: Class::None,
        level: 0,
    };
    let moves = [insert(1), insert(2), insert(9), insert(20), Move::Absorb(0)];
    assert_eq!(Driver::new((by_name("noop").expect("a row").make)()).play(&moves, true), Ok(()));
    for wrong in Wrong::ALL {
        let complaint = match wrong {
            Wrong::Twice => "twice",
            Wrong::Invents => "no place in the table",
            Wrong::Stale => "not known",
            Wrong::Loses | Wrong::KeepsAbsorbed => "len() is",
            Wrong::Hoards => "by force",
        };
        let said = Driver::new(wrong.make()).play(&moves, true).expect_err("a wrong elevator");
        assert!(said.contains(complaint), "{wrong:?}: {said}");
    }
    let said = Driver::new(Wrong::Hoards.make()).play(&moves, false).expect_err("a wrong elevator");
    assert!(said.contains("waits for nothing"), "{said}");
}

#[test]
fn parameters_are_as_the_table_says() {
    for row in TABLE {
        let mut elevator = (row.make)();
        assert_eq!(elevator.name(), row.name);
        assert!(
            by_name(row.name).is_some_and(|found| std::ptr::eq(found, row)),
            "{} is not unique",
            row.name
        );
        assert_eq!(elevator.params().len(), row.params.len(), "{}", row.name);
        for p in row.params {
            let name = format!("{} {}", row.name, p.name);
            // Each on its own elevator, because some parameters set several others.
            let mut elevator = (row.make)();
            assert!(p.min <= p.default && p.default <= p.max, "{name}");
            assert_eq!(elevator.get(p.name), Some(p.default), "{name}");
            elevator.set(p.name, p.max).expect("the greatest value is in range");
            for refused in [p.min.checked_sub(1), p.max.checked_add(1)].into_iter().flatten() {
                let error = elevator.set(p.name, refused).expect_err("out of range");
                let told = [row.name, p.name, &refused.to_string(), &p.min.to_string(), &p.max.to_string()];
                assert!(told.iter().all(|word| error.0.contains(word)), "{name}: {error}");
                assert_eq!(elevator.get(p.name), Some(p.max), "{name}");
            }
        }
        assert_eq!(elevator.get("no such parameter"), None);
        let error = elevator.set("no such parameter", 0).expect_err("no such parameter");
        assert!(row.params.iter().all(|p| error.0.contains(p.name)), "{error}");
    }
}

/// Longest time that any elevator of the table may keep a request of an ordinary class from the disk, with
/// its defaults and one millisecond per request: the longest time limit of any elevator, and some rounds of
/// other requests.
const PATIENCE: Span = Span::from_secs(12);

fn request(dir: Dir, pos: u64, context: u32) -> RequestInfo {
    RequestInfo {
        pos,
        len: 4096,
        dir,
        op: if dir == Dir::Read { Op::Read } else { Op::Write },
        sync: dir == Dir::Read,
        ioprio: IoPrio::NONE,
        context: Context::new(context),
    }
}

/// How long one request waits behind a sequential stream that never ends: 31 requests deep, one in flight.
fn wait_behind_stream(elevator: &mut dyn Elevator, stream: Dir, victim: Dir) -> Option<Span> {
    const VICTIM: u32 = 31;
    elevator.reserve(32);
    let (mut now, mut generations, mut pos) = (Time(0), [0; 32], 1 << 20);
    let mut infos = [request(victim, 1 << 40, 2); 32];
    for index in 0..32 {
        if index != VICTIM {
            infos[index as usize] = request(stream, pos, 1);
            pos += 4096;
        }
        elevator.insert(now, RequestId { index, generation: 0 }, &infos[index as usize]);
    }
    while now.since(Time(0)) <= PATIENCE {
        let Some(id) = elevator.dispatch(now, false) else {
            now = elevator.next_wakeup()?.max(now);
            continue;
        };
        if id.index == VICTIM {
            return Some(now.since(Time(0)));
        }
        now += Span::from_millis(1);
        let at = id.index as usize;
        elevator.completed(now, id, &infos[at]);
        generations[at] += 1;
        infos[at] = request(stream, pos, 1);
        pos += 4096;
        elevator.insert(now, RequestId { index: id.index, generation: generations[at] }, &infos[at]);
    }
    None
}

#[test]
fn no_stream_keeps_another_request_from_the_disk() {
    for row in TABLE {
        for stream in [Dir::Read, Dir::Write] {
            for victim in [Dir::Read, Dir::Write] {
                let waited = wait_behind_stream((row.make)().as_mut(), stream, victim);
                assert!(
                    waited.is_some(),
                    "{}: a {victim:?} starves behind a stream of {stream:?}s",
                    row.name
                );
            }
        }
    }
}

/// The bound of the wait under deadline: after a request has expired, each choice of its direction takes an
/// older one of that direction or the request itself, the direction is chosen at least every `writes_starved`
/// + 1 times, and a choice is one batch at most.
fn deadline_bound(older: u64, starved: u64, batch: u64) -> u64 {
    (older + 1) * (starved + 1) * batch.max(1) + batch.max(1)
}

proptest! {
    #[test]
    fn deadline_bounds_the_wait_of_every_request(
        rule in prop_oneof![Just(BatchRule::Contiguous), Just(BatchRule::Any), Just(BatchRule::ContiguousOldest)],
        starved in 1..4u64,
        batch in 0..20u64,
        stream in prop::collection::vec((any::<bool>(), prop_oneof![Just(None), (0..1000u64).prop_map(Some)]), 600),
    ) {
        let mut elevator = Deadline::with_rule(rule);
        let settings = [("read_expire", 20), ("write_expire", 60)];
        let settings = settings.into_iter().chain([("writes_starved", starved as i64), ("fifo_batch", batch as i64)]);
        settings.for_each(|(name, value)| elevator.set(name, value).expect("in range"));
        // By slot: when its request expires, how many older ones there were, and its direction.
        let mut queued: Vec<Option<(u64, u64, Dir)>> = Vec::new();
        let mut late = [0u64; 24];
        let mut pos = 0;
        for (ms, &(read, jump)) in stream.iter().enumerate() {
            let (dir, limit) = if read { (Dir::Read, 20) } else { (Dir::Write, 60) };
            pos = jump.map_or(pos + 4096, |page| page * 4096);
            let older = queued.iter().flatten().filter(|entry| entry.2 == dir).count() as u64;
            let place = queued.iter().position(Option::is_none).unwrap_or(queued.len());
            if place == queued.len() {
                queued.push(None);
            }
            queued[place] = Some((ms as u64 + limit, older, dir));
            late[place] = 0;
            let now = Time(ms as u64 * 1_000_000);
            elevator.insert(now, RequestId { index: place as u32, generation: 0 }, &request(dir, pos, 0));
            if queued.iter().flatten().count() < 24 {
                continue;
            }
            let id = elevator.dispatch(now, false).expect("a request");
            queued[id.index as usize] = None;
            for (place, entry) in queued.iter().enumerate() {
                let Some((expire, older, dir)) = *entry else { continue };
                late[place] += u64::from(ms as u64 > expire);
                let bound = deadline_bound(older, starved, batch);
                prop_assert!(late[place] <= bound, "{dir:?} passed over {} times, bound {bound}", late[place]);
            }
        }
    }
}
