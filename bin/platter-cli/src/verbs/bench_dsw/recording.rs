//! Where a recording comes from: a file, the cache directory, or the program that makes it.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit};
use platter_bench::dsw::Recording;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The program that makes recordings.
const RECORDER: &str = "platter-dsw";
/// Largest recording: far more than one of the largest data.
const MAX_BYTES: u64 = 1 << 30;
/// How often an interruption is looked for while the recorder runs.
const INTERVAL: Duration = Duration::from_millis(50);

/// Reads a recording.
pub(super) fn read(file: &Path) -> Result<Recording, CliError> {
    let name = file.display();
    let cannot = |error: std::io::Error| {
        CliError::new(Exit::CannotOpen, format!("cannot read the recording {name}: {error}"))
    };
    let bytes = std::fs::metadata(file).map_err(cannot)?.len();
    if bytes > MAX_BYTES {
        return Err(CliError::refused(format!(
            "{name} is no recording: it has {bytes} bytes, more than 1 GiB"
        )));
    }
    let bytes = std::fs::read(file).map_err(cannot)?;
    Recording::from_bytes(&bytes)
        .map_err(|error| CliError::refused(format!("{name} is no recording: {error}")))
}

/// The recording of this scale in the cache directory, which is made first if it is not there.
pub(super) fn cached(scale: f64, context: &Context, progress: &mut Progress) -> Result<Recording, CliError> {
    let Some(dir) = cache_dir() else {
        return Err(CliError::refused(
            "no cache directory: neither XDG_CACHE_HOME nor HOME is set to an absolute path; give --recording FILE",
        ));
    };
    let file = dir.join(format!("dsw-{scale}.recording"));
    if !file.exists() {
        std::fs::create_dir_all(&dir).map_err(|error| {
            CliError::failed(format!("cannot make the cache directory {}: {error}", dir.display()))
        })?;
        progress.show(&format!("recording queries on data of scale {scale}"));
        record(scale, &file, context)?;
    }
    read(&file)
}

/// The directory of this program's cache, as the XDG Base Directory Specification says.
fn cache_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("platter"))
}

/// Runs the recorder, which writes the file whole or not at all.
fn record(scale: f64, file: &Path, context: &Context) -> Result<(), CliError> {
    let mut child = start(scale, file)?;
    let failed = |error: std::io::Error| CliError::failed(format!("{RECORDER}: {error}"));
    // From now on, so that a signal does not leave the child behind.
    context.stop_flag();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if context.is_interrupted() {
            // Its database has no name, so nothing is left.
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Err(context.interruption("interrupted while the queries were recorded"));
        }
        std::thread::park_timeout(INTERVAL);
    };
    match status.success() {
        true => Ok(()),
        false => Err(CliError::failed(format!("{RECORDER} failed ({status})"))),
    }
}

/// Starts the recorder that is beside this program, or else the one that is installed.
fn start(scale: f64, file: &Path) -> Result<Child, CliError> {
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(RECORDER)));
    for program in beside.into_iter().chain([PathBuf::from(RECORDER)]) {
        let mut command = Command::new(&program);
        command.args(["--quiet", "--scale", &scale.to_string()]).arg(file);
        match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => return Ok(child),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CliError::failed(format!("cannot run {}: {error}", program.display())));
            }
        }
    }
    Err(CliError::new(
        Exit::CannotOpen,
        format!(
            "there is no recording {} and no program {RECORDER} to make it. In a checkout of Platter:\n  \
             cargo run --release -p platter-engines --bin {RECORDER} -- --scale {scale} dsw.recording\n\
             then give --recording dsw.recording",
            file.display()
        ),
    ))
}
