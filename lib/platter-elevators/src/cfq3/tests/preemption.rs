//! Which queues may preempt which.

use super::*;

/// A state of the active queue, a new request, and whether that request leaves next.
struct Rule {
    name: &'static str,
    before: &'static [crate::cfq::vectors::Step],
    at: u64,
    newcomer: &'static str,
    /// With the rules of 2.6.20, and of 2.6.22.
    preempts: [bool; 2],
}

#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { name: "synchronous over asynchronous", before: &[Add(0, "2W2000 2W2008"), Take(0, "2W2000")],
        at: 1, newcomer: "1R1000", preempts: [false, true] },
    Rule { name: "the same, when it was waited for and has a part of its slice left",
        before: &[Add(0, "1R900"), Serve(0, "1R900"), Add(1, "2W2000 2W2008"), Take(1, "-"), Take(9, "2W2000")],
        at: 10, newcomer: "1R1000", preempts: [true, true] },
    Rule { name: "the same, when it has little left",
        before: &[Add(0, "1R900"), Take(0, "1R900"), Done(95, "1R900"), Add(95, "2W2000 2W2008"), Take(95, "-"), Take(104, "2W2000")],
        at: 105, newcomer: "1R1000", preempts: [false, true] },
    Rule { name: "asynchronous over asynchronous", before: &[Add(0, "2W2000 2W2008"), Take(0, "2W2000")],
        at: 1, newcomer: "1W1000@0", preempts: [false, false] },
    Rule { name: "synchronous over synchronous", before: &[Add(0, "2R0 2R8"), Take(0, "2R0")],
        at: 1, newcomer: "1R1000@0", preempts: [false, false] },
    Rule { name: "real time over best effort", before: &[Add(0, "2R0 2R8"), Take(0, "2R0")],
        at: 1, newcomer: "1R1000@r7", preempts: [false, true] },
    Rule { name: "real time over real time", before: &[Add(0, "2R0@r7 2R8@r7"), Take(0, "2R0@r7")],
        at: 1, newcomer: "1R1000@r0", preempts: [false, false] },
    Rule { name: "best effort over real time", before: &[Add(0, "2R0@r7 2R8@r7"), Take(0, "2R0@r7")],
        at: 1, newcomer: "1R1000@0", preempts: [false, false] },
    Rule { name: "the idle class over asynchronous", before: &[Add(0, "2W2000 2W2008"), Take(0, "2W2000")],
        at: 1, newcomer: "1R1000@i", preempts: [false, false] },
    Rule { name: "any queue over one that has become idle class", before: &[Add(0, "2R0"), Take(0, "2R0"), Add(0, "2R8@i")],
        at: 1, newcomer: "1W1000", preempts: [true, true] },
];

#[test]
fn preemption() {
    for rule in RULES {
        for (kernel, preempts) in (2..).zip(rule.preempts) {
            std::println!("{} {kernel}", rule.name);
            let mut runner = Runner::new(Cfq::default());
            runner.step(&Set("kernel", kernel));
            runner.step(&Set("quantum", 1));
            rule.before.iter().for_each(|step| runner.step(step));
            runner.add(ms(rule.at), rule.newcomer);
            let next = runner.take(ms(rule.at), false);
            assert_eq!(next == rule.newcomer, preempts, "{next} left");
        }
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "a preempted queue goes to the front of its level", steps: &[
        Set("quantum", 1),
        Add(0, "1R900"), Serve(0, "1R900"), Add(1, "2W2000 2W2008 3R500@7"), Take(1, "-"), Take(9, "2W2000"), Add(9, "4W600@4"),
        Done(9, "2W2000"), Add(10, "1R1000"), Take(10, "1R1000"), Done(111, "1R1000"), Take(111, "2W2008"),
    ]},
    Case { name: "2.6.22: queues go by virtual time", steps: &[
        Set("kernel", 3), Set("slice_idle", 0),
        // The second of two queues waits as much longer as its slice is shorter than that of level 0.
        Add(0, "1R0@7"), Add(139, "2R100@0"), Serve(139, "1R0@7 2R100@0"),
        Add(1000, "3R200@0"), Add(1001, "1R8@7"), Add(1140, "2R108@0"), Serve(1140, "3R200@0 2R108@0 1R8@7"),
    ]},
    Case { name: "2.6.22: a slice begins when its first request has completed", steps: &[
        Set("kernel", 3), Set("quantum", 1),
        Add(0, "1R0 1R8 1R16 1R24 2R1000"), Take(0, "1R0"), Done(50, "1R0"), Take(150, "1R8"), Take(151, "2R1000"),
    ]},
    Case { name: "2.6.22: real time before all, the idle class behind", steps: &[
        Set("kernel", 3), Set("slice_idle", 0), Set("idle_grace", 0),
        Add(0, "1R0@i 2R100@0 3R200@r7"), Serve(0, "3R200@r7 2R100@0 1R0@i"),
    ]},
];

#[test]
fn vectors() {
    play(CASES, Cfq::default);
}
