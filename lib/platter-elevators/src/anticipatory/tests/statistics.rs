//! Means of processes, and expectations about new ones.

use super::*;
use crate::vectors::process;

fn known(runner: &Runner<Anticipatory>, letter: char) -> process::Process {
    let mut copy = runner.elevator.processes.clone();
    let at = copy.enter(process(letter).task(), None);
    *copy.get(at)
}

fn estimators(runner: &Runner<Anticipatory>) -> (u32, u32, u64, u64) {
    let Estimators { exit_prob, exit_no_coop, new_ttime_mean, new_seek_mean } = runner.elevator.estimators();
    (exit_prob, exit_no_coop, new_ttime_mean, new_seek_mean)
}

#[test]
fn think_times_and_seeks() {
    let mut runner = runner();
    runner.run(&[Add(0, "a:R0"), Serve(0, "a:R0")]);
    assert_eq!(known(&runner, 'a').think_time.samples, 0, "nothing to compare with yet");
    let think = |runner: &Runner<Anticipatory>| {
        let mean = known(runner, 'a').think_time;
        (mean.samples, mean.total, mean.mean)
    };
    let seek = |runner: &Runner<Anticipatory>| {
        let mean = known(runner, 'a').seek;
        (mean.samples, mean.total, mean.mean)
    };
    runner.run(&[Add(4, "a:R16"), Serve(5, "a:R16")]);
    // 4 ms, 8 sectors.
    assert_eq!((think(&runner), seek(&runner)), ((32, 128, 8), (32, 256, 12)));
    assert_eq!(estimators(&runner), (0, 0, 0, 1));
    runner.run(&[Add(105, "a:R24"), Add(106, "a:R32")]);
    // 100 ms count as 19; the next request arrives while it is queued: 0. No distance.
    assert_eq!((think(&runner), seek(&runner)), ((84, 630, 9), (84, 196, 3)));
}

#[test]
fn think_times_by_hand() {
    let mut runner = runner();
    runner.run(&[Add(0, "a:R0"), Serve(0, "a:R0"), Add(19, "a:R8"), Serve(19, "a:R8")]);
    let mean = known(&runner, 'a').think_time;
    assert_eq!((mean.samples, mean.total, mean.mean), (32, 608, 23), "a first sample weighs a little more");
    runner.run(&[Add(21, "a:R16"), Serve(21, "a:R16")]);
    let mean = known(&runner, 'a').think_time;
    assert_eq!((mean.samples, mean.total, mean.mean), (60, 596, 12));
}

#[test]
fn a_stray_seek_is_cut_short() {
    let mut runner = runner();
    runner.run(&[Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "a:R99000000"), Serve(1, "a:R99000000")]);
    let mean = known(&runner, 'a').seek;
    assert_eq!(mean.total, 256 * (2 << 20) / 8, "2 Mi sectors at most while nothing is known");
    assert_eq!(runner.elevator.estimators().new_seek_mean, 98_999_992 / 8, "whole for new processes");
    let mut runner = super::runner();
    runner.run(&[Add(0, "a:R0 a:R8 a:R16 a:R24"), Serve(0, "a:R0 a:R8 a:R16 a:R24")]);
    let known_for_long = known(&runner, 'a').seek;
    assert_eq!((known_for_long.samples, known_for_long.mean), (84, 1));
    runner.step(&Add(0, "a:R99000000"));
    assert_eq!(known(&runner, 'a').seek.total, 256 * ((128 << 10) + 4) / 8, "128 Ki and four times the mean");
}

#[test]
fn timeouts_and_exits_count() {
    let mut runner = runner();
    runner.run(&[
        Add(0, "a:R0"),
        Serve(0, "a:R0"),
        Add(1, "b:R9000000"),
        Take(1, "-"),
        Take(6, "b:R9000000"),
    ]);
    assert_eq!(estimators(&runner), (32, 0, 0, 0), "a new one that sent no more");
    runner.run(&[Done(10, "b:R9000000"), Add(12, "a:R0+16"), Take(12, "-"), Exit(13, 'b')]);
    assert_eq!(
        estimators(&runner),
        (56, 0, 1, 1),
        "it has exited; a has shown to be no such, thinking for 12 ms"
    );
    runner.step(&Take(16, "a:R0+16"));
    assert_eq!(estimators(&runner), (81, 32, 1, 1), "and no process continued its stream");
}

#[test]
fn a_process_that_takes_over_counts_for_the_one_that_has_exited() {
    let mut runner = runner();
    runner.elevator.estimate.exit_no_coop = 100;
    runner.run(&[Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-")]);
    runner.run(&[Exit(1, 'a'), Add(2, "c:R24"), Take(2, "c:R24")]);
    // The exit, then the arrival: 0 32 60; the request of c counts as the second one of a, after 2 ms and 16
    // sectors.
    assert_eq!(estimators(&runner), (60 * 7 / 8, 87, 0, 2));
    let took_over = runner.elevator.wait.process.expect("the process of the last request");
    assert!(runner.elevator.processes.is(took_over, process('c').task()));
    assert_eq!(runner.elevator.processes.get(took_over).think_time.samples, 0, "c itself is new");
}

#[test]
fn new_processes_that_think_for_long_are_not_waited_for() {
    let mut runner = runner();
    // The first think time of each is 19 ms: 2 4 6 7.
    for (n, letter) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let start = 40 * n as u64;
        for ms in [start, start + 19] {
            let pos = ms * 100;
            let info = crate::vectors::parse(&std::format!("{letter}:R{pos}"));
            let id = RequestId { index: 0, generation: ms as u32 };
            runner.elevator.insert(Time(ms * 1_000_000), id, &info);
            assert_eq!(runner.elevator.dispatch(Time(ms * 1_000_000), true), Some(id));
            runner.elevator.completed(Time(ms * 1_000_000), id, &info);
        }
        assert_eq!(runner.elevator.estimators().new_ttime_mean, [2, 4, 6, 7][n]);
    }
    runner.run(&[Add(200, "e:R0"), Serve(200, "e:R0"), Add(201, "f:R9000000"), Take(201, "f:R9000000")]);
}

#[test]
fn a_rule_that_only_asks_who_comes_next_takes_the_other_for_the_process() {
    let mut runner = runner();
    runner.run(&[Set("rule", 1), Add(0, "a:R0"), Serve(0, "a:R0"), Add(1, "b:R9000000"), Take(1, "-")]);
    runner.run(&[Add(2, "c:R8"), Take(2, "c:R8")]);
    let a = known(&runner, 'a');
    assert_eq!((a.last_end, a.think_time.samples), (2, 0), "its rest begins anew, its history stays");
}
