//! Makes the loss of a finding smaller.

use super::{Cut, Options};
use crate::check::Verdict;
use crate::recording::Recording;
use crate::volume::{Lost, Volume};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most states that are tried.
const TRIES: u64 = 300;

struct Shrink<'r> {
    volume: Volume<'r>,
    lines: Vec<u8>,
    options: &'r Options,
    stop: &'r AtomicBool,
    tries: u64,
    best: Lost,
    verdict: Verdict,
}

impl Shrink<'_> {
    /// Loses less, if that fails in the same way.
    fn without(&mut self, kept: &Lost) -> io::Result<bool> {
        let mut lost = &self.best - kept;
        self.volume.close(&mut lost);
        let is_smaller = lost.len() < self.best.len();
        if !is_smaller || self.tries >= TRIES || self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.tries += 1;
        let verdict = self.options.check.run(&self.volume.without(&lost), &self.lines, self.stop)?;
        let same = verdict.is_like(&self.verdict);
        if same {
            (self.best, self.verdict) = (lost, verdict);
        }
        Ok(same)
    }

    /// Takes back ever smaller groups of what is lost.
    fn groups(&mut self, mut groups: Vec<Lost>) -> io::Result<()> {
        let mut size = groups.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < groups.len() {
                let end = (at + size).min(groups.len());
                let kept: Lost = groups[at..end].iter().flatten().copied().collect();
                if self.without(&kept)? {
                    groups.drain(at..end);
                } else {
                    at = end;
                }
            }
            if size == 1 {
                return Ok(());
            }
            size = size.div_ceil(2);
        }
    }
}

/// The smallest loss of the same cut that fails in the same way, as far as was tried.
pub(super) fn shrink(
    recording: &Recording,
    options: &Options,
    cut: Cut,
    verdict: Verdict,
    stop: &AtomicBool,
) -> io::Result<(Cut, Verdict, u64)> {
    let volume = Volume::after(recording, options.semantics, cut.steps);
    let lines = recording.lines(cut.steps);
    let mut work = Shrink { volume, lines, options, stop, tries: 0, best: cut.lost, verdict };
    let steps: BTreeSet<usize> = work.best.iter().map(|(step, _)| *step).collect();
    // The last changes first, because some cannot survive without the ones before.
    let of = |step: &usize| work.best.range((*step, 0)..(*step + 1, 0)).copied().collect::<Lost>();
    let groups: Vec<Lost> = steps.iter().rev().map(of).collect();
    work.groups(groups)?;
    let parts: Vec<Lost> = work.best.iter().rev().map(|part| Lost::from([*part])).collect();
    work.groups(parts)?;
    Ok((Cut { steps: cut.steps, lost: work.best }, work.verdict, work.tries))
}
