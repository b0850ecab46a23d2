//! The host on systems whose outcome can be calculated, and on random ones.

use super::*;

const WORK: Stage = Stage(0);
const HELD: Stage = Stage(1);
const IRQ: Stage = Stage(2);
const BOTTOM: Stage = Stage(3);
const LOCK: LockId = LockId(0);

/// Each thread and the handlers have a list of steps; events raise interrupts.
#[derive(Default)]
struct Script {
    threads: Vec<Vec<Step>>,
    at: Vec<usize>,
    interrupt: Vec<Step>,
    /// Of each line.
    handlers: [usize; 4],
    /// The interrupt marks the bottom half.
    marks: bool,
    bottom: Vec<Step>,
    bottom_at: usize,
    /// Thread that the bottom half wakes at its end.
    wakes: Option<usize>,
    /// When interrupts are raised; announced by the first step of thread 0.
    times: Vec<u64>,
    ended: Vec<(Who, Time)>,
}

impl Script {
    fn new(threads: Vec<Vec<Step>>) -> Script {
        let at = vec![0; threads.len()];
        Script { threads, at, ..Script::default() }
    }
}

impl System for Script {
    fn step(&mut self, who: Who, now: Time, effects: &mut Effects) -> Step {
        for (line, time) in std::mem::take(&mut self.times).into_iter().enumerate() {
            effects.at(Time(time), line as u64);
        }
        let (steps, at) = match who {
            Who::Thread(thread) => (&self.threads[thread], &mut self.at[thread]),
            Who::Interrupt(line) => (&self.interrupt, &mut self.handlers[line]),
            Who::Bottom => (&self.bottom, &mut self.bottom_at),
        };
        *at += 1;
        if let Some(step) = steps.get(*at - 1) {
            return *step;
        }
        *at = 0;
        self.ended.push((who, now));
        match who {
            Who::Interrupt(_) if self.marks => effects.raise_bottom(),
            Who::Bottom => self.wakes.into_iter().for_each(|thread| effects.wake(thread)),
            _ => {}
        }
        Step::End
    }

    fn event(&mut self, event: u64, _now: Time, effects: &mut Effects) {
        effects.interrupt(event as usize);
    }
}

fn run(script: Script, processors: usize) -> Host<Script> {
    run_with(script, processors, Contention::free(Grant::Fifo))
}

fn run_with(script: Script, processors: usize, contention: Contention) -> Host<Script> {
    let threads = script.threads.len();
    let mut host = Host::new(script, (processors, threads), (4, 1, 4), (contention, 1));
    host.run_until(|_| false).unwrap();
    host
}

fn run_for(span: u64) -> Step {
    Step::Run(WORK, Span(span))
}

fn critical(span: u64) -> Vec<Step> {
    vec![Step::Lock(LOCK, HELD), Step::Run(HELD, Span(span)), Step::Unlock(LOCK)]
}

#[test]
fn threads_share_processors_in_order() {
    let mut host = run(Script::new(vec![vec![run_for(10)], vec![run_for(10)], vec![run_for(10)]]), 2);
    assert_eq!(host.now(), Time(20));
    let usage = host.usage();
    assert_eq!((usage.stages[0], usage.idle, usage.total()), (Span(30), Span(10), Span(40)));
}

#[test]
fn a_lock_is_held_by_one_and_the_others_spin() {
    let mut host = run(Script::new(vec![critical(10), critical(10), critical(10)]), 3);
    let usage = host.usage();
    assert_eq!((host.now(), usage.spin, usage.stages[1]), (Time(30), Span(10 + 20), Span(30)));
    let used = host.lock(LOCK).total();
    assert_eq!((used.acquisitions, used.contended, used.held, used.spun), (3, 2, Span(30), Span(30)));
    assert_eq!(host.lock(LOCK).callers[&HELD], used);
}

#[test]
fn a_lock_is_handed_over_more_slowly_the_more_processors_spin() {
    let script = Script::new(vec![critical(10), critical(10), critical(10)]);
    let contention = Contention { grant: Grant::Fifo, hand_over: Span(4), per_spinner: Span(3) };
    let mut host = run_with(script, 3, contention);
    // The second holder begins after 10 + 4 + 3, the third one 10 + 4 later: no other processor spins then.
    let usage = host.usage();
    assert_eq!((host.now(), usage.stages[1], usage.spin), (Time(41), Span(30), Span(17 + 31)));
    let used = host.lock(LOCK).total();
    assert_eq!((used.contended, used.held, used.spun), (2, Span(30), Span(17 + 31)));
    assert_eq!(usage.total(), Span(3 * 41));
}

#[test]
fn an_interrupt_waits_for_a_lock_and_not_for_a_thread() {
    for (steps, at) in [(vec![run_for(100)], 25), (critical(100), 105)] {
        let mut script = Script::new(vec![steps]);
        (script.times, script.interrupt) = (vec![20], vec![Step::Run(IRQ, Span(5))]);
        let mut host = run(script, 1);
        let ended = host.system().ended.clone();
        // The end of the thread is after its interrupt in either case.
        assert_eq!(ended[0], (Who::Interrupt(0), Time(at)));
        assert_eq!(ended[1], (Who::Thread(0), Time(105)));
        assert_eq!(host.usage().idle, Span(0));
    }
}

#[test]
fn bottom_halves_are_serial_and_a_processor_that_waits_for_another_is_busy() {
    // Two interrupts at once, on two processors of three; the thread keeps the third.
    let mut script = Script::new(vec![vec![run_for(1_000)]]);
    (script.times, script.marks) = (vec![100, 100, 100], true);
    (script.interrupt, script.bottom) = (vec![Step::Run(IRQ, Span(0))], vec![Step::Run(BOTTOM, Span(50))]);
    let mut host = run(script, 3);
    let ends: Vec<u64> =
        host.system().ended.iter().filter(|(who, _)| *who == Who::Bottom).map(|(_, at)| at.0).collect();
    // The third interrupt finds them marked.
    assert_eq!(ends, [150, 200]);
    let usage = host.usage();
    // The thread's own processor has no time to try again before it is done.
    assert_eq!((usage.stages[3], usage.stages[0]), (Span(100), Span(1_000)));
    assert_eq!(usage.retry, Span(50));
}

#[test]
fn a_thread_that_is_woken_before_it_sleeps_goes_on() {
    let mut script = Script::new(vec![vec![run_for(100), Step::Sleep, run_for(1)]]);
    (script.times, script.marks, script.wakes) = (vec![10], true, Some(0));
    assert_eq!(run(script, 1).now(), Time(101));
}

#[test]
fn threads_that_sleep_for_ever_are_an_error() {
    let script = Script::new(vec![vec![Step::Sleep], vec![run_for(1)]]);
    let mut host = Host::new(script, (1, 2), (4, 1, 4), (Contention::free(Grant::Fifo), 1));
    assert_eq!(host.run_until(|_| false), Err(Stuck(1)));
}

/// Random steps: no two hold the lock at once, no time of a processor is lost, and a seed gives one result.
#[test]
fn random_systems_keep_the_rules() {
    for seed in 0..200 {
        let outcome = |contention| {
            let mut rng = crate::rng::Rng::new(seed);
            let mut steps = |count: u64| -> Vec<Step> {
                (0..count)
                    .flat_map(|_| match rng.below(3) {
                        0 => critical(rng.below(30)),
                        _ => vec![run_for(rng.below(40))],
                    })
                    .collect()
            };
            let threads = (0..5).map(|_| steps(12)).collect();
            let mut script = Script::new(threads);
            (script.interrupt, script.bottom, script.marks) = (steps(2), steps(3), true);
            script.times = vec![7, 31, 31, 90];
            let mut host = run_with(script, 3, contention);
            let usage = host.usage();
            assert_eq!(usage.total(), Span(3 * host.now().0), "seed {seed}");
            let used = host.lock(LOCK).total();
            // What still holds or spins when the last thread has ended is not counted by the lock yet.
            assert!((0..30).contains(&usage.stages[1].0.wrapping_sub(used.held.0)), "seed {seed}");
            assert!(used.spun <= usage.spin && used.held.0 <= host.now().0, "seed {seed}");
            (host.now(), usage)
        };
        let slow = Contention { hand_over: Span(3), per_spinner: Span(2), ..Contention::free(Grant::Random) };
        assert_eq!(outcome(slow), outcome(slow), "seed {seed}");
        outcome(Contention::free(Grant::Random));
        outcome(Contention::free(Grant::Fifo));
    }
}
