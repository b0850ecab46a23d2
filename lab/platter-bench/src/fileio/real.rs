//! Threads in real time.

use super::engine::Engine;
use super::hand::{Hand, source};
use super::plan::Plan;
use super::report::Measured;
use super::requests::Requests;
use super::tally::Tally;
use super::{FileioError, Hooks, Progress};
use crate::io::StartGate;
use crate::io::Usage;
use platter_block::time::Time;
use platter_disk::clock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(200);

/// Opens the way of a thread to the files; called on that thread.
pub(super) type Open<'a> = dyn Fn(u32) -> Result<Box<dyn Engine>, FileioError> + Sync + 'a;

/// The state that the threads share.
struct Shared<'a> {
    plan: &'a Plan,
    open: &'a Open<'a>,
    requests: Mutex<Requests>,
    gate: StartGate,
    /// The time up to which requests are started; set before the gate opens.
    until: AtomicU64,
    cancel: &'a AtomicBool,
    failed: AtomicBool,
    done: AtomicU64,
}

/// Lets all threads of a plan work, each by its own way.
pub(super) fn run(plan: &Plan, open: &Open<'_>, mut hooks: Hooks<'_>) -> Result<Measured, FileioError> {
    let shared = Shared {
        plan,
        open,
        requests: Mutex::new(Requests::new(plan)),
        gate: StartGate::default(),
        until: AtomicU64::new(u64::MAX),
        cancel: hooks.cancel,
        failed: AtomicBool::new(false),
        done: AtomicU64::new(0),
    };
    let (send, ready) = channel();
    std::thread::scope(|scope| {
        let mut threads: Vec<ScopedJoinHandle<'_, _>> = Vec::with_capacity(plan.threads as usize);
        let mut refused = None;
        for number in 0..plan.threads {
            let (shared, send) = (&shared, send.clone());
            let builder = Builder::new().name(format!("fileio{number}"));
            match builder.spawn_scoped(scope, move || work(shared, number, &send)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    refused = Some(FileioError::Thread(error));
                    break;
                }
            }
        }
        drop(send);
        // A thread that cannot begin hangs up instead.
        let all_ready = refused.is_none() && (0..threads.len()).all(|_| ready.recv() == Ok(true));
        let (begin, usage) = (clock::now(), Usage::now());
        if let Some(time) = plan.time {
            shared.until.store((begin + time).0, Relaxed);
        }
        shared.gate.open(all_ready);
        watch(&shared, &mut hooks, || ready.recv_timeout(TICK).err() == Some(RecvTimeoutError::Disconnected));
        let (mut tally, mut end, mut failure) = (Tally::new(), begin, refused);
        for thread in threads {
            match thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok((theirs, ended)) => {
                    tally.merge(&theirs);
                    end = end.max(ended);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Measured {
                ns: end.since(begin).0,
                simulated: None,
                tally,
                usage: Usage::now().since(&usage),
                interrupted: shared.cancel.load(Relaxed),
            }),
        }
    })
}

/// Reports progress until all threads have ended.
fn watch(shared: &Shared<'_>, hooks: &mut Hooks<'_>, mut is_over: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_over() {
        if let Some(progress) = &mut hooks.progress {
            let (elapsed, requests) = (began.elapsed(), shared.done.load(Relaxed));
            progress(&Progress { elapsed, simulated: None, requests });
        }
    }
}

/// The body of a thread; returns its results and when it ended.
fn work(shared: &Shared<'_>, number: u32, ready: &Sender<bool>) -> Result<(Tally, Time), FileioError> {
    let opened = (shared.open)(number);
    // The receiver outlives all senders.
    let _ = ready.send(opened.is_ok());
    let mut engine = opened?;
    let mut hand = Hand::new(shared.plan, number);
    if shared.gate.wait() {
        let worked = turns(shared, engine.as_mut(), &mut hand);
        shared.failed.fetch_or(worked.is_err(), Relaxed);
        worked?;
    }
    Ok((hand.tally, clock::now()))
}

fn turns(shared: &Shared<'_>, engine: &mut dyn Engine, hand: &mut Hand) -> Result<(), FileioError> {
    let until = Time(shared.until.load(Relaxed));
    let mut done = Vec::new();
    let mut now = Time::default();
    loop {
        if shared.cancel.load(Relaxed) || shared.failed.load(Relaxed) {
            hand.stop();
        } else if now >= until {
            hand.finish();
        }
        while let Some((slot, request)) = hand.next(source(&shared.requests, hand.thread())) {
            hand.started(slot, clock::now());
            engine.start(slot, request)?;
        }
        if hand.out() == 0 {
            return Ok(());
        }
        engine.wait(&mut done)?;
        now = clock::now();
        shared.done.fetch_add(done.len() as u64, Relaxed);
        for slot in done.drain(..) {
            if let Some(next) = hand.landed(slot, now) {
                engine.start(slot, next)?;
            }
        }
    }
}
