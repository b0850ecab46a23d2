//! The same tests with other options, which a process reads once.

use std::process::{Command, Output};

/// Set in processes that a test has started.
const INNER: &str = "PLATTER_AIO_TEST_INNER";

pub(crate) fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// Runs tests of this program whose names contain `filter` in a process with these variables.
pub(crate) fn run(filter: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(filter).arg("--nocapture").env(INNER, "1").envs(variables.iter().copied());
    command.output().unwrap()
}

fn all_pass(variables: &[(&str, &str)]) {
    if is_inner() {
        return;
    }
    let output = run("", variables);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{variables:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn all_tests_pass_on_threads() {
    all_pass(&[("PLATTER_AIO_DRIVER", "threads")]);
}

#[test]
fn all_tests_pass_with_one_request_at_a_time_for_each_file() {
    all_pass(&[("PLATTER_AIO_PERSONALITY", "thread-per-file")]);
}
