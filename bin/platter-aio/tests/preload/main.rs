//! Programs that know nothing of Platter, with the library preloaded.

use platter_aio::options::VARIABLES;
use platter_aio::statistics::{ReportForm, STATISTICS};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library that is built with these tests.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let path = program.with_file_name("libplatter_aio.so");
    assert!(path.is_file(), "{} is built with the tests", path.display());
    path
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no {program}");
    }
    found
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    output
}

fn compile(directory: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).unwrap();
    // Functions of the program that the library is to use are exported.
    let options = ["-D_GNU_SOURCE", "-Wall", "-Werror", "-O1", "-pthread", "-rdynamic"];
    // Older versions of glibc have the functions in a library of their own.
    succeeds(Command::new("cc").args(options).arg(&file).arg("-o").arg(&program).args(["-lrt", "-ldl"]));
    program
}

#[test]
fn the_program_of_the_page_prints_the_same_with_and_without_the_library() {
    if !is_there("cc") {
        return;
    }
    let page = include_str!("../../../../docs/aio.md");
    let source = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "page", source);
    let data = directory.path().join("data");
    std::fs::write(&data, [vec![1; 4096], vec![2; 1000]].concat()).unwrap();
    let plain = succeeds(Command::new(&program).arg(&data));
    let preloaded = succeeds(
        Command::new(&program).arg(&data).env("LD_PRELOAD", library()).env("PLATTER_AIO_STATISTICS", "json"),
    );
    assert_eq!(preloaded.stdout, plain.stdout);
    assert_eq!(plain.stdout, b"4096 bytes, first 1\n1000 bytes, first 2\n");
    let report = String::from_utf8(preloaded.stderr).unwrap();
    assert!(report.contains("\"reads\":2,") && report.contains("\"read_bytes\":5096,"), "{report}");
    let wrong = Command::new(&program)
        .arg(&data)
        .env("LD_PRELOAD", library())
        .env("PLATTER_AIO_DEPTH", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1), "{text}");
    assert!(text.contains("PLATTER_AIO_DEPTH=0: expected a number from 1 to 16384"), "{text}");
    assert!(text.contains("Function not implemented"), "{text}");
}

#[test]
fn a_c_program_finds_every_function() {
    if !is_there("cc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "checks", include_str!("checks.c"));
    let data = directory.path().join("data");
    let known = |driver: &str| {
        let mut command = Command::new(&program);
        command.arg(&data).env("LD_PRELOAD", library()).env("PLATTER_AIO_DRIVER", driver);
        command.env("PLATTER_AIO_STATISTICS", "json");
        String::from_utf8(succeeds(&mut command).stderr).unwrap()
    };
    for driver in ["auto", "threads"] {
        let report = known(driver);
        assert!(report.contains("\"writes\":4,") && report.contains("\"signals\":1,"), "{report}");
        assert!(report.contains("\"threads\":1,"), "{report}");
    }
}

/// A program that closes every descriptor, as daemons do: nothing of the library goes to what has the numbers afterwards, and
/// its requests go on.
#[test]
fn a_program_may_close_every_descriptor() {
    if !is_there("cc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), "closed", include_str!("closed.c"));
    for driver in ["auto", "threads"] {
        let mut command = Command::new(&program);
        command.arg(directory.path().join("data")).env("LD_PRELOAD", library());
        succeeds(command.env("PLATTER_AIO_DRIVER", driver));
    }
}

/// fio writes with checksums in each block and reads everything back.
#[test]
fn fio_verifies_what_it_has_written() {
    if !is_there("fio") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (depth, driver) in [("1", "auto"), ("32", "auto"), ("32", "threads")] {
        let file = directory.path().join("fio");
        let mut fio = Command::new("fio");
        fio.args(["--name=verify", "--thread", "--ioengine=posixaio", "--rw=randrw", "--bs=4k", "--size=4m"])
            .args(["--verify=crc32c", "--verify_fatal=1", "--fsync=64", "--randseed=7"])
            .arg(format!("--iodepth={depth}"))
            .arg(format!("--filename={}", file.display()))
            .current_dir(directory.path())
            .env("LD_PRELOAD", library())
            .env("PLATTER_AIO_DRIVER", driver)
            .env("PLATTER_AIO_STATISTICS", "json");
        let output = succeeds(&mut fio);
        let report = String::from_utf8_lossy(&output.stderr);
        let number = |name: &str| -> u64 {
            let rest = report.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{report}"));
            rest.split([',', '}']).next().unwrap().parse().unwrap()
        };
        assert!(number("writes") > 0 && number("reads") >= 1024, "{report}");
        assert_eq!((number("failed"), number("lost_notifications")), (0, 0), "{report}");
        assert!(number("most_outstanding") <= depth.parse().unwrap(), "{report}");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn the_page_has_every_option_and_every_key() {
    let page = include_str!("../../../../docs/aio.md");
    for variable in VARIABLES {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            variable.name, variable.values, variable.default, variable.help
        );
        assert!(page.contains(&row), "{row}");
    }
    let report = STATISTICS.report(ReportForm::Json, "uring");
    for key in report.split('"').skip(1).step_by(2).filter(|key| *key != "uring") {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}
