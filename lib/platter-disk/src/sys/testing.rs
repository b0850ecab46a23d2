//! Helpers of several tests: image files and loop devices.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints in one line why a test is skipped.
pub(super) fn skip(test: &str, why: &str) {
    eprintln!("skipped {test}: {why}");
}

/// A sparse file of `size` bytes in `dir`.
pub(super) fn image(dir: &Path, name: &str, size: u64) -> PathBuf {
    let path = dir.join(name);
    File::create(&path).unwrap().set_len(size).unwrap();
    path
}

/// Runs a program; returns its output if it exists and succeeded.
pub(super) fn run(program: &str, args: &[&str]) -> Option<String> {
    let paths = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let out = Command::new(program)
        .args(args)
        .env("PATH", paths)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let out = out.ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// A loop device over a file, detached when dropped.
pub(super) struct LoopDevice {
    pub(super) path: PathBuf,
}

impl LoopDevice {
    /// `None`, after printing why, if loop devices are unavailable (not root, no losetup, no module).
    pub(super) fn over(test: &str, image: &Path, options: &[&str]) -> Option<Self> {
        let mut args = vec!["--find", "--show"];
        args.extend(options);
        args.push(image.to_str().unwrap());
        let made = run("losetup", &args).map(|path| LoopDevice { path: path.into() });
        if made.is_none() {
            skip(test, "no loop device (needs root and losetup)");
        }
        made
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        run("losetup", &["--detach", self.path.to_str().unwrap()]);
    }
}
