//! Job files, section by section: the options of each job, with the lines that they come from.

use crate::complaint::{JobFileError, Place, Warning, quote};
use crate::engine;
use crate::lines::{self, At, Line};
use crate::option::{self, Meaning, Row};
use crate::surroundings::{self, Surroundings};
use crate::value::read::Reader;
use crate::value::{Kind, Value};
use std::path::Path;
use std::sync::Arc;

/// Most sections of all files.
const MOST_SECTIONS: usize = 1 << 16;
/// Most warnings that are kept.
const MOST_WARNINGS: usize = 1000;
/// In the place of a setting: there is none.
const UNSET: u32 = u32::MAX;

/// An option with the value that a line gives it.
#[derive(Debug, Clone)]
struct Setting {
    value: Value,
    at: At,
}

/// A section that is a job.
#[derive(Debug, Clone)]
pub struct Job {
    settings: Arc<Vec<Setting>>,
    /// By the number of the row, the number of the setting.
    chosen: Box<[u32]>,
    at: At,
    name: String,
    /// The first job of a file other than the first.
    new_file: bool,
}

impl Job {
    /// The job's name: that of its section, or `name=`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its section begins.
    pub fn place(&self) -> Place {
        self.at.place()
    }

    /// Whether it is the first job of another file, which waits for those of the files before.
    pub(crate) fn begins_file(&self) -> bool {
        self.new_file
    }

    fn setting(&self, number: usize) -> Option<&Setting> {
        self.settings.get(*self.chosen.get(number)? as usize)
    }

    /// The value that a line gives an option.
    pub fn given(&self, name: &str) -> Option<&Value> {
        let (number, _) = option::find(name)?;
        self.setting(number).map(|setting| &setting.value)
    }

    /// The line that gives an option its value.
    pub fn line_of(&self, name: &str) -> Option<Place> {
        let (number, _) = option::find(name)?;
        self.setting(number).map(|setting| setting.at.place())
    }

    /// The value of an option: that of its line, or fio's default. `None` where there is neither.
    pub fn value(&self, name: &str) -> Option<Value> {
        let (number, row) = option::find(name)?;
        match self.setting(number) {
            Some(setting) => Some(setting.value.clone()),
            None => row.default_value(),
        }
    }

    /// All options of the table that a job file may have, with their values.
    pub fn values(&self) -> impl Iterator<Item = (&'static Row, Option<Value>)> + '_ {
        let all = option::rows().enumerate().filter(|(_, row)| !row.is_refused());
        all.map(|(number, row)| match self.setting(number) {
            Some(setting) => (row, Some(setting.value.clone())),
            None => (row, row.default_value()),
        })
    }

    /// The options that lines of the file give, each with its row.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Row, &Value)> + '_ {
        option::rows().enumerate().filter_map(|(number, row)| self.setting(number).map(|s| (row, &s.value)))
    }

    /// The error that an option of this job is not possible, at its line or else at that of the section.
    pub fn refuse(
        &self,
        option: &str,
        problem: impl Into<String>,
        instead: impl Into<String>,
    ) -> JobFileError {
        let place = self.line_of(option).unwrap_or_else(|| self.place());
        JobFileError::new(place, problem, instead).of(option)
    }
}

/// What files of jobs say.
#[derive(Debug, Clone, Default)]
pub struct JobFile {
    /// The jobs, in the order of the files.
    pub jobs: Vec<Job>,
    /// What fio would read in another way, and what changes nothing here.
    pub warnings: Vec<Warning>,
}

/// Reads job files, one after the other.
///
/// # Errors
/// The first line that is wrong.
pub fn read(paths: &[impl AsRef<Path>], around: &dyn Surroundings) -> Result<JobFile, JobFileError> {
    let mut all = JobFile::default();
    for (path, number) in paths.iter().zip(0..) {
        let lines = lines::read(path.as_ref(), around)?;
        let mut file = File { around, settings: Vec::new(), warnings: &mut all.warnings };
        let drafts = file.sections(lines)?;
        let settings = Arc::new(file.settings);
        let first = all.jobs.len();
        all.jobs.extend(drafts.into_iter().map(|draft| Job {
            settings: Arc::clone(&settings),
            chosen: draft.chosen,
            at: draft.at,
            name: draft.name,
            new_file: false,
        }));
        if let Some(job) = all.jobs.get_mut(first) {
            job.new_file = number > 0;
        }
        if all.jobs.len() > MOST_SECTIONS {
            let place = Place { file: path.as_ref().to_owned(), line: 0 };
            let problem = format!("there are more than {MOST_SECTIONS} sections");
            return Err(JobFileError::new(place, problem, "give fewer, or numjobs="));
        }
    }
    Ok(all)
}

/// A job whose settings are not shared yet.
struct Draft {
    name: String,
    at: At,
    chosen: Box<[u32]>,
}

struct File<'a> {
    around: &'a dyn Surroundings,
    settings: Vec<Setting>,
    warnings: &'a mut Vec<Warning>,
}

impl File<'_> {
    fn sections(&mut self, lines: Vec<(At, Line)>) -> Result<Vec<Draft>, JobFileError> {
        let mut globals = vec![UNSET; option::count()].into_boxed_slice();
        let mut drafts = Vec::new();
        let mut lines = lines.into_iter().peekable();
        while let Some((at, line)) = lines.next() {
            let name = match line {
                Line::Section(name) => name,
                Line::Option { key, .. } => {
                    let error = JobFileError::new(
                        at.place(),
                        "no section comes before the option",
                        "write [global] or [NAME] above it",
                    );
                    return Err(error.of(&key));
                }
            };
            let mut own = Vec::new();
            while let Some((at, Line::Option { key, value, blanks })) =
                lines.next_if(|(_, line)| matches!(line, Line::Option { .. }))
            {
                own.push(Given { at, key, value, blanks });
            }
            if name.starts_with("global") {
                self.section(own, &mut globals)?;
                // As with fio, a name is that of one job.
                if let Some((row, _)) = option::find("name") {
                    globals[row] = UNSET;
                }
                continue;
            }
            let mut chosen = globals.clone();
            self.section(own, &mut chosen)?;
            if drafts.len() > MOST_SECTIONS {
                let problem = format!("there are more than {MOST_SECTIONS} sections");
                return Err(JobFileError::new(at.place(), problem, "give fewer, or numjobs="));
            }
            drafts.push(self.draft(name, at, chosen));
        }
        Ok(drafts)
    }

    /// As with fio, a job named like a device has it for its file, if it names none.
    fn draft(&mut self, section: String, at: At, mut chosen: Box<[u32]>) -> Draft {
        let value = |file: &Self, chosen: &[u32], name: &str| {
            let (number, _) = option::find(name)?;
            file.settings.get(chosen[number] as usize).map(|setting| setting.value.clone())
        };
        let name = match value(self, &chosen, "name") {
            Some(Value::Text(name)) => name,
            _ => section,
        };
        if let Some((row, _)) = option::find("filename")
            && chosen[row] == UNSET
            && !name.is_empty()
            && self.around.is_device(Path::new(&name))
        {
            chosen[row] = self.settings.len() as u32;
            self.settings.push(Setting { value: Value::Files(vec![name.clone()]), at: at.clone() });
        }
        Draft { name, at, chosen }
    }

    fn section(&mut self, own: Vec<Given>, chosen: &mut [u32]) -> Result<(), JobFileError> {
        // Numbers of the whole section depend on it, wherever it stands.
        let (first, rest): (Vec<Given>, Vec<Given>) =
            own.into_iter().partition(|given| given.key == "kb_base");
        for given in first.into_iter().chain(rest) {
            self.option(given, chosen)?;
        }
        Ok(())
    }

    fn option(&mut self, given: Given, chosen: &mut [u32]) -> Result<(), JobFileError> {
        let Given { at, key, value, blanks } = given;
        let wrong =
            |problem: String, instead: String| Err(JobFileError::new(at.place(), problem, instead).of(&key));
        let Some((number, row)) = option::find(&key) else {
            return wrong("fio has no such option".into(), guess(&key));
        };
        if let Meaning::Refused(instead) = row.meaning {
            return wrong("a job file may not have this option here".into(), instead.into());
        }
        let mut notes = Vec::new();
        let text = match value {
            None if row.kind == Kind::Flag => "1".to_owned(),
            None if row.kind == Kind::Label => String::new(),
            None => return wrong("the value is missing".into(), format!("give {}", row.kind.describe())),
            Some(value) => match surroundings::expand(&value, self.around, &mut notes) {
                Ok(text) => text,
                Err(problem) => return wrong(problem, format!("give {}", row.kind.describe())),
            },
        };
        if blanks {
            notes.push(by_blanks(row));
        }
        let mut reader = Reader::new(self.is_decimal(chosen));
        let before = self.settings.get(chosen[number] as usize).map(|setting| &setting.value);
        let value = match reader.value(row.kind, &text, before) {
            Ok(value) => value,
            Err(problem) if row.kind == Kind::Engine => return wrong(problem, engine::instead(&text).into()),
            Err(problem) => return wrong(problem, format!("give {}", row.kind.describe())),
        };
        notes.append(&mut reader.notes);
        let value = added(row, value, before, &mut notes);
        for message in notes {
            self.warn(&at, &key, message);
        }
        self.set(number, value, at, chosen);
        Ok(())
    }

    /// Takes over a value; an option that is the opposite of another sets both.
    fn set(&mut self, row: usize, value: Value, at: At, chosen: &mut [u32]) {
        let name = option::rows().nth(row).map_or("", |row| row.name);
        let other = match (name, &value) {
            ("rwmixread", Value::Integer(n)) => Some(("rwmixwrite", Value::Integer(100 - n))),
            ("rwmixwrite", Value::Integer(n)) => Some(("rwmixread", Value::Integer(100 - n))),
            ("direct", Value::Switch(on)) => Some(("buffered", Value::Switch(!on))),
            ("buffered", Value::Switch(on)) => Some(("direct", Value::Switch(!on))),
            _ => None,
        };
        if let Some((other, value)) = other
            && let Some((row, _)) = option::find(other)
        {
            chosen[row] = self.settings.len() as u32;
            self.settings.push(Setting { value, at: at.clone() });
        }
        chosen[row] = self.settings.len() as u32;
        self.settings.push(Setting { value, at });
    }

    fn is_decimal(&self, chosen: &[u32]) -> bool {
        let base = option::find("kb_base").and_then(|(row, _)| self.settings.get(chosen[row] as usize));
        base.is_some_and(|setting| setting.value == Value::Word("1000"))
    }

    fn warn(&mut self, at: &At, key: &str, message: String) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(Warning { place: at.place(), option: Some(quote(key)), message });
        }
    }
}

/// An option as its line has it.
struct Given {
    at: At,
    key: String,
    value: Option<String>,
    blanks: bool,
}

/// Names of files are added to those that there are, as with fio.
fn added(row: &Row, value: Value, before: Option<&Value>, notes: &mut Vec<String>) -> Value {
    match (value, before) {
        (Value::Files(new), Some(Value::Files(old))) if row.name == "filename" => {
            notes.push(format!(
                "added to {} of an earlier line, as fio does: the job has all of them",
                quote(&old.join(":"))
            ));
            Value::Files(old.iter().cloned().chain(new).take(crate::value::read::MOST_FILES).collect())
        }
        (value, _) => value,
    }
}

/// What fio makes of blanks before a value.
fn by_blanks(row: &Row) -> String {
    let fio = match row.kind {
        Kind::Text | Kind::Label | Kind::Files => "fio would take them as a part of the value",
        Kind::Word(_) | Kind::Access | Kind::Engine | Kind::Distribution | Kind::Steady => {
            "fio would refuse the line"
        }
        Kind::Time(_) | Kind::TimeRange => "fio would leave the unit out of account",
        _ => "fio would silently leave out a suffix such as k",
    };
    format!("the blanks after = are left out here; {fio}")
}

fn guess(key: &str) -> String {
    match option::nearest(key) {
        Some(name) => format!("did you mean {name}?"),
        None => "docs/from-fio.md lists the options".into(),
    }
}

#[cfg(test)]
mod tests;
