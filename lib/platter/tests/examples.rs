//! The examples run and produce the documented results.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Whether a file exists and is not older than another.
fn is_fresh(program: &Path, source: &Path) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    time(program).is_some_and(|built| Some(built) >= time(source))
}

/// The program of an example. Cargo builds all of them before it runs tests, unless only some tests are
/// selected.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a program");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("below the target directory");
    let program = profile.join("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    if !is_fresh(&program, &source) {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--offline", "--package", "platter", "--example", name]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success());
    }
    program
}

fn run(name: &str, args: &[&str]) -> Output {
    Command::new(program(name)).args(args).output().expect("the example runs")
}

fn output_of(name: &str, args: &[&str]) -> String {
    let output = run(name, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file of a size that is no multiple of anything.
fn contents() -> Vec<u8> {
    (0..3_000_017u32).map(|i| (i % 241) as u8).collect()
}

#[test]
fn the_program_of_the_readme_works() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new(program("embed")).current_dir(&dir).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("4096 bytes read, "), "{said}");
    let contents = std::fs::read(dir.path().join("store.img")).expect("the file is there");
    assert_eq!((contents.len(), &contents[4096..4106]), (64 << 20, &b"any memory"[..]));
}

#[test]
fn copy64_copies_every_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::write(&from, contents()).expect("a file");
    let said = output_of("copy64", &[&from.to_string_lossy(), &to.to_string_lossy()]);
    assert_eq!(said, "3000017 bytes copied\n");
    assert!(std::fs::read(&to).expect("the copy") == contents());
    let missing = run("copy64", &["/nowhere/at/all", &to.to_string_lossy()]);
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/at/all"));
}

#[test]
fn tokio_read_sums_every_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, contents()).expect("a file");
    let sum: u64 = contents().iter().map(|&byte| u64::from(byte)).sum();
    let said = output_of("tokio_read", &[&file.to_string_lossy()]);
    assert_eq!(said, format!("3000017 bytes, their sum is {sum}\n"));
}

#[test]
fn poll_loop_does_all_its_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, contents()).expect("a file");
    for spec in ["null(1G)", "ram(1M, elevator=deadline)", &file.to_string_lossy()] {
        let said = output_of("poll_loop", &[spec, "1000"]);
        assert!(said.starts_with("1000 reads, "), "{spec}: {said}");
    }
}

#[test]
fn my_elevator_runs_by_its_name() {
    assert_eq!(output_of("my_elevator", &[]), "lifo: fair=8, read 7\n");
}

#[test]
fn my_layer_and_my_driver_run_by_their_names() {
    assert_eq!(output_of("my_layer", &[]), "6 on stall(nth=3, pause=5ms, ram)\n");
    assert_eq!(output_of("my_driver", &[]), "shelf: durable\n");
}

/// What the pages on extensions promise: without comments and blank lines, the examples are this short.
#[test]
fn a_layer_a_driver_and_an_elevator_are_short() {
    for (name, most) in [("my_layer", 40), ("my_driver", 60), ("my_elevator", 65)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
        let text = std::fs::read_to_string(&path).expect("an example");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let lines = text.lines().filter(is_code).count();
        assert!(lines <= most, "{name} has {lines} lines of code; at most {most} are promised");
    }
}

#[test]
fn the_pages_on_extensions_show_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (page, name) in
        [("write-a-layer", "my_layer"), ("write-a-driver", "my_driver"), ("write-an-elevator", "my_elevator")]
    {
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
        };
        let example = read(root.join("examples").join(name).with_extension("rs"));
        let page = read(root.join("../../docs").join(page).with_extension("md"));
        assert!(
            page.contains(&format!("```rust\n{example}```\n")),
            "the page does not show {name}.rs as it is"
        );
    }
}

#[test]
fn the_power_cut_finds_the_log_without_a_flush() {
    let said = output_of("power_cut", &[]);
    let [right, wrong] = [said.find("20 I/Os"), said.find("block 1 is lost")].map(Option::unwrap);
    assert!(right < wrong && said.contains("io=1 lost=0/0:1+1"), "{said}");
}
