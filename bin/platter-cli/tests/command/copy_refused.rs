//! Copies that `platter copy` refuses before anything is written.

use crate::run::{fails_saying, ok, platter, stderr, text};
use platter::registry::{self, Access};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use tempfile::tempdir;

#[test]
fn a_destination_that_is_too_small_stays_as_it_is() {
    let dir = tempdir().unwrap();
    let (b, c) = (dir.path().join("b"), dir.path().join("c"));
    fs::write(&b, vec![7; 4096]).unwrap();
    fails_saying(
        4,
        &["copy", "ram(1M)", text(&b)],
        &["too small", "4,096", "1,048,576", "nothing was written"],
    );
    assert_eq!(fs::read(&b).unwrap(), vec![7; 4096]);
    fails_saying(4, &["copy", "ram(1M)", &format!("file({}, create=4K)", text(&c))], &["too small"]);
    assert!(!c.exists(), "what was created for nothing is gone");
}

#[test]
fn a_device_is_not_copied_to_itself() {
    let dir = tempdir().unwrap();
    let (a, link) = (dir.path().join("a"), dir.path().join("link"));
    fs::write(&a, vec![7; 4096]).unwrap();
    std::os::unix::fs::symlink(&a, &link).unwrap();
    fails_saying(4, &["copy", text(&a), text(&a)], &["the same"]);
    fails_saying(4, &["copy", text(&a), text(&link)], &["the same"]);
    let part = format!("partition(offset=0, {})", text(&a));
    fails_saying(3, &["copy", &part, text(&a)], &["lock"]);
}

#[test]
fn a_writer_has_a_file_alone_and_readers_share_it() {
    let dir = tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, vec![7; 4096]).unwrap();
    let writer = registry::open(text(&a), Access::read_write()).unwrap();
    fails_saying(3, &["copy", "ram(4K)", text(&a)], &[text(&a)]);
    fails_saying(3, &["copy", text(&a), text(&b)], &[text(&a)]);
    assert!(!b.exists());
    drop(writer);
    let reader = registry::open(text(&a), Access::read()).unwrap();
    ok(&["copy", text(&a), text(&b)]);
    fails_saying(3, &["copy", "ram(4K)", text(&a)], &[text(&a)]);
    drop(reader);
    ok(&["copy", "ram(4K)", text(&a)]);
}

#[test]
fn what_holds_something_is_not_overwritten_without_force() {
    let dir = tempdir().unwrap();
    let swap = dir.path().join("swap");
    let mut content = vec![0; 64 << 10];
    content[4086..4096].copy_from_slice(b"SWAPSPACE2");
    fs::write(&swap, &content).unwrap();
    fails_saying(3, &["copy", "ram(64K)", text(&swap)], &["swap", "--force"]);
    assert_eq!(fs::read(&swap).unwrap(), content);
    ok(&["copy", "ram(64K)", &format!("file({}, force=on)", text(&swap))]);
    fs::write(&swap, &content).unwrap();
    ok(&["copy", "--force", "ram(64K)", text(&swap)]);
    assert_eq!(fs::read(&swap).unwrap(), vec![0; 64 << 10]);
}

#[test]
fn a_file_system_is_not_overwritten_without_force() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("ext4.img");
    fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F", text(&path)]).output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mkfs.ext4 is not there or does not work");
        return;
    }
    let before = fs::read(&path).unwrap();
    fails_saying(3, &["copy", "ram(4M)", text(&path)], &["ext4", "--force"]);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn absurd_options_are_usage_errors() {
    for (args, words) in [
        (&["--bs", "0"] as &[_], &["4K to 64M"] as &[_]),
        (&["--bs", "1G"], &["4K to 64M"]),
        (&["--bs", "many"], &["a size"]),
        (&["--bs", "4100"], &["multiple", "512"]),
        (&["--depth", "0"], &["--depth"]),
        (&["--depth", "100000"], &["--depth", "4096"]),
        (&["--depth", "4096", "--bs", "64M"], &["at most 1G"]),
        (&["--sparse", "sometimes"], &["sometimes", "never"]),
    ] {
        fails_saying(2, &[&["copy", "ram(1M)", "ram(1M)"], args].concat(), words);
    }
    fails_saying(2, &["copy", "ram(1M)"], &["DST"]);
    fails_saying(2, &["copy", "ram(1M)", "rram(1M)"], &["did you mean `ram`"]);
}

#[test]
fn what_cannot_be_opened_is_named() {
    let dir = tempdir().unwrap();
    let missing = dir.path().join("missing");
    fails_saying(3, &["copy", text(&missing), "ram(1M)"], &[text(&missing), "ENOENT"]);
    fails_saying(3, &["copy", "ram(1M)", text(dir.path())], &["is a directory"]);
    let nowhere = missing.join("b");
    // The directory is missing, and creating the file failed.
    let blamed = format!("cannot create {}: the directory {} does not exist", text(&nowhere), text(&missing));
    fails_saying(3, &["copy", "ram(1M)", text(&nowhere)], &[&blamed, "mkdir -p"]);
    fails_saying(
        3,
        &["info", text(&nowhere)],
        &[&format!("the directory {} does not exist", text(&missing))],
    );
    let part = format!("partition(offset=4K, {})", text(&missing));
    fails_saying(3, &["copy", "ram(1M)", &part], &[text(&missing)]);
    assert!(!missing.exists());
}

/// A loop device over a file; removed when dropped.
struct Loop(String);

impl Loop {
    /// `None` where this user or container may not have one.
    fn over(path: &str) -> Option<Loop> {
        let output = Command::new("losetup").args(["--find", "--show", path]).output().ok()?;
        output.status.success().then(|| Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_that_holds_something_is_not_overwritten_without_force() {
    let dir = tempdir().unwrap();
    let image = dir.path().join("swap.img");
    let mut content = vec![0; 1 << 20];
    content[4086..4096].copy_from_slice(b"SWAPSPACE2");
    fs::write(&image, &content).unwrap();
    let Some(device) = Loop::over(text(&image)) else {
        eprintln!("skipped: no loop device can be had here");
        return;
    };
    fails_saying(3, &["copy", "ram(1M)", &device.0], &[&device.0, "swap", "--force"]);
    let odd = dir.path().join("odd");
    fs::write(&odd, vec![5; 70_001]).unwrap();
    ok(&["copy", "--force", "--verify", text(&odd), &device.0]);
    content[..70_001].fill(5);
    let back = dir.path().join("back");
    ok(&["copy", &device.0, text(&back)]);
    assert!(fs::read(&back).unwrap() == content, "what is beyond the copy stays");
}

/// Reports of runs that have nothing to do with the disk, too.
#[test]
fn no_report_is_written_over_a_block_device() {
    let dir = tempdir().unwrap();
    let image = dir.path().join("disk.img");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let Some(device) = Loop::over(text(&image)) else {
        eprintln!("skipped: no loop device can be had here");
        return;
    };
    let path = device.0.as_str();
    for args in [
        &["repro", "ordered", "--scale", "64", "--report", path][..],
        &["readahead", "--pattern", "random", "--report", path],
        &["sim", "show", "ide2004", "--report", path],
        &["bench", "io", "--on", "null(1M)", "--number_ios", "1", "--report", path],
        &["crash", "run", "--dir", text(dir.path()), "--check", "false", "--plan", path, "--", "true"],
    ] {
        fails_saying(4, args, &[path, "is a block device; give the path of a file"]);
    }
    assert!(fs::read(&image).unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn an_image_that_qemu_has_open_is_refused_and_qemu_refuses_ours() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let mut command = Command::new("qemu-io");
    command
        .args(["-f", "raw", text(&image)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut qemu) = command.spawn() else {
        eprintln!("skipped: there is no qemu-io");
        return;
    };
    let mut orders = qemu.stdin.take().unwrap();
    let mut answers = BufReader::new(qemu.stdout.take().unwrap());
    writeln!(orders, "write 0 4096").unwrap();
    let mut line = String::new();
    while !line.contains("wrote 4096") {
        line.clear();
        assert!(answers.read_line(&mut line).unwrap() > 0);
    }
    for args in [["copy", "ram(1M)", text(&image)], ["copy", text(&image), "ram(1M)"]] {
        fails_saying(3, &args, &["such as QEMU", "--allow-in-use"]);
        ok(&[&args[..], &["--allow-in-use"]].concat());
    }
    drop(orders);
    qemu.wait().unwrap();
    ok(&["copy", "ram(1M)", text(&image)]);
    let mut ours = platter();
    ours.args(["copy", "--sparse", "never", "delay(read=3600s, ram(512K))", text(&image)]);
    let mut ours = ours.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    line.clear();
    BufReader::new(ours.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("larger than the source"), "{line}");
    let second =
        Command::new("qemu-io").args(["-f", "raw", "-c", "write 0 4096", text(&image)]).output().unwrap();
    ours.kill().unwrap();
    ours.wait().unwrap();
    assert!(!second.status.success() && stderr(&second).contains("lock"), "{}", stderr(&second));
}
