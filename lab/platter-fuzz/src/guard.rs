//! Finds runs that do not end.
//!
//! A run takes milliseconds. One that takes a minute is in an endless loop, or its time grows too fast with its
//! input. A thread cannot be stopped from outside, so its input is saved and the process ends.

use crate::input_name::name_of;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Longest time of a run.
const LONGEST: Duration = Duration::from_secs(60);

/// A run under way.
struct Running {
    thread: ThreadId,
    target: &'static str,
    input: Vec<u8>,
    begun: Instant,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work`, which reads `input`. If the guard was [started](start), it detects that `work` does not end.
pub fn watched<R>(target: &'static str, input: &[u8], work: impl FnOnce() -> R) -> R {
    let thread = thread::current().id();
    running().push(Running { thread, target, input: input.to_vec(), begun: Instant::now() });
    let result = work();
    running().retain(|run| run.thread != thread);
    result
}

/// Starts the guard of this process. It saves the input of a run that does not end in the folder of its target in
/// `folder`.
pub fn start(folder: PathBuf) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_secs(1));
                if let Some(run) = running().iter().find(|run| run.begun.elapsed() > LONGEST) {
                    let folder = folder.join(run.target);
                    let path = folder.join(name_of(&run.input));
                    let saved = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, &run.input));
                    let told = saved
                        .map_or_else(|error| format!("not saved: {error}"), |()| path.display().to_string());
                    eprintln!(
                        "{}: BUG: a run has not ended for {} s; its input: {told}",
                        run.target,
                        LONGEST.as_secs()
                    );
                    std::process::abort();
                }
            }
        });
    });
}
