//! The lines of job files, with those of the files that they include.

use crate::complaint::{JobFileError, Place, quote};
use crate::surroundings::Surroundings;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deepest nesting of includes.
const MOST_DEPTH: usize = 16;
/// Longest line, in bytes.
const MOST_LINE: usize = 64 << 10;
/// Most bytes of a job file with all that it includes.
const MOST_BYTES: usize = 16 << 20;

/// Where a line is, without a copy of the file's name.
#[derive(Debug, Clone)]
pub(crate) struct At {
    file: Arc<PathBuf>,
    line: u32,
}

impl At {
    pub(crate) fn place(&self) -> Place {
        Place { file: self.file.to_path_buf(), line: self.line }
    }
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// `[NAME]`.
    Section(String),
    /// `KEY` or `KEY=VALUE`, with the blanks before the value.
    Option { key: String, value: Option<String>, blanks: bool },
}

/// All lines that say something.
pub(crate) fn read(path: &Path, around: &dyn Surroundings) -> Result<Vec<(At, Line)>, JobFileError> {
    let mut reading = Reading { around, open: Vec::new(), lines: Vec::new(), bytes: 0 };
    reading.file(path, None)?;
    Ok(reading.lines)
}

struct Reading<'a> {
    around: &'a dyn Surroundings,
    /// The files that are being read, the outermost first.
    open: Vec<PathBuf>,
    lines: Vec<(At, Line)>,
    bytes: usize,
}

impl Reading<'_> {
    fn file(&mut self, path: &Path, from: Option<&At>) -> Result<(), JobFileError> {
        let place = || from.map_or_else(|| Place { file: path.to_owned(), line: 0 }, At::place);
        let shown = quote(&path.display().to_string());
        if self.open.iter().any(|open| open == path) {
            return Err(JobFileError::new(
                place(),
                format!("{shown} includes itself"),
                "leave the include line out",
            ));
        }
        if self.open.len() > MOST_DEPTH {
            let problem = format!("includes are nested more than {MOST_DEPTH} deep");
            return Err(JobFileError::new(place(), problem, "include fewer files from each other"));
        }
        let bytes = self.around.read(path).map_err(|error| {
            JobFileError::new(
                place(),
                format!("{shown} cannot be read: {error}"),
                "give the path of a job file",
            )
        })?;
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MOST_BYTES {
            let problem =
                format!("the job file has more than {} MiB with all that it includes", MOST_BYTES >> 20);
            return Err(JobFileError::new(place(), problem, "give less in one run"));
        }
        let file = Arc::new(path.to_owned());
        self.open.push(path.to_owned());
        for (line, number) in bytes.split(|&b| b == b'\n').zip(1..) {
            self.line(line, At { file: Arc::clone(&file), line: number }, from.is_some())?;
        }
        self.open.pop();
        Ok(())
    }

    fn line(&mut self, bytes: &[u8], at: At, included: bool) -> Result<(), JobFileError> {
        if bytes.len() > MOST_LINE {
            let problem = format!("the line has {} bytes", bytes.len());
            return Err(JobFileError::new(at.place(), problem, format!("a line has at most {MOST_LINE}")));
        }
        let Ok(text) = core::str::from_utf8(bytes) else {
            return Err(JobFileError::new(at.place(), "the line is not UTF-8", "save the file as UTF-8"));
        };
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c.is_ascii_control());
        if text.is_empty() || text.starts_with([';', '#']) {
            return Ok(());
        }
        if let Some(rest) = text.strip_prefix('[') {
            return self.section(rest, at, included);
        }
        if let Some(name) = text.strip_prefix("include")
            && name.starts_with(|c: char| c.is_ascii_whitespace())
        {
            return self.include(name.trim_start(), &at);
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value)),
            None => (text, None),
        };
        if key.is_empty() {
            return Err(JobFileError::new(
                at.place(),
                "the line has no option before =",
                "write OPTION=VALUE",
            ));
        }
        // fio takes a comment behind a word without a value as a part of the word.
        let key = if value.is_none() { key.split([';', '#']).next().unwrap_or(key).trim_end() } else { key };
        let blanks = value.is_some_and(|value| value.starts_with(|c: char| c.is_ascii_whitespace()));
        let value = value.map(|value| value.trim().to_owned());
        self.lines.push((at, Line::Option { key: key.to_owned(), value, blanks }));
        Ok(())
    }

    fn section(&mut self, rest: &str, at: At, included: bool) -> Result<(), JobFileError> {
        if included {
            let problem = format!("[{} is in a file that is included", quote(rest));
            return Err(JobFileError::new(
                at.place(),
                problem,
                "an included file has only options; they belong to the section that includes it",
            ));
        }
        let Some((name, _)) = rest.split_once(']') else {
            let problem =
                format!("the ] of the section [{} is missing; fio would silently skip the line", quote(rest));
            return Err(JobFileError::new(at.place(), problem, "write [NAME]"));
        };
        if name.len() > 255 {
            let problem = format!("the name of the section has {} bytes", name.len());
            return Err(JobFileError::new(at.place(), problem, "a name has at most 255"));
        }
        self.lines.push((at, Line::Section(name.to_owned())));
        Ok(())
    }

    /// The path as it is, otherwise beside the file that includes it.
    fn include(&mut self, name: &str, at: &At) -> Result<(), JobFileError> {
        if name.is_empty() {
            return Err(JobFileError::new(at.place(), "include has no file", "write include FILE"));
        }
        let given = PathBuf::from(name);
        let beside = at.file.parent().map(|dir| dir.join(name)).filter(|beside| *beside != given);
        match beside {
            Some(beside) if self.around.read(&given).is_err() => self.file(&beside, Some(at)),
            _ => self.file(&given, Some(at)),
        }
    }
}
