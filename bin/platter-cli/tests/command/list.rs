//! `platter list`, help, completions, manual pages, colour.

use crate::run::{fails_saying, json, ok, platter};

#[test]
fn every_list_has_its_rows() {
    for (what, names) in [
        ("elevators", &["none", "noop", "deadline"] as &[_]),
        ("drivers", &["null", "ram", "uring", "aio", "threads"]),
        ("readahead", &["none", "linux-2.4", "2.6.6+private", "ondemand", "platter"]),
        ("layers", &["partition"]),
        ("devices", &["file", "ram", "null", "partition"]),
        ("workloads", &["randread", "randwrite", "trim"]),
    ] {
        let (text, list) = (ok(&["list", what]), json(&["list", what]));
        let listed: Vec<&str> =
            list.as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
        for name in names {
            assert!(text.contains(name) && listed.contains(name), "{what}: {name} in {text}");
        }
        for row in list.as_array().unwrap() {
            assert!(row["summary"].is_string() && row["params"].is_array(), "{row}");
        }
    }
}

/// On a terminal of 80 columns the output has every word of the output to a file, and no line that is wider.
#[test]
fn what_is_printed_fits_the_terminal_and_nothing_is_lost() {
    let lists = ["elevators", "drivers", "readahead", "layers", "devices", "workloads"];
    let mut verbs: Vec<Vec<&str>> = lists.iter().map(|what| vec!["list", what]).collect();
    verbs.extend([vec!["sim", "list"], vec!["sim", "list", "--buses"], vec!["readahead", "--count", "20"]]);
    verbs.extend(["nvme_ssd", "cheetah9lp"].map(|disk| vec!["sim", "show", disk]));
    verbs.push(vec!["bench", "io", "--on", "sim(cheetah9lp)", "--number_ios", "5", "--seed", "7"]);
    let steady = |text: &str| -> Vec<String> {
        // Times of the host differ from run to run, and rules are as long as their columns.
        let lines = text.lines().filter(|line| !line.contains("CPU") && !line.contains("real time"));
        // Parameters are a table where it fits, and paragraphs where it does not.
        let lines = lines.filter(|line| !line.starts_with("  parameter "));
        let words = lines.flat_map(str::split_whitespace).map(|word| word.trim_matches([':', ',', '(', ')']));
        words.filter(|word| word.chars().any(char::is_alphabetic)).map(str::to_owned).collect()
    };
    for verb in verbs {
        let full = ok(&verb);
        let narrow = platter().args(&verb).env("COLUMNS", "80").output().unwrap();
        let narrow = String::from_utf8(narrow.stdout).unwrap();
        for line in narrow.lines() {
            assert!(line.chars().count() <= 80, "{verb:?}: {line}");
        }
        let shown = steady(&narrow);
        for word in steady(&full) {
            assert!(shown.contains(&word), "{verb:?}: {word} in {narrow}");
        }
        for wrong in ["0", "wide"] {
            let output = platter().args(&verb).env("COLUMNS", wrong).output().unwrap();
            assert_eq!(steady(&String::from_utf8(output.stdout).unwrap()), steady(&full));
        }
    }
}

#[test]
fn parameters_have_defaults_and_units() {
    let list = json(&["list", "elevators"]);
    let deadline = list.as_array().unwrap().iter().find(|row| row["name"] == "deadline").unwrap();
    let expire = &deadline["params"][0];
    assert_eq!((&expire["name"], &expire["default"]), (&"read_expire".into(), &"500ms".into()));
    assert!(expire["kind"].as_str().unwrap().contains("ms"));
    let devices = json(&["list", "devices"]);
    let file = devices.as_array().unwrap().iter().find(|row| row["name"] == "file").unwrap();
    let path = &file["params"][0];
    assert_eq!((path["name"].as_str(), path["default"].is_null()), (Some("path"), true));
}

#[test]
fn the_catalogue_of_simulated_disks_is_listed() {
    assert!(ok(&["sim", "list"]).contains("ideal: "));
    let list = json(&["sim", "list"]);
    assert!(list.as_array().unwrap().iter().any(|row| row["name"] == "ideal"));
}

#[test]
fn what_cannot_be_listed_is_a_usage_error() {
    fails_saying(2, &["list", "disks"], &["disks", "devices"]);
    fails_saying(2, &["lisst"], &["lisst", "list"]);
    fails_saying(2, &[], &["Usage"]);
}

#[test]
fn help_names_the_exit_statuses_and_gives_examples() {
    let help = ok(&["--help"]);
    for word in ["130", "Examples:", "copy", "info", "list", "bench"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(ok(&["copy", "--help"]).contains("platter copy --verify"));
    assert!(ok(&["--version"]).starts_with("platter "));
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&["completions", shell]).contains("platter"), "{shell}");
    }
    assert!(ok(&["man"]).contains(".TH platter"));
    assert!(ok(&["man", "copy"]).contains("platter\\-copy"));
    fails_saying(2, &["man", "cpoy"], &["cpoy", "copy"]);
}

#[test]
fn colour_is_for_those_who_want_it() {
    let colored = |args: &[&str], no_color: bool| {
        let mut command = platter();
        if no_color {
            command.env("NO_COLOR", "1");
        }
        command.args(args).output().unwrap().stdout.contains(&0x1b)
    };
    assert!(colored(&["list", "elevators", "--color", "always"], false));
    assert!(!colored(&["list", "elevators"], false), "stdout is not a terminal");
    assert!(!colored(&["list", "elevators"], true));
    assert!(!colored(&["list", "elevators", "--color", "never"], false));
}
