//! What job files refer to besides themselves.

use std::io;
use std::path::Path;

/// What job files refer to: other files, variables of the environment, the machine.
pub trait Surroundings {
    /// The contents of a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;

    /// Whether the path is that of a device, which a job may have for its name.
    fn is_device(&self, path: &Path) -> bool;

    /// Bytes of a page of memory: `$pagesize`.
    fn page_size(&self) -> u64;

    /// MiB of memory: `$mb_memory`.
    fn memory_mib(&self) -> u64;

    /// Processors: `$ncpus`.
    fn processors(&self) -> u64;
}

/// Replaces `${NAME}` and fio's three words in a value.
///
/// # Errors
/// A `${` without its end.
pub(crate) fn expand(
    text: &str,
    around: &dyn Surroundings,
    notes: &mut Vec<String>,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let (name, after) =
            rest[at + 2..].split_once('}').ok_or("the } of a ${ is missing; a variable is ${NAME}")?;
        match around.variable(name) {
            Some(value) => out.push_str(&value),
            None => notes.push(format!(
                "the variable {} is not set, so it is empty, here as with fio",
                crate::complaint::quote(name)
            )),
        }
        rest = after;
        if out.len() > MOST {
            return Err(format!("with its variables it is longer than {MOST} bytes"));
        }
    }
    out.push_str(rest);
    for (word, value) in [
        ("$pagesize", around.page_size()),
        ("$mb_memory", around.memory_mib()),
        ("$ncpus", around.processors()),
    ] {
        if out.contains(word) {
            out = out.replace(word, &value.to_string());
        }
    }
    if out.len() > MOST {
        return Err(format!("with its variables it is longer than {MOST} bytes"));
    }
    Ok(out)
}

/// Longest value, in bytes.
const MOST: usize = 64 << 10;
