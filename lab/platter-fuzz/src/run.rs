//! One run of a target on one input, and the properties that every format must have.

use crate::guard;
use crate::memory::{self, Usage};
use crate::rng::Rng;
use platter_block::text::is_unsafe;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// The result of parsing an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was accepted.
    Accepted,
    /// It was refused, with this message.
    Refused(String),
}

/// A format and its parser.
pub struct Target {
    /// Name on the command line and of the folder of its corpus.
    pub name: &'static str,
    /// The format and its parser, in one line.
    pub summary: &'static str,
    /// Generates an input that is valid, or nearly.
    pub generate: fn(&mut Rng) -> Vec<u8>,
    /// Mutates an input, using pieces of another one, so that its checksums are valid most of the time.
    pub mutate: fn(&mut Rng, &mut Vec<u8>, &[u8]),
    /// Parses an input. An error is a bug of the parser: a property of its result that does not hold.
    pub read: fn(&[u8]) -> Result<Verdict, String>,
    /// Bytes that parsing may take in addition to [`PER_BYTE`] times the length of the input.
    pub memory: usize,
}

/// Bytes of memory for each byte of input.
pub const PER_BYTE: usize = 128;

/// Allocator calls per byte of input, and a constant. Endless loops usually allocate.
const CALLS_PER_BYTE: u64 = 32;
const CALLS: u64 = 1 << 20;

/// Beyond this the process ends, in bytes.
const END: usize = 4 << 30;

/// Longest message.
const MOST_MESSAGE: usize = 16 << 10;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message of a panic in a run instead of printing it.
fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PANIC.with_borrow_mut(|kept| *kept = info.to_string().replace('\n', " "));
            } else {
                before(info);
            }
        }));
    });
}

/// Runs a target on an input.
///
/// # Errors
/// The bug: a panic, too much memory, an error message that is empty or unsafe for a terminal, or an error of
/// the target's own checks.
pub fn run(target: &Target, input: &[u8]) -> Result<(Verdict, Usage), String> {
    install_hook();
    QUIET.set(true);
    let read = || panic::catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    let (result, usage) = guard::watched(target.name, input, || memory::measured(END, read));
    QUIET.set(false);
    let verdict = result.map_err(|_| PANIC.with_borrow(Clone::clone))??;
    let most = target.memory + PER_BYTE * input.len();
    if usage.peak > most {
        return Err(format!(
            "{} bytes of input took {} of memory; at most {most} may be",
            input.len(),
            usage.peak
        ));
    }
    let most = CALLS + CALLS_PER_BYTE * input.len() as u64;
    if usage.calls > most {
        return Err(format!(
            "{} bytes of input took {} allocations; at most {most} may be",
            input.len(),
            usage.calls
        ));
    }
    if let Verdict::Refused(message) = &verdict {
        check_message(message)?;
    }
    Ok((verdict, usage))
}

/// Whether a message can be shown to an operator.
///
/// # Errors
/// It is empty, longer than 16 KiB, or contains control characters, which a terminal may execute.
pub fn check_message(message: &str) -> Result<(), String> {
    if message.trim().is_empty() {
        return Err("refused without a message".to_owned());
    }
    if message.len() > MOST_MESSAGE {
        return Err(format!("a message of {} bytes: {:.200}…", message.len(), message));
    }
    match message.chars().find(|c| is_unsafe(*c) && *c != '\n') {
        Some(c) => Err(format!("the control character U+{:04X} in the message {message:?}", u32::from(c))),
        None => Ok(()),
    }
}
