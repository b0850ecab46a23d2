//! Cuts power at the points of a recorded run, and has each state checked that may be left.

use crate::check::{Check, Verdict};
use crate::recording::Recording;
use crate::tree::Tree;
use crate::volume::{Lost, Semantics, Volume};
use platter_sim::rng::Rng;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

mod shrink;

/// Changes of which each is lost alone and kept alone.
const EACH: usize = 12;

/// What to try.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules of the file system.
    pub semantics: Semantics,
    /// Decides what is lost where not everything can be tried, and which cuts are chosen.
    pub seed: u64,
    /// Number of cuts, chosen by the seed; `None` for all.
    pub cuts: Option<u64>,
    /// Random selections of lost parts at each cut.
    pub tries: u64,
    /// Checks at the same time.
    pub jobs: usize,
    /// The check.
    pub check: Check,
}

/// A power cut, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of steps that were made before.
    pub steps: usize,
    /// What they lose.
    pub lost: Lost,
}

/// A cut after which the check fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The smallest loss that was found to lead to it.
    pub cut: Cut,
    /// What the check found then.
    pub verdict: Verdict,
    /// Number of states that were tried to make the loss smaller.
    pub shrink_tries: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Points at which power was cut.
    pub cuts: u64,
    /// Different states that were checked.
    pub states: u64,
    /// States that were as another one, with the same acknowledged lines.
    pub equal: u64,
    /// The first finding.
    pub found: Option<Finding>,
    /// The user asked to stop, so not all was tried.
    pub interrupted: bool,
}

/// One state to check.
struct Task {
    index: u64,
    cut: Cut,
    tree: Tree,
}

/// Makes the states, one after the other; the same ones for the same recording and options.
struct Producer<'r> {
    recording: &'r Recording,
    options: &'r Options,
    volume: Volume<'r>,
    /// Next cut.
    steps: usize,
    chosen: Option<BTreeSet<usize>>,
    /// What to try at the cut before.
    losses: Vec<Lost>,
    seen: HashSet<(u128, usize)>,
    lines: usize,
    next: u64,
    report: Report,
}

impl<'r> Producer<'r> {
    fn new(recording: &'r Recording, options: &'r Options) -> Producer<'r> {
        let all = recording.steps.len() as u64 + 1;
        let chosen = options.cuts.filter(|cuts| *cuts < all).map(|cuts| {
            let mut rng = Rng::stream(options.seed, u64::MAX);
            let mut chosen = BTreeSet::new();
            while (chosen.len() as u64) < cuts {
                chosen.insert(rng.below(all) as usize);
            }
            chosen
        });
        Producer {
            recording,
            options,
            volume: Volume::new(recording, options.semantics),
            steps: 0,
            chosen,
            losses: Vec::new(),
            seen: HashSet::new(),
            lines: 0,
            next: 0,
            report: Report::default(),
        }
    }

    /// Goes on to the next cut. `false`: there is none.
    fn next_cut(&mut self) -> bool {
        loop {
            if self.steps > self.recording.steps.len() {
                return false;
            }
            if self.steps > 0 {
                let step = &self.recording.steps[self.steps - 1];
                self.volume.advance(&step.change);
                self.lines = self.recording.lines(self.steps).len();
            }
            self.steps += 1;
            if self.chosen.as_ref().is_none_or(|chosen| chosen.contains(&(self.steps - 1))) {
                self.report.cuts += 1;
                self.losses = losses(&self.volume, self.options, self.steps - 1);
                self.losses.reverse();
                return true;
            }
        }
    }

    fn next_task(&mut self) -> Option<Task> {
        loop {
            let Some(lost) = self.losses.pop() else {
                if self.next_cut() {
                    continue;
                }
                return None;
            };
            let tree = self.volume.without(&lost);
            if !self.seen.insert((tree.fingerprint(), self.lines)) {
                self.report.equal += 1;
                continue;
            }
            self.report.states += 1;
            self.next += 1;
            return Some(Task { index: self.next, cut: Cut { steps: self.steps - 1, lost }, tree });
        }
    }
}

/// What to lose at a cut: everything, nothing, each change alone and all but each one, the last write in part, and random parts.
fn losses(volume: &Volume<'_>, options: &Options, steps: usize) -> Vec<Lost> {
    let everything = volume.everything();
    let mut all = vec![everything.clone(), Lost::new()];
    let changes: BTreeSet<usize> = everything.iter().map(|(step, _)| *step).collect();
    let of = |step: usize| everything.range((step, 0)..(step + 1, 0)).copied().collect::<Lost>();
    for step in changes.iter().rev().take(EACH) {
        let one = of(*step);
        all.push(&everything - &one);
        if one.len() > 2 {
            // Its length is there and its data is not; its first half is.
            all.push(one.iter().copied().take(one.len() - 1).collect());
            all.push(one.iter().copied().take((one.len() - 1) / 2).collect());
            all.push(one.iter().copied().skip((one.len() - 1) / 2).take(one.len().div_ceil(2)).collect());
        } else if one.len() == 2 {
            all.push(one.iter().copied().take(1).collect());
        }
        all.push(one);
    }
    let mut rng = Rng::stream(options.seed, steps as u64);
    for _ in 0..options.tries {
        let chance = rng.pick(&[125_000, 500_000, 875_000]);
        let by_part = rng.chance(500_000);
        all.push(match by_part {
            true => everything.iter().copied().filter(|_| rng.chance(chance)).collect(),
            false => changes.iter().filter(|_| rng.chance(chance)).flat_map(|step| of(*step)).collect(),
        });
    }
    let mut seen = HashSet::new();
    all.iter_mut().for_each(|lost| volume.close(lost));
    all.retain(|lost| seen.insert(lost.clone()));
    all
}

/// What the workers share.
struct Shared<'r> {
    producer: Mutex<Producer<'r>>,
    /// A state was found, or something failed: no further one is begun.
    over: AtomicBool,
}

type Found = (u64, Cut, io::Result<Verdict>);

fn work(shared: &Shared<'_>, options: &Options, stop: &AtomicBool, found: &Sender<Option<Found>>) {
    loop {
        let (task, lines) = {
            let mut producer = shared.producer.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                return;
            }
            let Some(task) = producer.next_task() else { return };
            let lines = producer.recording.lines(task.cut.steps);
            (task, lines)
        };
        let verdict = options.check.run(&task.tree, &lines, stop);
        let result = match verdict {
            Ok(Verdict::Good) => None,
            verdict => {
                shared.over.store(true, Ordering::Relaxed);
                Some((task.index, task.cut, verdict))
            }
        };
        // The receiver outlives the workers.
        let _ = found.send(result);
    }
}

/// Checks all states, or those up to the first one that is found; `progress` gets the number of those checked so far.
///
/// # Errors
/// A directory cannot be made, or the check not be started.
pub fn explore(
    recording: &Recording,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Report> {
    let shared =
        Shared { producer: Mutex::new(Producer::new(recording, options)), over: AtomicBool::new(false) };
    let mut first: Option<Found> = None;
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..options.jobs.max(1) {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || work(shared, options, stop, &sender));
        }
        drop(sender);
        let mut done = 0;
        for result in receiver {
            done += 1;
            progress(done);
            // The first state, whichever worker was faster.
            first = first.take().into_iter().chain(result).min_by_key(|(index, ..)| *index);
        }
    });
    let producer = shared.producer.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut report = producer.report;
    if let Some((index, cut, verdict)) = first {
        let verdict = verdict?;
        report.states = index;
        report.cuts = match options.cuts {
            Some(_) => report.cuts,
            None => cut.steps as u64 + 1,
        };
        if verdict != Verdict::Stopped {
            let (smaller, verdict, shrink_tries) = shrink::shrink(recording, options, cut, verdict, stop)?;
            report.found = Some(Finding { cut: smaller, verdict, shrink_tries });
        }
    }
    report.interrupted = stop.load(Ordering::Relaxed);
    Ok(report)
}

/// Checks the state that one cut leaves.
///
/// # Errors
/// As [`explore`].
pub fn replay(
    recording: &Recording,
    semantics: Semantics,
    cut: &Cut,
    check: &Check,
    stop: &AtomicBool,
) -> io::Result<Verdict> {
    let volume = Volume::after(recording, semantics, cut.steps);
    let mut lost = cut.lost.clone();
    volume.close(&mut lost);
    check.run(&volume.without(&lost), &recording.lines(cut.steps), stop)
}
