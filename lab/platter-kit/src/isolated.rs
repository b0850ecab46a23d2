//! Trials in processes of their own, so that a crash of one is a finding and not the end of the run.

use super::trace::{Taken, Trace};
use super::trial::{Cut, Stage, Trial};
use super::{Flushes, Kit, Outcome};
use platter_block::bio::Op;
use platter_sim::power::{Lost, Survivors};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// How a process for one trial is made: this program is started again, and its [isolated](Kit::isolated) run of the same name
/// carries out the trial instead of the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    name: String,
    arguments: Vec<OsString>,
}

impl Isolation {
    /// For a run in a test of Rust's test harness, by the name that the harness prints (`module::name`).
    pub fn test(name: impl Into<String>) -> Isolation {
        let name = name.into();
        let arguments = [&name, "--exact", "--include-ignored", "--nocapture", "--quiet"].map(OsString::from);
        Isolation { name, arguments: arguments.to_vec() }
    }

    /// For a run of a program, which gets the arguments that this process has. The name is of its own for each run.
    pub fn program(name: impl Into<String>) -> Isolation {
        Isolation { name: name.into(), arguments: std::env::args_os().skip(1).collect() }
    }
}

/// Set for the process of a trial, to the name of its run.
const VARIABLE: &str = "PLATTER_KIT_TRIAL";

impl<D> Kit<D> {
    /// Has a process of its own for each trial: engine, cut and check. A check, or an engine, that crashes (a signal such as
    /// SIGBUS, an abort, an exit) is a finding with seed and plan like any other; the run goes on and shrinks it.
    ///
    /// The process is this program again, up to this run: what stands before it is repeated for each trial, so a run is
    /// best in a test of its own. Other isolated runs that such a process comes to do nothing and find nothing. It takes some
    /// milliseconds for each trial. What engine and check write to standard output is dropped.
    #[must_use]
    pub fn isolated(self, isolation: Isolation) -> Kit<D> {
        Kit { isolation: Some(Arc::new(isolation)), ..self }
    }

    /// One trial, where it is to run.
    pub(super) fn trial<S: Default>(
        &self,
        cut: &Cut,
        engine: &impl Fn(&D, &mut S) -> Outcome,
        check: &impl Fn(&D, &S) -> Outcome,
    ) -> Result<Trial, String> {
        match &self.isolation {
            Some(isolation) => isolation.trial(cut, self.flushes),
            None => self.trial_here(cut, engine, check, &mut |_| {}),
        }
    }

    /// Whether this is the process of one trial. If the trial is one of this run, it is carried out and the process ends.
    pub(super) fn is_of_one_trial<S: Default>(
        &self,
        engine: &impl Fn(&D, &mut S) -> Outcome,
        check: &impl Fn(&D, &S) -> Outcome,
    ) -> bool {
        let (Some(isolation), Ok(wanted)) = (&self.isolation, std::env::var(VARIABLE)) else { return false };
        if wanted == isolation.name {
            // The parent is told everything, and sees from the end of the connection if it is not.
            let status = self.serve(engine, check).is_err();
            std::process::exit(status.into());
        }
        true
    }

    fn serve<S: Default>(
        &self,
        engine: &impl Fn(&D, &mut S) -> Outcome,
        check: &impl Fn(&D, &S) -> Outcome,
    ) -> io::Result<()> {
        let parent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut line = String::new();
        BufReader::new(&parent).read_line(&mut line)?;
        let task: Value = serde_json::from_str(&line)?;
        let (cut, flushes) = task_from(&task).ok_or(io::ErrorKind::InvalidData)?;
        let tell = |message: Value| (&parent).write_all(format!("{message}\n").as_bytes());
        tell(json!({ "began": true }))?;
        let kit = self.clone().flushes(flushes);
        let result = kit.trial_here(&cut, engine, check, &mut |stage| {
            // If the parent is gone, nothing waits for the result either.
            let _ = tell(match stage {
                Stage::Cut { trace, lost, could } => {
                    json!({ "trace": trace_text(trace), "lost": lost.to_string(), "could": could.to_string() })
                }
                Stage::Again { lost } => json!({ "again": lost.to_string() }),
            });
        });
        tell(match result {
            Ok(trial) => json!({ "wrong": trial.wrong, "recovery": trace_text(&trial.recovery) }),
            Err(error) => json!({ "failed": error }),
        })
    }
}

impl Isolation {
    fn trial(&self, cut: &Cut, flushes: Flushes) -> Result<Trial, String> {
        let failed = |error: io::Error| format!("no process for the trial: {error}");
        let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(&self.arguments).env(VARIABLE, &self.name);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let mut child = Process(command.spawn().map_err(failed)?);
        // Its copy of the other end.
        drop(command);
        // A process that has ended already is recognised by what it has not said.
        let _ = writeln!(ours, "{}", task(cut, flushes));
        let mut told = Told::default();
        for line in BufReader::new(ours).lines() {
            let Ok(line) = line else { break };
            told.hear(&line).ok_or_else(|| format!("the process of the trial says {line}"))?;
        }
        let status = child.0.wait().map_err(failed)?;
        match told {
            Told { failed: Some(error), .. } => Err(error),
            Told { began: false, .. } => Err(format!(
                "the process of the trial ended ({status}) before it came to the run {:?}: is that its name?",
                self.name
            )),
            Told { ended: false, trial: None, .. } if cut.io.is_none() => {
                Err(format!("the engine ended its process although nothing was wrong: {status}"))
            }
            Told { ended: false, trial: None, .. } => Ok(Trial {
                wrong: Some(format!("the engine ended its process: {status}")),
                ..Trial::default()
            }),
            Told { ended: false, trial: Some(trial), .. } => {
                Ok(Trial { wrong: Some(format!("the check ended its process: {status}")), ..trial })
            }
            Told { trial, .. } => Ok(trial.unwrap_or_default()),
        }
    }
}

/// A process that is killed when a failure leaves it behind.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the process of a trial has said.
#[derive(Default)]
struct Told {
    began: bool,
    ended: bool,
    failed: Option<String>,
    trial: Option<Trial>,
}

impl Told {
    /// `None`: not understood.
    fn hear(&mut self, line: &str) -> Option<()> {
        let message: Value = serde_json::from_str(line).ok()?;
        let object = message.as_object()?;
        let lost = |name: &str| object.get(name).and_then(Value::as_str)?.parse::<Lost>().ok();
        if object.contains_key("began") {
            self.began = true;
        } else if let Some(error) = object.get("failed") {
            self.failed = Some(error.as_str()?.to_owned());
        } else if let Some(trace) = object.get("trace") {
            let (trace, lost, could) = (trace_from(trace)?, lost("lost")?, lost("could")?);
            self.trial = Some(Trial { trace, lost, could, ..Trial::default() });
        } else if object.contains_key("again") {
            self.trial.as_mut()?.lost_again = lost("again")?;
        } else {
            let trial = self.trial.as_mut()?;
            trial.recovery = trace_from(object.get("recovery")?)?;
            trial.wrong = match object.get("wrong")? {
                Value::Null => None,
                wrong => Some(wrong.as_str()?.to_owned()),
            };
            self.ended = true;
        }
        Some(())
    }
}

fn task(cut: &Cut, flushes: Flushes) -> Value {
    let survivors = |survivors: &Survivors| match survivors {
        Survivors::All => json!("all"),
        Survivors::None => json!("none"),
        Survivors::Seeded(seed) => json!({ "seed": seed }),
        Survivors::Except(lost) => json!({ "except": lost.to_string() }),
    };
    let flushes = match flushes {
        Flushes::Honest => json!("honest"),
        Flushes::DropOne { disk, nth } => json!([disk, nth]),
        Flushes::DropAll => json!("none"),
    };
    let again = cut.recovery.as_ref().map(|(io, which)| json!([io, survivors(which)]));
    json!({ "io": cut.io, "survivors": survivors(&cut.survivors), "again": again, "flushes": flushes })
}

fn task_from(task: &Value) -> Option<(Cut, Flushes)> {
    let survivors = |value: &Value| match value.as_str() {
        Some("all") => Some(Survivors::All),
        Some(_) => Some(Survivors::None),
        None => match value["seed"].as_u64() {
            Some(seed) => Some(Survivors::Seeded(seed)),
            None => Some(Survivors::Except(value["except"].as_str()?.parse().ok()?)),
        },
    };
    let flushes = match (task["flushes"].as_str(), &task["flushes"]) {
        (Some("honest"), _) => Flushes::Honest,
        (Some(_), _) => Flushes::DropAll,
        (None, one) => Flushes::DropOne { disk: one[0].as_u64()?.try_into().ok()?, nth: one[1].as_u64()? },
    };
    let recovery = match &task["again"] {
        Value::Null => None,
        again => Some((again[0].as_u64()?, survivors(&again[1])?)),
    };
    Some((Cut { io: task["io"].as_u64(), survivors: survivors(&task["survivors"])?, recovery }, flushes))
}

/// The operations by their numbers in messages.
const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes, Op::Command];

fn trace_text(trace: &Trace) -> Value {
    let row = |taken: &Taken| {
        json!([taken.disk, OPS.iter().position(|op| *op == taken.op), taken.fua, taken.digest])
    };
    trace.iter().map(row).collect()
}

fn trace_from(value: &Value) -> Option<Trace> {
    let row = |row: &Value| {
        let op = *OPS.get(usize::try_from(row[1].as_u64()?).ok()?)?;
        let (disk, fua, digest) = (row[0].as_u64()?.try_into().ok()?, row[2].as_bool()?, row[3].as_u64()?);
        Some(Taken { disk, op, fua, digest })
    };
    value.as_array()?.iter().map(row).collect()
}
