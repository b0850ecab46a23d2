//! The files of the project.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the project.
pub(crate) struct File {
    /// Path from the root of the workspace, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
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

/// All text files that belong to the project: no build products, no repository data.
pub(crate) fn files() -> Vec<File> {
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
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 100, "the project has more than {} files", files.len());
    files
}
