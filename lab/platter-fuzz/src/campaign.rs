//! Many runs of a target: on the corpus, on generated inputs, and on mutations of both.

use crate::edges::{self, Seen};
use crate::input_name::name_of;
use crate::rng::Rng;
use crate::run::{Target, Verdict, run};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An input that exposes a bug.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The run, which the seed and the corpus repeat; `None` for an input of the corpus itself.
    pub run: Option<u64>,
    /// The input.
    pub input: Vec<u8>,
    /// The error.
    pub wrong: String,
}

/// Counts of the runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Inputs that were accepted.
    pub accepted: u64,
    /// Most bytes of memory.
    pub peak: usize,
    /// Branches that were taken, if branches are counted.
    pub edges: usize,
}

/// Runs of one target.
pub struct Campaign<'a> {
    target: &'a Target,
    seed: u64,
    corpus: Vec<Vec<u8>>,
    seen: Seen,
    /// The folder for inputs that take new branches.
    keep: Option<PathBuf>,
    tally: Tally,
}

/// The folder of the committed corpora.
pub fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The inputs in a folder, in the order of their names; none if it is missing.
///
/// # Errors
/// An input cannot be read.
pub fn inputs_in(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(fs::read).collect()
}

impl<'a> Campaign<'a> {
    /// Runs of `target` from a corpus.
    pub fn new(target: &'a Target, seed: u64, corpus: Vec<Vec<u8>>) -> Campaign<'a> {
        Campaign { target, seed, corpus, seen: Seen::default(), keep: None, tally: Tally::default() }
    }

    /// Keeps inputs that take new branches in a folder.
    #[must_use]
    pub fn keeping(mut self, folder: PathBuf) -> Campaign<'a> {
        self.keep = Some(folder);
        self
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        Tally { edges: self.seen.len(), ..self.tally }
    }

    /// The input of a run.
    pub fn input(&self, run: u64) -> Vec<u8> {
        let mut rng = Rng::of(self.seed, self.target.name, run);
        let mut input = match self.corpus.len() {
            0 => (self.target.generate)(&mut rng),
            _ if rng.one_in(3) => (self.target.generate)(&mut rng),
            len => self.corpus[rng.index(len)].clone(),
        };
        let changes = if rng.one_in(8) { 0 } else { 1 + rng.below(rng_most(run)) };
        for _ in 0..changes {
            let other = match self.corpus.len() {
                0 => (self.target.generate)(&mut rng),
                len => self.corpus[rng.index(len)].clone(),
            };
            (self.target.mutate)(&mut rng, &mut input, &other);
        }
        input
    }

    fn once(&mut self, number: Option<u64>, input: Vec<u8>) -> Result<(), Finding> {
        let counted = edges::are_counted();
        if counted {
            edges::clear();
        }
        let (verdict, usage) = match run(self.target, &input) {
            Ok(told) => told,
            Err(wrong) => return Err(Finding { run: number, input, wrong }),
        };
        self.tally.runs += 1;
        self.tally.accepted += u64::from(verdict == Verdict::Accepted);
        self.tally.peak = self.tally.peak.max(usage.peak);
        if counted && self.seen.add(&edges::taken()) && number.is_some() {
            if let Some(folder) = &self.keep {
                // An input that cannot be saved is only lost to later runs.
                let _ =
                    fs::create_dir_all(folder).and_then(|()| fs::write(folder.join(name_of(&input)), &input));
            }
            self.corpus.push(input);
        }
        Ok(())
    }

    /// Runs every input of the corpus as it is.
    ///
    /// # Errors
    /// An input that exposes a bug.
    pub fn replay(&mut self) -> Result<(), Finding> {
        self.corpus.clone().into_iter().try_for_each(|input| self.once(None, input))
    }

    /// Runs from number `first` on, while `go_on` returns true. Returns the number of the next run.
    ///
    /// # Errors
    /// An input that exposes a bug.
    pub fn runs(&mut self, first: u64, mut go_on: impl FnMut(u64) -> bool) -> Result<u64, Finding> {
        let mut run = first;
        while go_on(run) {
            let input = self.input(run);
            self.once(Some(run), input)?;
            run += 1;
        }
        Ok(run)
    }
}

/// Most mutations of an input: usually few, sometimes many.
fn rng_most(run: u64) -> u64 {
    if run.is_multiple_of(16) { 32 } else { 4 }
}

/// Shrinks an input that exposes a bug; tries at most `tries` inputs.
pub fn shrink(target: &Target, finding: Finding, tries: u32) -> Finding {
    let mut best = finding;
    let mut left = tries;
    let mut piece = best.input.len() / 2;
    while piece > 0 && left > 0 {
        let mut at = 0;
        while at < best.input.len() && left > 0 {
            let mut smaller = best.input.clone();
            smaller.drain(at..(at + piece).min(smaller.len()));
            left -= 1;
            match run(target, &smaller) {
                Err(wrong) => best = Finding { input: smaller, wrong, ..best },
                Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    best
}

/// Most inputs of a committed corpus, and bytes of one.
const MOST_KEPT: usize = 40;
const MOST_KEPT_LEN: usize = 16 << 10;

/// Selects the few of `inputs` that together take most of the branches: repeatedly the one that adds the most
/// branches, and among equals the shortest.
pub fn minimised(target: &Target, mut inputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    inputs.retain(|input| input.len() <= MOST_KEPT_LEN);
    let places = |input: &[u8]| {
        edges::clear();
        run(target, input).ok().map(|_| edges::places(&edges::taken()))
    };
    let mut left: Vec<_> = inputs.into_iter().filter_map(|input| Some((places(&input)?, input))).collect();
    let (mut seen, mut kept) = (Seen::default(), Vec::new());
    while kept.len() < MOST_KEPT {
        let gains = left.iter().map(|(places, _)| seen.new_in(places));
        let best = gains.zip((0..left.len()).rev()).max().filter(|(gain, _)| *gain > 0);
        let Some((_, from_end)) = best else { break };
        let (places, input) = left.remove(left.len() - 1 - from_end);
        seen.add(&places);
        kept.push(input);
    }
    kept
}
