//! The elevator of disks whose spec does not name one, from the environment and from a call.
//!
//! Both concern the whole process, so this program runs itself for each case.

use platter::registry::DEFAULT_ELEVATOR_VARIABLE;
use platter::{Access, open, set_default_elevator};
use std::env;
use std::process::Command;

/// Set in the program that this one runs: the specs to open.
const SPECS: &str = "PLATTER_TEST_SPECS";
/// The argument of the call, if there is to be one.
const CALL: &str = "PLATTER_TEST_CALL";

/// Prints the elevator of each disk and where it came from, or the error.
fn report(specs: &str) {
    if let Ok(elevator) = env::var(CALL)
        && let Err(error) = set_default_elevator(&elevator)
    {
        println!("call: {error}");
    }
    for spec in specs.split(';') {
        match open(spec, Access::read()) {
            Ok(disk) => {
                let facts = disk.facts();
                let fact = |wanted: &str| {
                    facts.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.as_str())
                };
                println!("{spec}: {:?} from {:?}", fact("elevator"), fact("elevator from"));
            }
            Err(error) => println!("{spec}: usage={} {error}", error.is_usage()),
        }
    }
}

/// What this program reports with the variable and the call.
fn told(specs: &str, variable: Option<&str>, call: Option<&str>) -> String {
    let mut program = Command::new(env::current_exe().expect("a test is a program"));
    program.args(["--exact", "--nocapture", "disks_without_an_elevator_get_the_default"]);
    program.env(SPECS, specs).env_remove(DEFAULT_ELEVATOR_VARIABLE).env_remove(CALL);
    for (name, value) in [(DEFAULT_ELEVATOR_VARIABLE, variable), (CALL, call)] {
        value.map(|value| program.env(name, value));
    }
    String::from_utf8(program.output().expect("it runs").stdout).expect("text")
}

#[test]
fn disks_without_an_elevator_get_the_default() {
    if let Ok(specs) = env::var(SPECS) {
        return report(&specs);
    }
    let ram = "ram(1M)";
    for (spec, variable, call, expected) in [
        (ram, None, None, r#"Some("none") from None"#),
        (ram, Some(""), None, r#"Some("none") from None"#),
        (ram, Some("deadline"), None, r#"Some("deadline") from Some("PLATTER_ELEVATOR")"#),
        (ram, Some("bfq"), None, r#"Some("bfq") from Some("PLATTER_ELEVATOR")"#),
        (ram, Some("deadline(fifo_batch=3)"), None, r#"Some("deadline") from Some("PLATTER_ELEVATOR")"#),
        (ram, None, Some("cfq"), r#"Some("cfq") from Some("set_default_elevator")"#),
        (ram, Some("deadline"), Some("cfq"), r#"Some("cfq") from Some("set_default_elevator")"#),
        (ram, Some("deadline"), Some("none"), r#"Some("none") from Some("set_default_elevator")"#),
        ("ram(1M, elevator=none)", Some("deadline"), Some("cfq"), r#"Some("none") from None"#),
        ("ram(1M, elevator=noop)", Some("deadline"), None, r#"Some("noop") from None"#),
        ("sim(ideal)", Some("deadline"), None, r#"Some("deadline") from Some("PLATTER_ELEVATOR")"#),
        ("raid0(null(1M), null(1M))", Some("noop"), None, r#"Some("noop") from Some("PLATTER_ELEVATOR")"#),
    ] {
        let told = told(spec, variable, call);
        assert!(told.contains(&format!("{spec}: {expected}")), "{variable:?} {call:?}: {told}");
    }
}

#[test]
fn an_unknown_default_is_an_error_that_says_where_it_is_set() {
    for (variable, said) in [
        ("deadlin", "there is no elevator `deadlin`"),
        ("deadline(fifo_bach=3)", "fifo_bach"),
        ("deadline(fifo_batch=-1)", "fifo_batch"),
        ("deadline(", "not closed"),
        ("/dev/sdb", "there is no elevator `/dev/sdb`"),
    ] {
        let told = told("ram(1M);ram(1M, elevator=noop)", Some(variable), None);
        for part in ["ram(1M): usage=true", said, "the environment variable PLATTER_ELEVATOR"] {
            assert!(told.contains(part), "{variable}: {told}");
        }
        assert!(
            told.contains(r#"ram(1M, elevator=noop): Some("noop")"#),
            "its spec names another one: {told}"
        );
    }
    let told = told("ram(1M)", Some("deadlin"), None);
    assert!(told.contains("did you mean `deadline`?") && told.contains("none, noop, deadline, "), "{told}");
}

#[test]
fn a_refused_call_changes_nothing() {
    let told = told("ram(1M)", Some("noop"), Some("paternoster"));
    assert!(told.contains("call: there is no elevator `paternoster`"), "{told}");
    assert!(told.contains(r#"ram(1M): Some("noop") from Some("PLATTER_ELEVATOR")"#), "{told}");
}
