//! What was measured in several runs, from files and directories.

use super::run::{Figures, Run};
use super::{fio, ours};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file that is read.
const LARGEST: u64 = 256 << 20;

/// Why results cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is no result, or one that cannot be used.
    #[error("{}: {why}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Two sides have nothing in common.
    #[error(
        "{base} and {new} have no figure of one job in common: {base} has {base_has}, {new} has {new_has}"
    )]
    Nothing {
        /// Name of the base.
        base: String,
        /// Name of the other side.
        new: String,
        /// The jobs and directions of the base.
        base_has: String,
        /// Those of the other side.
        new_has: String,
    },
    /// Runs that are to be compared in pairs are not as many on both sides.
    #[error("--paired needs as many runs on both sides: {base} has {base_runs}, {new} has {new_runs}")]
    Unpaired {
        /// Name of the base.
        base: String,
        /// Name of the other side.
        new: String,
        /// Runs of the base.
        base_runs: usize,
        /// Runs of the other side.
        new_runs: usize,
    },
}

/// What was measured in several runs.
#[derive(Debug, Clone)]
pub struct Side {
    /// The path that was given.
    pub name: String,
    /// The runs, in order.
    pub runs: Vec<Run>,
}

impl Side {
    /// Reads a file of results, or all `.json` files of a directory in the order of their names.
    ///
    /// # Errors
    /// What cannot be read; what is no result, or one of a run that failed or was interrupted.
    pub fn read(path: &Path) -> Result<Side, CompareError> {
        let cannot = |path: &Path, source| CompareError::Read { path: path.to_owned(), source };
        let mut files = vec![path.to_owned()];
        if fs::metadata(path).map_err(|source| cannot(path, source))?.is_dir() {
            let entries = fs::read_dir(path).map_err(|source| cannot(path, source))?;
            let entries: Result<Vec<_>, _> = entries.collect();
            let entries =
                entries.map_err(|source| cannot(path, source))?.into_iter().map(|entry| entry.path());
            files = entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
            files.sort();
        }
        let mut runs = Vec::new();
        for file in &files {
            read_file(file, &mut runs)?;
        }
        if runs.is_empty() {
            let why = "it has no results; give files of `platter bench io --json` or `fio --output-format=json`, or a \
                       directory of such files with names that end in .json";
            return Err(CompareError::Content { path: path.to_owned(), why: why.to_owned() });
        }
        Ok(Side { name: path.display().to_string(), runs })
    }

    /// The figures of a job in each run that has them.
    pub(super) fn of<'s>(&'s self, key: &'s Key) -> impl Iterator<Item = &'s Figures> {
        self.runs.iter().filter_map(move |run| run.figures.iter().find(|figures| key.is_of(figures)))
    }

    /// The jobs and directions, in the order of the first run that has them.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for figures in self.runs.iter().flat_map(|run| &run.figures) {
            let key = Key { job: figures.job.clone(), direction: figures.direction.clone() };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

/// Names the figures of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) job: String,
    pub(super) direction: String,
}

impl Key {
    fn is_of(&self, figures: &Figures) -> bool {
        self.job == figures.job && self.direction == figures.direction
    }

    pub(super) fn text(&self) -> String {
        match self.job.is_empty() {
            true => self.direction.clone(),
            false => format!("{} {}", self.job, self.direction),
        }
    }
}

/// Appends the runs of a file: one JSON value, several behind each other, or an array of them.
fn read_file(path: &Path, runs: &mut Vec<Run>) -> Result<(), CompareError> {
    let wrong = |why: String| CompareError::Content { path: path.to_owned(), why };
    let cannot = |source| CompareError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // Not what its size says: that of a pipe or of a device is 0.
    let file = File::open(path).map_err(cannot)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(wrong(format!("it has more than {LARGEST} bytes, which is all that is read")));
    }
    // fio may print warnings before its object.
    let is_start = |&at: &usize| matches!(bytes[at], b'{' | b'[') && (at == 0 || bytes[at - 1] == b'\n');
    let Some(begin) = (0..bytes.len()).find(is_start) else {
        return Err(wrong("it has no JSON object; use --json (of fio: --output-format=json)".to_owned()));
    };
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_slice(&bytes[begin..]).into_iter::<Value>() {
        let value = value.map_err(|error| wrong(format!("it is no JSON from byte {begin} on: {error}")))?;
        add(value, &mut found).map_err(wrong)?;
    }
    let several = found.len() > 1;
    runs.extend(found.into_iter().zip(1u32..).map(|(run, number)| {
        let source = path.display().to_string();
        Run { source: if several { format!("{source} run {number}") } else { source }, ..run }
    }));
    Ok(())
}

fn add(value: Value, runs: &mut Vec<Run>) -> Result<(), String> {
    match value {
        Value::Array(values) => values.into_iter().try_for_each(|value| add(value, runs)),
        Value::Object(mut object) if object.contains_key("runs") && !object.contains_key("iops") => {
            object.remove("runs").map_or(Ok(()), |inner| add(inner, runs))
        }
        Value::Object(object) if object.contains_key("fio version") => {
            fio::run(&object).map(|run| runs.push(run))
        }
        Value::Object(object) if object.contains_key("iops") || object.contains_key("groups") => {
            ours::run(&object).map(|run| runs.push(run))
        }
        Value::Object(object) if object.contains_key("client_stats") => {
            fio::run(&object).map(|run| runs.push(run))
        }
        _ => Err("it is neither a result of `platter bench io --json` nor one of fio (--output-format=json)"
            .to_owned()),
    }
}
