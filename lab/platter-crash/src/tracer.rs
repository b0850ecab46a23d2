//! Runs a program, stops it at its file system calls, and records what they change.
//!
//! One call at a time: a thread that begins a call that may change the directory waits until the call of another thread has
//! returned. So the order of the record is the order of the effects.

use crate::calls::{self, ARCH};
use crate::error::{RecordError, failed};
use crate::observe::{Begun, Observer};
use crate::ptrace::{self, Ending, Entry, Event};
use crate::recording::Recording;
use crate::tracee::Tracee;
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// How often to look whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The shell, which also runs checks.
const SHELL: &str = "/bin/sh";

/// What to record.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The directory whose changes are recorded; it is made if it does not exist.
    pub dir: PathBuf,
    /// Most bytes to record; more are an error.
    pub limit: u64,
    /// When to end it, if it does not by itself.
    pub stop: Option<StopAfter>,
}

/// When to end a program.
#[derive(Clone, Copy, Debug)]
pub struct StopAfter {
    /// After this time it is asked to end, by SIGTERM.
    pub time: Duration,
    /// So much later what is left of it is killed, between two of its calls; after twice that, also within one.
    pub grace: Duration,
}

/// What a program did, and why it ended.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What it did.
    pub recording: Recording,
    /// Why it ended.
    pub end: End,
}

/// Why a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Itself,
    /// It was asked to: its time was over.
    Asked,
    /// It was killed: it had not ended although it was asked to.
    Killed,
}

/// Runs a program to its end, and that of all processes that it started, and returns what it did.
///
/// # Errors
/// See [`RecordError`].
pub fn record(program: &Program, stop: &AtomicBool) -> Result<Recorded, RecordError> {
    // A thread of its own, because it waits for all its children, and only for those.
    let result = thread::scope(|scope| scope.spawn(|| record_here(program, stop)).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn record_here(program: &Program, stop: &AtomicBool) -> Result<Recorded, RecordError> {
    let shown = program.dir.display();
    let cannot = |error: io::Error| RecordError::CannotStart(format!("--dir {shown}: {error}"));
    fs::create_dir_all(&program.dir).map_err(cannot)?;
    let dir = fs::canonicalize(&program.dir).map_err(cannot)?;
    let mut observer = Observer::new(&dir, program.limit).map_err(cannot)?;
    let [name, arguments @ ..] = program.command.as_slice() else {
        return Err(RecordError::CannotStart("a program is needed".to_owned()));
    };
    let path = executable(name)?;
    let (reader, output) = io::pipe().map_err(|error| failed(&error))?;
    observer.set_output(&output).map_err(|error| failed(&error))?;
    // By way of a shell, because the filter is not complete until a tracer has seen the first program: one that could not be
    // executed could not say so.
    let mut command = Command::new(executable(OsStr::new(SHELL))?);
    command.args(["-c", "exec \"$0\" \"$@\""]).arg(path).args(arguments).stdout(Stdio::from(output));
    // With its own standard output the program shares the pipe; `command` must not keep another end of it open.
    let drained = thread::spawn(move || drain(reader));
    let started = ptrace::start(&mut command, calls::filter());
    drop(command);
    let mut time = Time::default();
    let ending = match started {
        Ok(child) => {
            let main = child.id() as i32;
            time.reach = AtomicI32::new(main);
            let (threads, waiting) = (HashSet::from([main]), VecDeque::new());
            let observer = &mut observer;
            let mut tracer =
                Tracer { observer, main, threads, busy: None, waiting, ending: None, time: &time };
            tracer.run_watched(stop, program.stop)
        }
        Err(error) => Err(RecordError::CannotStart(format!("{}: {error}", name.display()))),
    };
    // The pipe has no writer any more, so this ends.
    let printed = drained.join().unwrap_or(0);
    let end = time.end();
    match ending? {
        // How it ends when it is asked to is not judged.
        _ if end != End::Itself => observer.finish().map_err(|error| failed(&error))?,
        Ending::Exit(0) => observer.finish().map_err(|error| failed(&error))?,
        Ending::Exit(status) => {
            return Err(RecordError::Failed(format!("{} ended with status {status}", name.display())));
        }
        Ending::Signal(signal) => {
            return Err(RecordError::Failed(format!("{} was ended by signal {signal}", name.display())));
        }
    }
    let recording = observer.into_recording()?;
    if recording.printed() != printed {
        let what =
            "the program has printed in a way that was not seen, as by `splice`; let it print by `write`";
        return Err(RecordError::Unseen(what.to_owned()));
    }
    Ok(Recorded { recording, end })
}

/// Reads what the program prints, so that it need not wait, and counts it. What it printed is taken from its calls.
fn drain(mut reader: io::PipeReader) -> u64 {
    let mut buffer = [0; 4096];
    let mut bytes = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(got) => bytes += got as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return bytes,
        }
    }
}

/// The program file: what `execvp` would find.
fn executable(name: &OsStr) -> Result<PathBuf, RecordError> {
    let runs = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let given = Path::new(name);
    let found = match given.components().count() > 1 || given.is_absolute() {
        true => Some(given.to_owned()).filter(|path| runs(path)),
        false => {
            let path = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&path).map(|dir| dir.join(name)).find(|path| runs(path))
        }
    };
    found.ok_or_else(|| {
        RecordError::CannotStart(format!("{}: there is no such program that can be executed", name.display()))
    })
}

/// What the thread that looks at the time and the tracer tell each other.
#[derive(Debug, Default)]
struct Time {
    /// The program was asked to end.
    is_asked: AtomicBool,
    /// What is left of it is to be killed when no call is being carried out; at once.
    is_over: AtomicBool,
    is_long_over: AtomicBool,
    /// It was killed.
    is_killed: AtomicBool,
    /// A thread of the program that lived when the tracer last heard of any.
    reach: AtomicI32,
}

impl Time {
    fn end(&self) -> End {
        match (self.is_asked.load(Ordering::Relaxed), self.is_killed.load(Ordering::Relaxed)) {
            (_, true) => End::Killed,
            (true, false) => End::Asked,
            (false, false) => End::Itself,
        }
    }

    /// Looks at the time: asks the program to end, and later wakes the tracer, which kills it.
    fn look(&self, since: Instant, limit: StopAfter) {
        let (reach, passed) = (self.reach.load(Ordering::Relaxed), since.elapsed());
        if passed >= limit.time && !self.is_asked.swap(true, Ordering::Relaxed) {
            ptrace::signal(reach, libc::SIGTERM);
        }
        if passed >= limit.time.saturating_add(limit.grace) {
            let is_long = passed >= limit.time.saturating_add(limit.grace * 2);
            self.is_long_over.store(is_long, Ordering::Relaxed);
            self.is_over.store(true, Ordering::Relaxed);
            // The tracer sees any signal, and does not deliver this one.
            ptrace::signal(reach, WAKES);
        }
    }
}

/// The signal by which the tracer is woken. Programs ignore it unless they ask for it.
const WAKES: i32 = libc::SIGURG;

/// The state of one run.
struct Tracer<'o> {
    observer: &'o mut Observer,
    main: i32,
    threads: HashSet<i32>,
    /// The thread whose call is being carried out.
    busy: Option<(i32, Begun)>,
    /// Threads that wait to begin a call.
    waiting: VecDeque<(i32, Entry)>,
    ending: Option<Ending>,
    time: &'o Time,
}

impl Tracer<'_> {
    /// Runs while another thread looks whether the user wants to stop, and at the time.
    fn run_watched(
        &mut self,
        stop: &AtomicBool,
        stop_after: Option<StopAfter>,
    ) -> Result<Ending, RecordError> {
        let (main, time, since) = (self.main, self.time, Instant::now());
        thread::scope(|scope| {
            let (done, over) = channel::<()>();
            scope.spawn(move || {
                while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if stop.load(Ordering::Relaxed) {
                        ptrace::kill(main);
                    }
                    stop_after.iter().for_each(|limit| time.look(since, *limit));
                }
            });
            let result = self.run(stop);
            if result.is_err() {
                self.kill_all();
            }
            drop(done);
            result
        })
    }

    /// Kills what still runs, and waits for its end.
    fn kill_all(&mut self) {
        self.threads.iter().for_each(|thread| ptrace::kill(*thread));
        while let Ok((thread, event)) = ptrace::wait(-1) {
            if !matches!(event, Event::Gone(_)) {
                ptrace::kill(thread);
                // It ends by the signal, whatever it is resumed with.
                let _ = ptrace::resume(thread, 0);
            }
        }
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<Ending, RecordError> {
        self.resume(self.main, 0)?;
        loop {
            let (thread, event) = match ptrace::wait(-1) {
                Ok(event) => event,
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(error) => return Err(failed(&error)),
            };
            if stop.load(Ordering::Relaxed) {
                // It may be new, and is stopped: it has to be killed with the others.
                self.threads.insert(thread);
                return Err(RecordError::Stopped);
            }
            self.handle(thread, event)?;
            self.note_reach();
            if self.is_to_be_killed() {
                self.threads.insert(thread);
                self.time.is_killed.store(true, Ordering::Relaxed);
                self.kill_all();
                return Ok(Ending::Signal(libc::SIGKILL));
            }
        }
        self.ending.ok_or_else(|| RecordError::Failed("the end of the program was not seen".to_owned()))
    }

    /// Notes whom a signal reaches: the program itself, or what is left of it.
    fn note_reach(&self) {
        let main = self.threads.get(&self.main);
        if let Some(thread) = main.or_else(|| self.threads.iter().next()) {
            self.time.reach.store(*thread, Ordering::Relaxed);
        }
    }

    /// Whether the time is over. Between two calls, so that each has had all of its effect or none.
    fn is_to_be_killed(&self) -> bool {
        let idle = self.busy.is_none() || self.time.is_long_over.load(Ordering::Relaxed);
        self.is_over() && idle && !self.threads.is_empty()
    }

    fn is_over(&self) -> bool {
        self.time.is_over.load(Ordering::Relaxed)
    }

    fn handle(&mut self, thread: i32, event: Event) -> Result<(), RecordError> {
        match event {
            Event::Call => self.call(thread),
            Event::Returned => self.returned(thread),
            Event::Exec(former) => {
                // The other threads are gone, and this one has the number of the first.
                if former != thread {
                    self.forget(former)?;
                    self.forget(thread)?;
                }
                self.threads.insert(thread);
                // Its mappings are gone; what was stored through them is in the files.
                self.observer.stored(Tracee(thread))?;
                self.resume(thread, 0)
            }
            Event::Other => self.resume(thread, 0),
            // The first stop of a new thread, which is the tracer's doing.
            Event::Signal(libc::SIGSTOP) if self.threads.insert(thread) => self.resume(thread, 0),
            Event::Signal(WAKES) if self.is_over() => self.resume(thread, 0),
            Event::Signal(signal) => self.resume(thread, signal),
            Event::Gone(ending) => {
                if thread == self.main {
                    self.ending = Some(ending);
                }
                self.forget(thread)
            }
        }
    }

    /// Lets a thread run. One that was killed meanwhile is reported later.
    fn resume(&self, thread: i32, signal: i32) -> Result<(), RecordError> {
        gone_is_fine(ptrace::resume(thread, signal))
    }

    fn forget(&mut self, thread: i32) -> Result<(), RecordError> {
        self.threads.remove(&thread);
        self.waiting.retain(|(other, _)| *other != thread);
        match self.busy.take_if(|(other, _)| *other == thread) {
            Some(_) => self.next(),
            None => Ok(()),
        }
    }

    fn call(&mut self, thread: i32) -> Result<(), RecordError> {
        self.threads.insert(thread);
        let entry = match ptrace::entry(thread) {
            Ok(entry) => entry,
            Err(error) => return gone_is_fine(Err(error)),
        };
        if entry.arch != ARCH || calls::by_number(entry.number).is_none() {
            let what = "the program makes system calls of another architecture (a 32-bit program), which are not seen";
            return Err(RecordError::Unseen(what.to_owned()));
        }
        if !self.observer.concerns(Tracee(thread), &entry) {
            return self.resume(thread, 0);
        }
        self.waiting.push_back((thread, entry));
        self.next()
    }

    /// Begins the next call if none is being carried out.
    fn next(&mut self) -> Result<(), RecordError> {
        while self.busy.is_none()
            && !self.is_over()
            && let Some((thread, entry)) = self.waiting.pop_front()
        {
            match self.observer.begin(Tracee(thread), &entry)? {
                Some(begun) => {
                    self.busy = Some((thread, begun));
                    gone_is_fine(ptrace::until_return(thread))?;
                }
                None => self.resume(thread, 0)?,
            }
        }
        Ok(())
    }

    fn returned(&mut self, thread: i32) -> Result<(), RecordError> {
        if let Some((_, begun)) = self.busy.take_if(|(other, _)| *other == thread) {
            match ptrace::returned(thread) {
                Ok(Some(value)) => self.observer.end(Tracee(thread), &begun, value)?,
                Ok(None) => {}
                Err(error) => gone_is_fine(Err(error))?,
            }
        }
        self.resume(thread, 0)?;
        self.next()
    }
}

/// That a thread has been killed while it was stopped is reported by the next wait.
fn gone_is_fine(result: io::Result<()>) -> Result<(), RecordError> {
    match result {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(failed(&error)),
        _ => Ok(()),
    }
}
