//! What ends a wait or forbids it, rule by rule.

use super::*;
use crate::vectors::at;

/// Indices of the rules.
const V2_6_0: i64 = 0;
const V2_6_2: i64 = 1;
const V2_6_16: i64 = 2;

/// The reasons that hold under every rule. `b` is far away, so that it is not close under any rule.
#[rustfmt::skip]
const EVERY_RULE: &[Case] = &[
    Case { name: "a request of the process, wherever it lies", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Add(2, "a:R20000000"), Wake(None), Take(2, "b:R9000000"),
    ]},
    Case { name: "an asynchronous write of the process", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Add(2, "a:W9000"), Wake(None), Take(2, "b:R9000000"),
    ]},
    Case { name: "a request of another process does not end it", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Add(2, "c:R20000000 b:W9000"), Wake(Some(6)), Take(2, "-"),
    ]},
    Case { name: "the time is over", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(6, "b:R9000000"), Take(6, "b:R9000000"),
    ]},
    Case { name: "the time is not yet over", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(5, "b:R9000000"), Take(5, "-"), Wake(Some(6)),
    ]},
    Case { name: "other requests of the process are queued", steps: &[
        Add(0, "a:R0 a:R20000000 b:R9000000"), Serve(0, "a:R0"), Take(1, "b:R9000000"),
    ]},
    Case { name: "no other requests of the process but with the driver", steps: &[
        Add(0, "a:R0 a:R8 b:R9000000"), Take(0, "a:R0 a:R8"), Done(0, "a:R0"), Take(1, "-"), Wake(Some(6)),
        Take(6, "b:R9000000"),
    ]},
    Case { name: "others with the driver, and none of them has completed", steps: &[
        Add(0, "a:R0 a:R8 b:R9000000"), Take(0, "a:R0 a:R8 -"), Wake(None), Done(3, "a:R8"), Wake(Some(9)),
    ]},
    Case { name: "all of them have completed", steps: &[
        Add(0, "a:R0 a:R8 b:R9000000"), Take(0, "a:R0 a:R8"), Done(0, "a:R0 a:R8"), Take(1, "-"), Wake(Some(6)),
    ]},
    Case { name: "the process thinks for too long", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(8, "a:R8"), Serve(8, "a:R8"),
        Add(9, "b:R9000000"), Take(9, "b:R9000000"),
    ]},
    Case { name: "the process thinks quickly", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(2, "a:R8"), Serve(2, "a:R8"),
        Add(3, "b:R9000000"), Take(3, "-"), Wake(Some(8)),
    ]},
    Case { name: "a close synchronous request", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(0, "b:R9000000"), Take(0, "-"),
        Add(0, "c:S72"), Wake(None), Take(0, "c:S72"),
    ]},
    Case { name: "not a close asynchronous write", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(0, "b:R9000000"), Take(0, "-"), Add(0, "c:W8"), Wake(Some(6)),
    ]},
    Case { name: "a close request that was there before", steps: &[
        Add(0, "a:R0 b:R72"), Serve(0, "a:R0"), Take(0, "b:R72"),
    ]},
];

#[test]
fn reasons_of_every_rule() {
    for rule in [V2_6_0, V2_6_2, V2_6_16] {
        for case in EVERY_RULE {
            std::println!("{rule}: {}", case.name);
            let mut runner = runner();
            runner.step(&Set("rule", rule));
            runner.run(case.steps);
        }
    }
}

#[rustfmt::skip]
const THE_2_6_0_RULE: &[Case] = &[
    Case { name: "the process has exited", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Exit(2, 'a'), Wake(None), Take(2, "b:R9000000"),
    ]},
    Case { name: "a close request, though the process has others", steps: &[
        Add(0, "a:R0 a:R20000000 b:R72"), Serve(0, "a:R0"), Take(0, "b:R72"),
    ]},
    Case { name: "a new process, after another new one was waited for in vain", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"), Take(6, "b:R9000000"),
        Done(6, "b:R9000000"), Add(6, "c:R0"), Take(6, "c:R0"),
    ]},
    Case { name: "a new process is waited for when the last one sent another in time", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R8"), Serve(1, "a:R8"),
        Add(8, "b:R9000000"), Serve(8, "b:R9000000"), Add(9, "c:R0"), Take(9, "-"),
    ]},
    Case { name: "the process seeks farther than half of what the candidate asks for", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(2, "b:R2000016"), Take(2, "b:R2000016"),
    ]},
    Case { name: "the process does not", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(2, "b:R4000016"), Take(2, "-"),
    ]},
];

#[test]
fn reasons_of_2_6_0() {
    for case in THE_2_6_0_RULE {
        std::println!("{}", case.name);
        let mut runner = runner();
        runner.step(&Set("rule", V2_6_0));
        runner.run(case.steps);
    }
}

#[rustfmt::skip]
const THE_2_6_2_RULE: &[Case] = &[
    Case { name: "the process has exited", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Exit(2, 'a'), Wake(None), Take(2, "b:R9000000"),
    ]},
    Case { name: "the candidate is nearer than the process seeks", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(2, "b:R2000015"), Take(2, "b:R2000015"),
    ]},
    Case { name: "the candidate is farther than the process seeks", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(2, "b:R2000021"), Take(2, "-"),
    ]},
    Case { name: "the candidate is nearer than new processes seek", steps: &[
        // The first distance of a counts an eighth: 1000000 sectors.
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R8000008"), Serve(1, "a:R8000008"),
        Add(9, "b:R0"), Serve(9, "b:R0"), Add(10, "c:R1000007"), Take(10, "c:R1000007"),
    ]},
    Case { name: "the candidate is farther than new processes seek", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R8000008"), Serve(1, "a:R8000008"),
        Add(9, "b:R0"), Serve(9, "b:R0"), Add(10, "c:R1000008"), Take(10, "-"),
    ]},
];

#[test]
fn reasons_of_2_6_2() {
    for case in THE_2_6_2_RULE {
        std::println!("{}", case.name);
        let mut runner = runner();
        runner.step(&Set("rule", V2_6_2));
        runner.run(case.steps);
    }
}

#[rustfmt::skip]
const THE_2_6_16_RULE: &[Case] = &[
    Case { name: "a process that has exited may be followed by another one", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"),
        Exit(2, 'a'), Wake(Some(6)), Take(2, "-"), Add(3, "c:R8"), Take(3, "c:R8"),
    ]},
    Case { name: "the wait for a process that has exited ends in time", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-"), Exit(2, 'a'),
        Take(6, "b:R9000000"),
    ]},
    Case { name: "a candidate nearer than the process seeks is close", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(1, "b:R2000015"), Take(1, "b:R2000015"),
    ]},
    Case { name: "a candidate farther than the process seeks is not", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(1, "b:R2000021"), Take(1, "-"),
    ]},
    Case { name: "but only if it is synchronous", steps: &[
        Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R1000008"), Serve(1, "a:R1000008"),
        Add(1, "b:W2000015"), Take(1, "-"),
    ]},
];

#[test]
fn reasons_of_2_6_16() {
    play(THE_2_6_16_RULE);
}

/// A process sends one read and no more; returns whether the elevator waits for it while a write of another
/// process is queued. Takes less than 20 ms from `now` on.
fn one_read(elevator: &mut Anticipatory, now: u64, number: u32, exits: bool) -> bool {
    let request = |index, text, process| {
        let info = RequestInfo { context: Context::new(process), ..crate::vectors::parse(text) };
        (RequestId { index, generation: number }, info)
    };
    let (read, write) = (request(0, "R0", 100 + number), request(1, "W9000000", 1));
    elevator.insert(at(now), read.0, &read.1);
    assert_eq!(elevator.dispatch(at(now), false), Some(read.0));
    elevator.completed(at(now), read.0, &read.1);
    if exits {
        elevator.exited(at(now), read.1.context);
    }
    elevator.insert(at(now + 1), write.0, &write.1);
    let first = elevator.dispatch(at(now + 1), false);
    if first.is_none() {
        assert_eq!(elevator.dispatch(at(now + 6), false), Some(write.0));
    }
    elevator.completed(at(now + 6), write.0, &write.1);
    first.is_none()
}

/// How many of 20 such processes in a row the elevator waits for before it stops waiting.
fn waits_in_a_row(rule: i64, exits: bool) -> usize {
    let mut elevator = Anticipatory::default();
    elevator.set("rule", rule).expect("in range");
    (0..20).take_while(|&n| one_read(&mut elevator, 20 * u64::from(n), n, exits)).count()
}

#[test]
fn new_processes_that_send_no_more_are_given_up() {
    // From 256 to 224 at once.
    assert_eq!(waits_in_a_row(V2_6_0, false), 1);
    // 0 32 60 84 105 123 139: more than half.
    assert_eq!(waits_in_a_row(V2_6_2, false), 6);
    // They have not exited, so that other processes might still continue their streams.
    assert_eq!(waits_in_a_row(V2_6_16, false), 20);
}

#[test]
fn processes_that_exit_are_given_up() {
    assert_eq!(waits_in_a_row(V2_6_0, true), 0);
    assert_eq!(waits_in_a_row(V2_6_2, true), 0);
    // 0 32 60 84 105 123 139: in more than half of the cases no process continued the stream.
    assert_eq!(waits_in_a_row(V2_6_16, true), 6);
}

#[test]
fn close_is_farther_the_longer_the_wait_lasts() {
    #[rustfmt::skip]
    let table = [
        // Rule, antic_expire, ms since the completion, farthest ahead and behind in sectors.
        (V2_6_16,  6,  0,         8192,         4096),
        (V2_6_16,  6,  1,        16384,         8192),
        (V2_6_16,  6,  2,        32768,        16384),
        (V2_6_16,  6,  6,  8192 <<  6,   8192 <<  5),
        (V2_6_16, 30, 20,  8192 << 20,   8192 << 19),
        (V2_6_2,   6,  0,           64,           32),
        (V2_6_2,   6,  1,           64,           32),
        (V2_6_2,   6,  2,          128,           64),
        (V2_6_0,   6,  6,    64 <<  5,     64 <<  4),
        (V2_6_0,  30, 20,    64 << 19,     64 << 18),
    ];
    for (rule, wait, delay, ahead, behind) in table {
        let mut elevator = Anticipatory::default();
        elevator.set("rule", rule).expect("in range");
        elevator.set("antic_expire", wait).expect("in range");
        let process = elevator.processes.enter(1, None);
        let last = 1 << 40;
        elevator.last_sector[SYNC] = last;
        elevator.wait =
            Wait { status: Status::Next, process: Some(process), finished: true, start: 100, until: 0 };
        let close = |now, start| {
            elevator.is_close(now, process, Some(Candidate { start, end: start + 8, sync: true, process: 7 }))
        };
        let name = std::format!("rule {rule}, {delay} ms");
        assert!(close(100 + delay, last + ahead) && !close(100 + delay, last + ahead + 1), "{name}");
        assert!(close(100 + delay, last - behind) && !close(100 + delay, last - behind - 1), "{name}");
        let beyond = wait.min(20) as u64 + 1;
        assert!(close(100 + beyond, 0), "{name}: beyond {beyond} ms everything is");
        elevator.wait.finished = false;
        let near = if rule == V2_6_16 { 8192 } else { 64 };
        let far = Some(Candidate { start: last + near + 1, end: last + near + 9, sync: true, process: 7 });
        assert!(!elevator.is_close(100 + beyond, process, far), "{name}: time has not begun");
    }
}
