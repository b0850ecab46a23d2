//! Test vectors; the notation of requests and processes is described in `vectors`.

use super::*;
use crate::vectors::Runner;
use crate::vectors::Step::{self, Add, Done, Exit, Serve, Set, Take, Wake};

mod batches;
mod reasons;
mod statistics;

struct Case {
    name: &'static str,
    steps: &'static [Step],
}

fn play(cases: &[Case]) {
    for case in cases {
        std::println!("{}", case.name);
        runner().run(case.steps);
    }
}

fn runner() -> Runner<Anticipatory> {
    Runner::new(Anticipatory::default())
}

#[rustfmt::skip]
const WAITS: &[Case] = &[
    Case { name: "a dependent reader keeps the disk until it pauses", steps: &[
        Add(0, "a:R0"), Take(0, "a:R0"), Done(5, "a:R0"),
        Add(5, "b:R9000000"), Take(5, "-"), Wake(Some(11)),
        Add(7, "a:R8"), Wake(None), Take(7, "a:R8"), Done(12, "a:R8"),
        Take(12, "-"), Wake(Some(18)), Add(14, "a:R16"), Take(14, "a:R16"), Done(20, "a:R16"),
        Take(20, "-"), Take(25, "-"), Wake(Some(26)), Take(26, "b:R9000000"),
    ]},
    Case { name: "without waiting the disk moves back and forth", steps: &[
        Set("antic_expire", 0),
        Add(0, "a:R0"), Take(0, "a:R0"), Done(5, "a:R0"),
        Add(5, "b:R9000000"), Take(5, "b:R9000000"), Wake(None), Add(7, "a:R8"), Done(12, "b:R9000000"),
        Take(12, "a:R8"), Take(12, "-"), Wake(None),
    ]},
    Case { name: "two readers take turns when one pauses", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Add(2, "a:R8"), Serve(2, "a:R8"), Take(2, "-"), Take(8, "b:R9000000"), Done(9, "b:R9000000"),
        Add(9, "a:R16"), Take(9, "-"), Add(11, "b:R9000008"), Serve(11, "b:R9000008"),
        Take(11, "-"), Take(17, "a:R16"),
    ]},
    Case { name: "time counts from the completion", steps: &[
        Add(0, "a:R0"), Take(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"), Wake(None), Take(40, "-"),
        Done(50, "a:R0"), Wake(Some(56)), Take(55, "-"), Take(56, "b:R9000000"),
    ]},
    Case { name: "from the completion, not from when it is asked", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(4, "b:R9000000"), Take(4, "-"), Wake(Some(6)),
        Take(6, "b:R9000000"),
    ]},
    Case { name: "a wait ends in time although the elevator was not asked", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Add(20, "a:R8"), Take(20, "a:R8"),
    ]},
    Case { name: "before turning to writes too", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:W9000000"), Take(1, "-"), Add(2, "a:R8"),
        Serve(2, "a:R8"), Take(2, "-"), Take(8, "b:W9000000"),
    ]},
    Case { name: "not after a write", steps: &[
        Add(0, "a:W0"), Serve(0, "a:W0"), Add(1, "b:R9000000"), Take(1, "b:R9000000"),
    ]},
    Case { name: "after a synchronous write", steps: &[
        Add(0, "a:S0"), Serve(0, "a:S0"), Add(1, "b:R9000000"), Take(1, "-"),
        Add(2, "a:S8"), Take(2, "a:S8"),
    ]},
    Case { name: "never with nothing queued", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Take(1, "-"), Wake(None),
    ]},
    Case { name: "an expired read goes first instead", steps: &[
        Add(0, "b:R9000000"), Add(0, "a:R0"), Serve(0, "a:R0"), Take(126, "b:R9000000"),
    ]},
];

#[test]
fn waiting() {
    play(WAITS);
}

#[test]
fn only_the_awaited_process_must_get_a_request() {
    let mut runner = runner();
    let ask = |runner: &Runner<Anticipatory>, letter| {
        runner.elevator.may_queue(crate::vectors::process(letter), Dir::Read)
    };
    runner.run(&[Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000")]);
    assert_eq!(ask(&runner, 'a'), MayQueue::May);
    runner.step(&Take(1, "-"));
    assert_eq!((ask(&runner, 'a'), ask(&runner, 'b')), (MayQueue::Must, MayQueue::May));
    runner.step(&Take(6, "b:R9000000"));
    assert_eq!((ask(&runner, 'a'), ask(&runner, 'b')), (MayQueue::May, MayQueue::May));
    runner.run(&[Add(7, "a:R8"), Take(7, "-"), Wake(None)]);
    assert_eq!((ask(&runner, 'a'), ask(&runner, 'b')), (MayQueue::May, MayQueue::Must), "not yet completed");
}

#[test]
fn force_never_waits() {
    let mut runner = runner();
    runner.run(&[Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000 c:W0"), Take(1, "-"), Wake(Some(6))]);
    for place in [1, 2] {
        let id = runner.elevator.dispatch(Time(1_000_000), true).expect("a request");
        assert_eq!(id.index, place);
    }
    assert_eq!(runner.elevator.dispatch(Time(1_000_000), true), None);
    runner.step(&Wake(None));
}

#[test]
fn without_waiting_a_free_driver_always_gets_a_request() {
    let mut runner = runner();
    runner.step(&Set("antic_expire", 0));
    let (mut bits, mut now, mut free) = (0x9e37_79b9_7f4a_7c15_u64, 0, (0..32).collect::<Vec<u32>>());
    let mut infos = [crate::vectors::parse("R0"); 32];
    let mut generation = 0;
    for _ in 0..20_000 {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        now += bits >> 60;
        if bits % 3 > 0
            && let Some(index) = free.pop()
        {
            let kind = [("R", Dir::Read), ("W", Dir::Write)][(bits >> 8) as usize % 2];
            let info = crate::vectors::parse(&alloc::format!("{}{}", kind.0, (bits >> 20) % (1 << 24)));
            infos[index as usize] = RequestInfo { context: Context::new((bits >> 12) as u32 % 5), ..info };
            runner.elevator.insert(
                Time(now * 1_000_000),
                RequestId { index, generation },
                &infos[index as usize],
            );
            generation += 1;
        } else if !runner.elevator.is_empty() {
            let id = runner
                .elevator
                .dispatch(Time(now * 1_000_000), false)
                .expect("a request, for nothing is under way");
            assert_eq!(runner.elevator.next_wakeup(), None);
            runner.elevator.completed(Time(now * 1_000_000), id, &infos[id.index as usize]);
            free.push(id.index);
        }
    }
}

#[test]
fn kernels_set_what_they_had() {
    #[rustfmt::skip]
    let table = [
        ("2.6.0", 0,  50, 200, 200,  50, 6, 5),
        ("2.6.2", 1, 125, 250, 250,  62, 6, 6),
        ("2.6.7", 1, 125, 250, 500, 125, 6, 12),
        ("2.6.16", 2, 125, 250, 500, 125, 6, 12),
    ];
    let mut elevator = Anticipatory::default();
    assert_eq!((elevator.rule(), elevator.batch.writes), (Rule::V2_6_16, 12));
    for (place, (name, rule, read, write, read_batch, write_batch, wait, writes)) in (0..).zip(table) {
        assert_eq!(PARAMS[KERNEL].words[place as usize], name);
        elevator.set("kernel", place).expect("in range");
        let got = PARAMS.each_ref().map(|p| elevator.get(p.name).expect("a parameter"));
        assert_eq!(got, [place, rule, read, write, read_batch, write_batch, wait, 0], "{name}");
        assert_eq!(elevator.batch.writes, writes, "{name}");
        elevator.set("rule", 0).expect("in range");
        assert_eq!((elevator.rule(), elevator.get("kernel")), (Rule::V2_6_0, Some(place)));
        let error = elevator.set("antic_expire", -1).expect_err("out of range");
        assert!(error.0.contains("antic_expire") && error.0.contains("anticipatory"), "{error}");
    }
    elevator.set("write_batch_expire", 10).expect("in range");
    assert_eq!(elevator.batch.writes, 12, "tuned from where it is");
}

/// Way back counts twice from 2.6.2 on.
#[test]
fn a_request_behind_is_as_near_as_one_ahead_in_2_6_0_only() {
    let mut elevator = Anticipatory::default();
    elevator.last_sector[SYNC] = 1000;
    let behind_first = [0, 1, 2].map(|rule| {
        elevator.set("rule", rule).expect("in range");
        elevator.cost(SYNC, 940) < elevator.cost(SYNC, 1100)
    });
    assert_eq!(behind_first, [true, false, false]);
}

#[test]
fn unknown_ids_are_ignored() {
    let mut runner = runner();
    runner.run(&[Add(0, "R100 R108"), Take(0, "R100")]);
    let info = crate::vectors::parse("R100");
    let id = |index, generation| RequestId { index, generation };
    for unknown in [id(0, 9), id(7, 1)] {
        runner.elevator.merged(unknown, &info, &crate::vectors::parse("R0+108"));
        runner.elevator.absorbed(id(1, 1), unknown, &info);
        runner.elevator.completed(Time(0), unknown, &info);
    }
    runner.elevator.absorbed(id(1, 1), id(1, 1), &info);
    runner.elevator.insert(Time(0), id(1, 9), &info);
    assert_eq!((runner.elevator.len(), runner.elevator.dispatched), (1, 1));
    runner.run(&[Take(0, "R108"), Done(0, "R100 R108"), Done(0, "R100")]);
    assert_eq!(runner.elevator.dispatched, 0);
}
