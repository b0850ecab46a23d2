//! The files of the project.

use crate::lexer;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folders with the crates: what a program embeds, what operators run, and what proves it.
pub(crate) const HOUSE: [&str; 3] = ["lib", "bin", "lab"];

/// A text file of the project.
pub(crate) struct File {
    /// Path from the root of the workspace, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    code: OnceLock<String>,
    live: OnceLock<String>,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> File {
        File { path: path.into(), text: text.into(), code: OnceLock::new(), live: OnceLock::new() }
    }

    /// The text with comments and the contents of strings blanked. Computed once, because every rule needs it.
    pub(crate) fn code(&self) -> &str {
        self.code.get_or_init(|| lexer::code(&self.text))
    }

    /// The code without the items that are built only for tests.
    pub(crate) fn live(&self) -> &str {
        self.live.get_or_init(|| lexer::without_tests(self.code()))
    }

    /// The name of the crate that the file belongs to; empty for files of the workspace.
    pub(crate) fn room(&self) -> &str {
        let mut parts = self.path.split('/');
        parts.next().filter(|part| HOUSE.contains(part)).and_then(|_| parts.next()).unwrap_or_default()
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether everything in the file is only built for tests (examples are held to the same rules as they).
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.split('/').any(|part| part == "tests" || part == "examples" || part == "benches")
            || name == "tests.rs"
            || name == "testing.rs"
            || name.ends_with("_tests.rs")
    }
}

/// Root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// All text files that belong to the project: no build products, no repository data. Read once.
pub(crate) fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(read)
}

fn read() -> Vec<File> {
    let root = root();
    let mut files = Vec::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory of the project can be read") {
            let path = entry.expect("an entry of the project can be read").path();
            if path.is_symlink() {
                // The link leads to a file of the project, which is checked separately.
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    dirs.push(path);
                }
            } else if name != ".git"
                && let Ok(text) = fs::read_to_string(&path)
            {
                let path = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
                files.push(File::new(path, text));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 100, "the project has more than {} files", files.len());
    files
}
